#!/usr/bin/env python3
"""Writes the golden data of estimation.

The files are estimate-samples.csv, estimate-quantiles.csv and estimate-kolmogorov.csv.

Samples are exact f64. Their statistics are computed with mpmath at 120 and at 240 digits from the
textbook formulas, in which digits cancel. Quantiles are roots found by mpmath, starting at the
quantiles of scipy, and are compared with them. p-values of Kolmogorov's statistic are exact. They
are compared with scipy's, which neglect the probability of deviations on both sides in the tail.
usage: estimate.py DIRECTORY      (needs mpmath, numpy, scipy)
"""
import csv
import sys

import mpmath as mp
import numpy as np
from scipy import stats

LEVEL = 0.95


def text(x):
    return mp.nstr(x, 22, min_fixed=0, max_fixed=0)


def draw(rng, mean, shape, n):
    """Draws inverse Gaussian numbers from normal numbers by the method of the signed root."""
    t = 0.5 * np.abs(rng.standard_normal(n)) * np.sqrt(mean / shape)
    q = (t + np.sqrt(1 + t * t)) ** 2
    return np.where(rng.random(n) * (1 + q) < 1, mean * q, mean / q)


def chi_squared(freedom, p, is_upper):
    """Returns the quantile of chi-squared with the upper or lower tail p."""
    distribution = stats.chi2(float(freedom))
    start = mp.mpf(float(distribution.isf(p) if is_upper else distribution.ppf(p)))
    a, p = mp.mpf(freedom) / 2, mp.mpf(p)

    def miss(y):
        x = mp.e**y / 2
        ends = (x, mp.inf) if is_upper else (0, x)
        return mp.log(mp.gammainc(a, *ends, regularized=True) / p)

    return mp.e ** mp.findroot(miss, mp.log(start))


def student(freedom, p):
    """Returns the number that the size of a Student variable exceeds with probability p."""
    start = mp.mpf(float(stats.t(float(freedom)).isf(p / 2)))
    v, p = mp.mpf(freedom), mp.mpf(p)

    def miss(y):
        t = mp.e**y
        return mp.log(mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / p)

    return mp.e ** mp.findroot(miss, mp.log(start))


def goodness(mean, shape, xs):
    """Returns the Anderson-Darling and the Kolmogorov statistic for given parameters."""
    mean, shape, n = mp.mpf(mean), mp.mpf(shape), len(xs)
    lower, upper = [], []
    for x in sorted(xs):
        s = mp.sqrt(shape / mp.mpf(x) / 2)
        w, v = s * (mp.mpf(x) / mean - 1), s * (mp.mpf(x) / mean + 1)
        other = mp.exp(2 * shape / mean) * mp.erfc(v)
        lower.append((mp.erfc(-w) + other) / 2)
        upper.append((mp.erfc(w) - other) / 2)
    total = sum((2 * i + 1) * (mp.log(lower[i]) + mp.log(upper[n - 1 - i])) for i in range(n))
    largest = max(max(mp.mpf(i + 1) / n - f, f - mp.mpf(i) / n) for i, f in enumerate(lower))
    return -n - total / n, largest


def facts(mean, shape, xs):
    """Returns the results for a sample, in the order of SAMPLE."""
    n = len(xs)
    m = mp.fsum(map(mp.mpf, xs)) / n
    dispersion = mp.fsum(1 / mp.mpf(x) for x in xs) - n / m
    tail = (1 - LEVEL) / 2
    t, z = student(n - 1, 1 - LEVEL), mp.sqrt(chi_squared(1, 1 - LEVEL, True))
    unknown = t * mp.sqrt(m * dispersion / n / (n - 1))
    known = z * mp.sqrt(m / (n * mp.mpf(shape)))
    ends = [chi_squared(n - 1, tail, side) / dispersion for side in (False, True)]
    for c in (unknown, known):
        ends += [m / (1 + c), m / (1 - c) if c < 1 else mp.inf]
    errors = [mp.sqrt(m**3 * dispersion) / n, n / dispersion * mp.sqrt(mp.mpf(2) / n)]
    return [m, dispersion, n / dispersion, *errors, *ends, *goodness(mean, shape, xs)]


