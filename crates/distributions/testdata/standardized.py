#!/usr/bin/env python3
"""Writes functions of the inverse Gaussian shifted and scaled to mean 0 and variance 1.

The values are computed with 500 digits from the textbook formulas.

usage: standardized.py > standardized.csv      (needs mpmath)
"""
import mpmath as mp

mp.mp.dps = 500


def functions(k, y):
    """Returns the values of the columns from `pdf` on."""
    k, y = mp.mpf(k), mp.mpf(y)
    r = 1 + y / k
    w, v = y / mp.sqrt(r), (2 * k + y) / mp.sqrt(r)
    ln_pdf = -mp.log(2 * mp.pi) / 2 - mp.mpf(3) / 2 * mp.log(r) - w * w / 2
    other = mp.exp(2 * k * k) * mp.erfc(v / mp.sqrt(2)) / 2
    cdf, sf = mp.erfc(-w / mp.sqrt(2)) / 2 + other, mp.erfc(w / mp.sqrt(2)) / 2 - other
    ln_cdf = mp.log(cdf) if cdf < 0.5 else mp.log1p(-sf)
    ln_sf = mp.log(sf) if sf < 0.5 else mp.log1p(-cdf)
    return mp.exp(ln_pdf), ln_pdf, cdf, sf, ln_cdf, ln_sf


print("k,y,pdf,logpdf,cdf,sf,logcdf,logsf")
for k in (0.001, 0.03, 0.7, 1.0, 3.0, 12.5, 300.0, 1e4, 1e6, 3e7):
    for share in (-0.999, -0.9, -0.3, -1e-3, -1e-9, 0.0, 1e-12, 1e-5, 0.2, 1.0, 9.0):
        for scale in (k, 3.0):
            y = share * scale
            if y > -k and abs(y) < 38 + 40 / k:
                print(",".join([repr(k), repr(y)] + [mp.nstr(t, 25, min_fixed=0, max_fixed=0) for t in functions(k, y)]))
