#!/usr/bin/env python3
"""Writes more columns for the points of ig-reference.csv: density, hazard rate and the derivatives
of the quantile.

The values are computed with 400 and with 800 digits from the textbook formulas, in which digits
cancel; both must agree.
usage: ig_more.py ig-reference.csv > ig-more.csv      (needs mpmath)
"""
import csv
import sys

import mpmath as mp


def columns(mean, shape, x):
    """Returns the density, the hazard rate, and the derivatives of a quantile."""
    mean, shape, x = (mp.mpf(float(t)) for t in (mean, shape, x))
    s = mp.sqrt(shape / x)
    w, v = s * (x / mean - 1), s * (x / mean + 1)
    density = s / x * mp.npdf(w)
    other = mp.exp(2 * shape / mean) * mp.erfc(v / mp.sqrt(2)) / 2
    upper = mp.erfc(w / mp.sqrt(2)) / 2 - other
    # Implicit differentiation of F(x) = p: minus the derivative of F by the parameter, divided by
    # the density.
    by_mean = 2 * shape / mean**2 * other / density
    by_shape = (mp.npdf(w) * s / shape - 2 / mean * other) / density
    return density, density / upper, by_mean, by_shape


def main(path):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["id", "pdf", "hazard", "by_mean", "by_shape"])
    for row in csv.DictReader(open(path)):
        if row["kind"] != "eval":
            continue
        found = []
        for digits in (400, 800):
            with mp.workdps(digits):
                found.append(columns(row["mu"], row["lambda"], row["x"]))
        for a, b in zip(*found):
            assert a == b or abs(a / b - 1) < mp.mpf(10) ** -30, row["id"]
        out.writerow([row["id"]] + [mp.nstr(t, 25, min_fixed=0, max_fixed=0) for t in found[1]])


main(sys.argv[1])