def write(path, names, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(names)
        out.writerows(rows)


def samples():
    """Yields the rows of estimate-samples.csv."""
    rng = np.random.default_rng(6)
    for exponent in range(-14, 7, 2):
        for scale, n in ((1.0, 40), (1e140, 7), (1e-140, 2), (0.3, 12)):
            shape = float(scale * 10.0**-exponent)
            xs = [float(x) for x in draw(rng, scale, shape, n)]
            if exponent == 0 and n == 12:
                xs[5] = 5000.0  # an outlier, at which the distribution function is 1 in f64
            found = []
            for digits in (120, 240):
                with mp.workdps(digits):
                    found.append(facts(scale, shape, xs))
            for a, b in zip(*found):
                assert a == b or abs(a / b - 1) < mp.mpf(10) ** -30, (scale, shape, n)
            yield [repr(scale), repr(shape), *map(text, found[1]), " ".join(map(repr, xs))]


def quantiles():
    """Yields the rows of estimate-quantiles.csv."""
    mp.mp.dps = 40
    for freedom in (0.25, 1, 2, 3, 7.5, 20, 59, 150, 400, 600, 1000, 3000, 9999, 10001, 25000):
        for p in (0.9, 0.5, 0.1, 0.025, 5e-4, 1e-9, 1e-16):
            for kind, value, check in (
                ("lower", chi_squared(freedom, p, False), stats.chi2.ppf(p, freedom)),
                ("upper", chi_squared(freedom, p, True), stats.chi2.isf(p, freedom)),
                ("student", student(freedom, p), stats.t.isf(p / 2, freedom)),
            ):
                assert abs(value / float(check) - 1) < 1e-12, (kind, freedom, p)
                yield [kind, repr(freedom), repr(p), text(value)]


def both_sides(n, d):
    """Returns P(D > d) by Durbin's matrix, in f64 with a separate exponent.

    Source: Marsaglia, Tsang and Wang 2003, "Evaluating Kolmogorov's distribution".
    """
    k = int(np.ceil(n * d))
    m, h = 2 * k - 1, k - n * d
    matrix = np.tril(np.ones((m, m)), 1)
    matrix[:, 0] -= h ** np.arange(1, m + 1)
    matrix[-1, :] -= h ** np.arange(m, 0, -1)
    matrix[-1, 0] += max(2 * h - 1, 0) ** m
    for i in range(m):
        for j in range(min(i + 1, m)):
            matrix[i, j] /= float(mp.factorial(i - j + 1)) if i - j < 150 else np.inf
    exponent, result, power, left = 0, np.eye(m), matrix, n
    shift = 0
    while left:
        if left % 2:
            result, exponent = result @ power, exponent + shift
            if result[k - 1, k - 1] > 1e140:
                result, exponent = result * 1e-140, exponent + 140
        power, shift, left = power @ power, 2 * shift, left // 2
        if power[k - 1, k - 1] > 1e140:
            power, shift = power * 1e-140, shift + 140
    ln_below = mp.log(float(result[k - 1, k - 1])) + exponent * mp.log(10) + mp.log(mp.factorial(n)) - n * mp.log(n)
    return -mp.expm1(ln_below)


def one_side(n, d):
    """Returns P(D+ > d) by the formula of Birnbaum and Tingey."""
    with mp.workdps(60):
        d = mp.mpf(d)
        terms = (mp.binomial(n, j) * (d + mp.mpf(j) / n) ** (j - 1) * (1 - d - mp.mpf(j) / n) ** (n - j)
                 for j in range(n + 1) if 1 - d - mp.mpf(j) / n > 0)
        return d * mp.fsum(terms)


def kolmogorov():
    """Yields the rows of estimate-kolmogorov.csv, exact p-values.

    Computed by matrices for both sides. Where deviations on both sides have less than 1e-12 of the p-value, it is twice
    the one-sided probability.
    """
    # Points at which the corrected limit distribution has its largest errors.
    for n, d in ((1, 0.35), (2, 0.48333), (3, 0.3), (10, 0.18974), (11, 0.18)):
        yield [n, repr(d), text(both_sides(n, d))]
    for n in (1, 2, 5, 10, 20, 50, 200, 1000):
        for p in (0.999, 0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01, 1e-4, 1e-8, 1e-14):
            d = float(stats.kstwo.isf(p, n))
            is_tail = d >= 0.5 or 6 * n * d * d > 28
            exact = 2 * one_side(n, d) if is_tail else both_sides(n, d)
            # For 140 and more observations scipy uses a limit distribution.
            assert abs(exact / stats.kstwo.sf(d, n) - 1) < 1e-4, (n, p, exact)
            yield [n, repr(d), text(exact)]


SAMPLE = "mu lambda mean dispersion shape mean_error shape_error shape_lower shape_upper mean_lower mean_upper"
SAMPLE += " known_lower known_upper anderson_darling kolmogorov xs"
write(f"{sys.argv[1]}/estimate-samples.csv", SAMPLE.split(), samples())
write(f"{sys.argv[1]}/estimate-quantiles.csv", ["kind", "freedom", "p", "x"], quantiles())
write(f"{sys.argv[1]}/estimate-kolmogorov.csv", ["n", "d", "p"], kolmogorov())
