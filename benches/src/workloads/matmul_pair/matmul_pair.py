"""Sum of two independent matrix products, with a constant added to each."""

import protocol


def pair(_, x, y, z):
    return (x @ y + 100) + (x @ z + 1000)


SQUARE = ("n", "n")
protocol.rival({"x": SQUARE, "y": SQUARE, "z": SQUARE}, pair, pair, pair, blas=True)
