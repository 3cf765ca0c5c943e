"""Distribution function of the inverse Gaussian distribution with mean 0.5 and shape 1."""

import protocol


def with_scipy(scipy, x):
    return scipy.stats.invgauss.cdf(x, 0.5)


protocol.rival({"x": ("n",)}, scipy=with_scipy, dtype="f64")
