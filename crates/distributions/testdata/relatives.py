#!/usr/bin/env python3
"""Writes golden points of the relatives of the inverse Gaussian (reciprocal, Levy, first passage)
or of Wald's test.

The values are computed with 400 and with 800 digits from the textbook formulas, in which digits
cancel; both must agree. Inputs are exact f64. `ln_cdf` and `ln_sf` are finite where `cdf` and `sf`
underflow in f64. In rows of a kind `inverse_*` `x` is the result for the input `p`. `condition` is
the derivative of ln x with respect to the logarithm of the probability; if p is a logarithm, with
respect to the logarithm of p.
usage: relatives.py > relatives.csv      relatives.py sprt > sprt.csv      (needs mpmath)
"""
import csv
import math
import random
import sys

import mpmath as mp

VALUES = ["pdf", "cdf", "sf", "ln_pdf", "ln_cdf", "ln_sf", "hazard"]
QUANTILES = ["inverse_cdf", "inverse_sf", "inverse_ln_cdf", "inverse_ln_sf"]


def passage(level, drift, volatility, t):
    """Returns the density and both tails of the first passage time."""
    s = 1 / (volatility * mp.sqrt(2 * t))
    other = mp.exp(2 * drift * level / volatility**2) * mp.erfc((level + drift * t) * s) / 2
    density = level * s / (mp.sqrt(mp.pi) * t) * mp.exp(-(((level - drift * t) * s) ** 2))
    return density, mp.erfc((level - drift * t) * s) / 2 + other, mp.erfc((drift * t - level) * s) / 2 - other


def inverse_gaussian(mean, shape, x):
    return passage(mean, mp.mpf(1), mean / mp.sqrt(shape), x)


def reciprocal(mean, shape, _, y):
    density, lower, upper = inverse_gaussian(mean, shape, 1 / y)
    return density / y**2, upper, lower


def levy(scale, _, __, x):
    return passage(mp.sqrt(scale), mp.mpf(0), mp.mpf(1), x)


DISTRIBUTIONS = {"reciprocal": reciprocal, "levy": levy, "passage": passage}


def at(distribution, parameters, x):
    """Returns the density and both tails of a distribution."""
    return DISTRIBUTIONS[distribution](*(mp.mpf(p) for p in parameters), mp.mpf(x))


def values(distribution, parameters, x):
    """Returns the values of VALUES."""
    found = at(distribution, parameters, x)
    return [*found, *(mp.log(value) for value in found), found[0] / found[2]]


def quantile(distribution, parameters, kind, p, x):
    """Returns a quantile and its condition, by Newton's method in ln x from the starting point x.

    Returns None if a step is too long or the method does not converge.
    """
    side = 2 if kind.endswith("sf") else 1
    is_ln = "ln" in kind
    ln_p = mp.mpf(p) if is_ln else mp.log(mp.mpf(p))
    sign = -1 if side == 2 else 1
    x = mp.mpf(x)
    for _ in range(12):
        found = at(distribution, parameters, x)
        rate = x * found[0] / found[side]
        step = (ln_p - mp.log(found[side])) / (sign * rate)
        if abs(step) > 1:
            break
        x *= mp.exp(step)
        if abs(step) < mp.mpf(10) ** -40:
            condition = (abs(mp.mpf(p)) if is_ln else 1) / rate
            return [x, condition]
    return None


def agreed(of):
    """Returns the numbers of `of()` as texts; fails if 400 and 800 digits do not agree."""
    found = []
    for digits in (400, 800):
        with mp.workdps(digits):
            found.append(of())
    for a, b in zip(*found):
        # Numbers far below f64's range count as 0.
        assert abs(a - b) <= mp.mpf(10) ** -30 * abs(b) or max(abs(a), abs(b)) < mp.mpf(10) ** -330, (a, b)
    return [mp.nstr(value, 25, min_fixed=0, max_fixed=0) for value in found[1]]


def draw(rng, distribution):
    """Draws parameters, and a number from the body of the distribution or from one of its tails."""
    root = rng.uniform(-3, 3) if rng.random() < 0.5 else rng.choice((-1, 1)) * 10 ** rng.uniform(0.5, 12)
    phi = 10 ** rng.uniform(-14, 8)
    t = abs(root) * math.sqrt(phi) / 2
    ratio = (t + math.sqrt(1 + t * t)) ** math.copysign(2, root)
    if distribution == "reciprocal":
        mean = 10 ** rng.uniform(-140, 140)
        return (mean, mean / phi, ""), 1 / (mean * ratio)
    if distribution == "levy":
        scale = 10 ** rng.uniform(-140, 140)
        return (scale, "", ""), scale * 10 ** rng.uniform(*rng.choice([(-24, -2), (-2, 2), (2, 40)]))
    level, volatility = 10 ** rng.uniform(-30, 30), 10 ** rng.uniform(-30, 30)
    sign = rng.choice((-1, -1, 0, 1))
    if sign < 0 and rng.random() < 0.7:
        # A hitting probability in f64's range.
        phi = 10 ** rng.uniform(-2.4, 18)
    if sign == 0:
        return (level, 0.0, volatility), (level / volatility) ** 2 * 10 ** rng.uniform(-24, 40)
    drift = volatility**2 / (level * phi)
    return (level, sign * drift, volatility), level / drift * ratio



