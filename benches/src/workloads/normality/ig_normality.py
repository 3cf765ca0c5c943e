"""Total variation distances of standardised inverse Gaussian distributions to the normal one, by
adaptive quadrature.
"""

import protocol


def with_scipy(scipy, ratios):
    return [distance(scipy, ratio**0.5) for ratio in ratios]


def distance(scipy, k):
    distribution = scipy.stats.invgauss(k**-2, loc=-k, scale=k**3)
    normal = scipy.stats.norm

    def difference(y):
        return distribution.pdf(y) - normal.pdf(y)

    # The densities cross at 0 and once on each side of 0.
    left = scipy.optimize.brentq(difference, max(-k, -4) * (1 - 1e-12), -0.3, xtol=1e-14)
    right = scipy.optimize.brentq(difference, 0.3, 4, xtol=1e-14)
    ends = [max(-k, -60), left, 0, right, 6, 60]
    pieces = zip(ends, ends[1:])
    total = sum(abs(scipy.integrate.quad(difference, *piece, epsabs=0, epsrel=1e-9, limit=200)[0]) for piece in pieces)
    return (total + normal.cdf(-k)) / 2


protocol.rival({"ratios": ("n",)}, scipy=with_scipy, dtype="f64")
