#!/usr/bin/env python3
"""Writes the distances of the standardised inverse Gaussian from the normal distribution, by
quadrature of their definitions.

usage: distances.py > distances.csv      (needs mpmath; 40 digits)
"""
import mpmath as mp

mp.mp.dps = 40


def row(k):
    """Returns the five distances for the ratio k."""
    k = mp.mpf(k)

    def density(y):
        r = 1 + y / k
        return mp.npdf(0) * r ** mp.mpf(-1.5) * mp.exp(-y * y / (2 * r)) if r > 0 else mp.mpf(0)

    def difference(y):
        """Returns F_Y - Phi.

        At least 80 digits are used, because exp(2 k^2) is far larger than the difference.
        """
        with mp.workdps(80 if k < 50 else 120):
            r = 1 + y / k
            if r <= 0:
                return -mp.ncdf(y)
            w, v = y / mp.sqrt(r), (2 * k + y) / mp.sqrt(r)
            z = v / mp.sqrt(2)
            # For large z, exp and erfc are slow: use the continued fraction of erfcx.
            scaled = mp.exp(z * z) * mp.erfc(z) if z < 50 else fraction(z)
            return mp.ncdf(w) - mp.ncdf(y) + mp.exp(-w * w / 2) * scaled / 2

    def fraction(z):
        """Returns erfcx(z) by its continued fraction."""
        below = z
        for n in range(400, 0, -1):
            below = z + mp.mpf(n) / 2 / below
        return 1 / below / mp.sqrt(mp.pi)

    def log_ratio(y):
        """Returns the logarithm of the quotient of both densities."""
        return y**3 / (2 * (k + y)) - mp.mpf(3) / 2 * mp.log1p(y / k)

    def crossing(f, low, high):
        """Returns the sign change of f, by bisection in the logarithm of k + y.

        k + y may be tiny at the left end.
        """
        positive = f(low) > 0
        for _ in range(160):
            middle = mp.sqrt((k + low) * (k + high)) - k
            if (f(middle) > 0) == positive:
                low = middle
            else:
                high = middle
        return low

    near = k * (1 - mp.mpf(10) ** -35) if k < 40 else mp.mpf(40)
    inner = mp.mpf("0.01") * min(k, 1)
    far = mp.mpf(60) if k > 1 else 400 / k
    left, right = crossing(log_ratio, -near, -inner), crossing(log_ratio, inner, far)
    first, second = crossing(difference, left, mp.mpf(0)), crossing(difference, mp.mpf(0), right)

    def integral(f, points):
        """Integrates f over the ranges between points, which are subdivided.

        Some ranges are even in y, others even in the logarithm of k + y, because the densities
        are steep.
        """
        low, high = points[0], points[-1]
        steps = [(k + low) * ((k + high) / (k + low)) ** (mp.mpf(j) / 60) - k for j in range(1, 60)] if low > -k else []
        lines = [low + (high - low) * mp.mpf(j) / 40 for j in range(1, 40)]
        return mp.quad(f, sorted(set(points + steps + lines)))

    below = mp.ncdf(-near)
    tv = (integral(lambda y: abs(density(y) - mp.npdf(y)), [-near, left, mp.mpf(0), right, far]) + below) / 2
    ks = max(abs(difference(y)) for y in (left, mp.mpf(0), right))
    square = integral(lambda y: (mp.sqrt(density(y)) - mp.sqrt(mp.npdf(y))) ** 2, [-near, left, mp.mpf(0), right, far])
    kl = integral(lambda y: density(y) * log_ratio(y), [-near, left, mp.mpf(0), right, far])
    w1 = integral(lambda y: abs(difference(y)), [-near, first, second, far])
    w1 += mp.npdf(near) - near * mp.ncdf(-near)
    return ks, tv, mp.sqrt((square + below) / 2), kl, w1


print("k,ks,tv,hellinger,kl_ig_n,wasserstein1")
for k in ("0.03125", "0.25", "0.75", "1.1875", "1.25", "2.75", "11.5", "300", "65536", "1000000"):
    print(",".join([k] + [mp.nstr(t, 20, min_fixed=0, max_fixed=0) for t in row(k)]), flush=True)