def relatives(out):
    """Writes the rows of relatives.csv."""
    rng = random.Random(4)
    out.writerow(["id", "distribution", "kind", "first", "second", "third", "x", "p", *VALUES, "condition"])
    n_rows = 0
    for distribution, n_points, n_quantiles in (("reciprocal", 70, 40), ("levy", 30, 20), ("passage", 90, 60)):
        for _ in range(n_points):
            parameters, x = draw(rng, distribution)
            given = [p for p in parameters if p != ""]
            padded = [0 if p == "" else p for p in parameters]
            found = agreed(lambda: values(distribution, padded, x))
            out.writerow([n_rows, distribution, "eval", *map(repr, given), *[""] * (3 - len(given)), repr(x), "", *found, ""])
            n_rows += 1
        done = 0
        while done < n_quantiles:
            parameters, x = draw(rng, distribution)
            given = [p for p in parameters if p != ""]
            padded = [0 if p == "" else p for p in parameters]
            kind = QUANTILES[done % 4]
            with mp.workdps(400):
                near = values(distribution, padded, x)
            p = float(near[VALUES.index(kind.removeprefix("inverse_"))])
            # For an input at the end of its range the quantile is another number, or does not
            # exist.
            if p in (0.0, 1.0) or abs(p) < 1e-300 or p > 1 - 1e-9 or -1e-9 < p < 0:
                continue
            # If p hardly depends on x, the quantile is far from x, and its condition is too large
            # to be useful.
            with mp.workdps(400):
                is_far = quantile(distribution, padded, kind, p, x) is None
            if is_far:
                continue
            answer, condition = agreed(lambda: quantile(distribution, padded, kind, p, x))
            if float(condition) > 1e6:
                continue
            out.writerow([n_rows, distribution, kind, *map(repr, given), *[""] * (3 - len(given)), answer, repr(p), *[""] * len(VALUES), condition])
            n_rows += 1
            done += 1


def test_values(null, alternative, std_dev, alpha, beta, mean, u):
    """Returns the results of Wald's test by its textbook formulas, in the order of the columns."""
    null, alternative, std_dev, alpha, beta, mean, u = map(
        mp.mpf, (null, alternative, std_dev, alpha, beta, mean, u)
    )
    lower, upper = mp.log(beta / (1 - alpha)), mp.log((1 - beta) / alpha)
    squared = ((alternative - null) / std_dev) ** 2
    drift = (alternative - null) * (mean - (null + alternative) / 2) / std_dev**2
    h = -2 * drift / squared
    if h == 0:
        accept = upper / (upper - lower)
        size = -lower * upper / squared
    else:
        accept = (mp.exp(h * upper) - 1) / (mp.exp(h * upper) - mp.exp(h * lower))
        size = (accept * lower + (1 - accept) * upper) / drift
    tilt, root = drift / squared, mp.sqrt(drift**2 + 2 * u * squared) / squared
    width = mp.sinh(root * (upper - lower))
    transform = (mp.exp(tilt * upper) * mp.sinh(-root * lower) + mp.exp(tilt * lower) * mp.sinh(root * upper)) / width
    return [lower, upper, accept, 1 - accept, size, transform]


def sprt(out):
    """Writes the rows of sprt.csv."""
    rng = random.Random(5)
    names = ["null", "alternative", "std_dev", "alpha", "beta", "mean", "u"]
    out.writerow([*names, "lower", "upper", "acceptance", "power", "size", "transform"])
    for i in range(40):
        null, width = rng.uniform(-2, 2), rng.choice((-1, 1)) * 10 ** rng.uniform(-2, 1)
        alternative, std_dev = null + width, 10 ** rng.uniform(-1, 1)
        alpha, beta = 10 ** rng.uniform(-12, -0.5), 10 ** rng.uniform(-12, -0.5)
        share = (0, 1, 0.5, rng.uniform(0.49, 0.51), rng.uniform(-1, 2))[i % 5]
        if share == 0.5:
            # The mean is exactly half-way between both hypotheses, where the drift is 0.
            null, alternative = -0.5 * width, 0.5 * width
        mean = (null, alternative, 0.0, null + share * width, null + share * width)[i % 5]
        inputs = [null, alternative, std_dev, alpha, beta, mean, width**2 / std_dev**2 * 10 ** rng.uniform(-4, 1)]
        out.writerow([*map(repr, inputs), *agreed(lambda: test_values(*inputs))])


writer = csv.writer(sys.stdout, lineterminator="\n")
if sys.argv[1:] == ["sprt"]:
    sprt(writer)
else:
    relatives(writer)
