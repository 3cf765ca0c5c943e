"""Products of one pair of matrices, of a batch of pairs, or with a transposed left factor."""

import protocol


def product(_, x, y):
    return x @ y


def of_transposed(_, x, y):
    return x.T @ y


LEFT, RIGHT = ("rows", "inner"), ("inner", "cols")
CASES = {
    "batch": (("batch", *LEFT), ("batch", *RIGHT), product),
    "single": (LEFT, RIGHT, product),
    "transposed": (LEFT[::-1], RIGHT, of_transposed),
}
left, right, work = CASES[protocol.case()]
protocol.rival({"x": left, "y": right}, work, work, work, blas=True)
