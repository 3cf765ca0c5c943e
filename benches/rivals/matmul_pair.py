"""Two matrix products that do not wait for each other, each shifted, and their sum."""

import protocol


def pair(_, x, y, z):
    return (x @ y + 100) + (x @ z + 1000)


SQUARE = ("n", "n")
protocol.rival({"x": SQUARE, "y": SQUARE, "z": SQUARE}, pair, pair, pair, blas=True)
