"""Matrix product."""

import protocol


def multiply(_, a, b):
    return a @ b


protocol.rival({"a": ("m", "k"), "b": ("k", "n")}, multiply, multiply, multiply, blas=True)
