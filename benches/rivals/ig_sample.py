"""As many draws from the inverse Gaussian law of mean 0.5 and shape 1 as there are numbers in the input."""

import protocol


def with_scipy(scipy, x):
    return scipy.stats.invgauss.rvs(0.5, size=len(x), random_state=GENERATOR)


def prepare(arrays, args):
    # NumPy's generator of today; without it SciPy takes the slower one of old.
    import numpy

    global GENERATOR
    GENERATOR = numpy.random.default_rng(1)


protocol.rival({"x": ("n",)}, scipy=with_scipy, dtype="f64", prepare=prepare)
