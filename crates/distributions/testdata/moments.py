#!/usr/bin/env python3
"""Writes moments, entropy, mode and transforms of the inverse Gaussian for a grid of parameters.

All values are computed with 200 digits: raw moments by Bessel functions; central moments from raw
moments by the binomial sum, in which digits cancel; the entropy by its closed form, compared with a
quadrature where the quadrature is fast; and transforms by the textbook formula.
usage: moments.py > moments.csv      (needs mpmath)
"""
import mpmath as mp

mp.mp.dps = 200
NAMES = [f"raw{n}" for n in (-3, -1, 1, 2, 5)] + [f"central{n}" for n in (2, 3, 6)]
NAMES += ["entropy", "mode", "cgf_at", "cgf", "cf_at", "cf_re", "cf_im"]


def row(mean, shape, checks):
    """Returns the values of NAMES; `checks` enables the quadrature of the entropy."""
    mean, shape = mp.mpf(mean), mp.mpf(shape)
    phi = mean / shape

    def raw(n):
        return mp.exp(1 / phi) * mp.sqrt(2 * shape / mp.pi) * mean ** (n - mp.mpf(1) / 2) * mp.besselk(n - mp.mpf(1) / 2, 1 / phi)

    def central(n):
        return mp.fsum(mp.binomial(n, j) * raw(j) * (-mean) ** (n - j) for j in range(n + 1))

    x = 2 / phi
    entropy = mp.log(2 * mp.pi * mp.e * mean**3 / shape) / 2 - mp.mpf(3) / 2 * mp.exp(x) * mp.e1(x)
    if checks:
        with mp.workdps(30):
            def term(u):
                y = mean * mp.exp(u)
                ln_f = mp.log(shape / (2 * mp.pi * y**3)) / 2 - shape * (y - mean) ** 2 / (2 * mean**2 * y)
                return -y * mp.exp(ln_f) * ln_f
            found = mp.quad(term, [mp.mpf(j) / 2 for j in range(-30, 31)])
        assert abs(found / entropy - 1) < mp.mpf(10) ** -15, (mean, shape, found, entropy)
    kappa = 3 * phi / 2
    mode = mean * (mp.sqrt(1 + kappa**2) - kappa)
    cgf_at = mp.mpf(float(shape / (3 * mean**2)))
    cgf = (1 - mp.sqrt(1 - 2 * mean**2 * cgf_at / shape)) / phi
    cf_at = mp.mpf(float(mp.mpf("1.5") / (mean * mp.sqrt(phi))))
    cf = (1 - mp.sqrt(1 - 2j * mean**2 * cf_at / shape)) / phi
    return [raw(n) for n in (-3, -1, 1, 2, 5)] + [central(n) for n in (2, 3, 6)] + [entropy, mode, cgf_at, cgf, cf_at, cf.real, cf.imag]


print(",".join(["mean", "shape"] + NAMES))
for exponent in (-14, -10, -6, -3, -1, 0, 1, 3, 5, 8):
    for mean in ("1", "0.037", "2500"):
        mean = float(mean)
        shape = mean / 10.0**exponent
        values = row(mean, shape, -2 <= exponent <= 0)
        print(",".join([repr(mean), repr(shape)] + [mp.nstr(v, 25, min_fixed=0, max_fixed=0) for v in values]), flush=True)
