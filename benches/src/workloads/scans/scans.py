"""Cumulative sums or cumulative maxima of a matrix along one axis."""

import numpy as np
import protocol


def sums(_, x):
    return x.cumsum(AXIS)


def maxima(_, x):
    return np.maximum.accumulate(x, AXIS)


def maxima_in_torch(_, x):
    # `cummax` also computes the positions.
    return x.cummax(AXIS).values


def maxima_in_jax(_, x):
    from jax.lax import cummax

    return cummax(x, AXIS)


FOLD, _, AXIS = protocol.case().partition("-axis")
AXIS = int(AXIS)
CASES = {"sum": (sums, sums, sums), "max": (maxima, maxima_in_torch, maxima_in_jax)}
protocol.rival({"x": ("rows", "cols")}, *CASES[FOLD])
