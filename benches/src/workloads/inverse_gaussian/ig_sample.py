"""Draws from the inverse Gaussian distribution with mean 0.5 and shape 1, as many as the input has
numbers.
"""

import protocol


def with_scipy(scipy, x):
    return scipy.stats.invgauss.rvs(0.5, size=len(x), random_state=GENERATOR)


def prepare(arrays, args):
    # NumPy's current generator; by default SciPy uses the slower legacy generator.
    import numpy

    global GENERATOR
    GENERATOR = numpy.random.default_rng(1)


protocol.rival({"x": ("n",)}, scipy=with_scipy, dtype="f64", prepare=prepare)
