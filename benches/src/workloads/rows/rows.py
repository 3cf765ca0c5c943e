"""Sums or largest elements of a matrix along one axis."""

import protocol


def total(_, x):
    return x.sum(AXIS)


def largest(_, x):
    return x.max(AXIS)


def largest_in_torch(_, x):
    # `max` also computes the positions.
    return x.amax(AXIS)


FOLD, _, AXIS = protocol.case().partition("-axis")
AXIS = int(AXIS)
CASES = {"sum": (total, total, total), "max": (largest, largest_in_torch, largest)}
protocol.rival({"x": ("rows", "cols")}, *CASES[FOLD])
