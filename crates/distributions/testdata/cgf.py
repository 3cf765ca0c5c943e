#!/usr/bin/env python3
"""Writes the cumulant generating function near the end of its range, or cumulants and central
moments of high orders.

Parameters are from 1e-150 to 1e150. `t` is from -1e6 times the end of the range to one rounding
below the end. All inputs are exact f64; the results are computed with 60 digits. Central moments
are computed by the recursion from the cumulants, whose terms are all positive.
usage: cgf.py > cgf.csv      cgf.py orders > high-orders.csv      (needs mpmath)
"""
import csv
import random
import sys

import mpmath as mp

mp.mp.dps = 60


def text(value):
    return mp.nstr(value, 20, min_fixed=0, max_fixed=0)


def transforms(out):
    """Writes the rows of cgf.csv."""
    rng = random.Random(3)
    out.writerow(["mean", "shape", "t", "cgf"])
    rows = [(3.0, 1.0, 0.055555555555555525), (3.0, 1.0, 0.05555554938764986)]
    while len(rows) < 300:
        mean = 10 ** rng.uniform(-150, 150)
        shape = mean / 10 ** rng.uniform(-14, 8)
        share = 1 - 10 ** rng.uniform(-17, 0) if rng.random() < 0.8 else -(10 ** rng.uniform(-6, 6))
        t = float(mp.mpf(shape) / (2 * mp.mpf(mean) ** 2) * mp.mpf(share))
        if 1e-150 < shape < 1e150 and 1e-290 < abs(t) < 1e290 and 2 * mp.mpf(mean) ** 2 * mp.mpf(t) <= mp.mpf(shape):
            rows.append((mean, shape, t))
    for mean, shape, t in rows:
        m, s = mp.mpf(mean), mp.mpf(shape)
        value = s / m * (1 - mp.sqrt(1 - 2 * m * m * mp.mpf(t) / s))
        out.writerow([repr(mean), repr(shape), repr(t), text(value)])


def orders(out):
    """Writes the rows of high-orders.csv."""
    rng = random.Random(4)
    out.writerow(["mean", "shape", "n", "cumulant", "central"])
    rows = [(1e-7, 1e-15, 107), (1e-7, 1e-15, 108)]
    while len(rows) < 60:
        mean = 10 ** rng.uniform(-12, 12)
        rows.append((mean, mean / 10 ** rng.uniform(-14, 8), rng.randrange(2, 120)))
    for mean, shape, n in rows:
        m, s = mp.mpf(mean), mp.mpf(shape)
        cumulants = [mp.mpf(0), m]
        moments = [mp.mpf(1), mp.mpf(0)]
        for order in range(2, n + 1):
            cumulants.append(cumulants[-1] * (2 * order - 3) * m * m / s)
            terms = (mp.binomial(order - 1, j - 1) * cumulants[j] * moments[order - j] for j in range(2, order + 1))
            moments.append(mp.fsum(terms))
        out.writerow([repr(mean), repr(shape), n, text(cumulants[n]), text(moments[n])])


writer = csv.writer(sys.stdout, lineterminator="\n")
orders(writer) if sys.argv[1:] == ["orders"] else transforms(writer)
