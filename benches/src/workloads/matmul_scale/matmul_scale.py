"""A matrix product, scaled and shifted."""

import protocol


def scale(_, x, y):
    return (x @ y) * 100 + 10


protocol.rival({"x": ("n", "n"), "y": ("n", "n")}, scale, scale, scale, blas=True)
