#!/usr/bin/env python3
"""Writes golden points of five distributions.

Parameters are from 1e-150 to 1e150, logarithms of probabilities down to -1e8.

The values are computed with 250 and with 400 digits from the textbook formulas, in which digits
cancel; both must agree to 30 digits. Parameters, the `x` of rows `eval`, and `p` are exact f64. In
rows of a kind `inverse_*`, `x` is the quantile of `p`. There `p` is the value of the function at a
random number, rounded to f64; the quantile is this number after one Newton step in `ln x`, whose
error is the square of the rounding error of p. `condition` is the derivative of ln x with respect
to the logarithm of the probability (if p is a logarithm, with respect to the logarithm of p). For
the shifted distribution, whose third parameter is the shift `s`, it is
`(1 + condition of x - s) (x - s)/|x|`. `by_mean` and `by_shape` are the derivatives of a quantile.

Most rows are random. The rows whose id begins with "found" are at the points of `wide-found.csv`.
At these points a function had its largest error among 78 000 random points of this script and of
three narrower regions: 1e-4 <= mean/shape <= 1e5 with signed roots from -4 to 4; the neighbourhood
of the median with mean/shape from 3e3 to 1e8; and the neighbourhood of the mean. The remaining
points have an `ln_sf` of a first passage time close to 0.

First passage times have less extreme parameters than the other distributions: level and volatility
are from 1e-50 to 1e50, so that the drift and the square of level/volatility are in f64's range.
usage: wide.py wide-found.csv > wide.csv      (needs mpmath)
"""
import csv
import math
import random
import sys

import mpmath as mp

VALUES = ["pdf", "cdf", "sf", "ln_pdf", "ln_cdf", "ln_sf", "hazard"]
QUANTILES = ["inverse_cdf", "inverse_sf", "inverse_ln_cdf", "inverse_ln_sf"]
LEAST_DIGITS = 30
# Distribution, points of functions, points of each of the four quantile functions.
COUNTS = [("gaussian", 240, 60), ("reciprocal", 60, 20), ("levy", 40, 20), ("passage", 90, 25), ("shifted", 60, 15)]


def passage(level, drift, volatility, t):
    """Returns the density and both tails of the first passage time."""
    s = 1 / (volatility * mp.sqrt(2 * t))
    other = mp.exp(2 * drift * level / volatility**2) * mp.erfc((level + drift * t) * s) / 2
    density = level * s / (mp.sqrt(mp.pi) * t) * mp.exp(-(((level - drift * t) * s) ** 2))
    return density, mp.erfc((level - drift * t) * s) / 2 + other, mp.erfc((drift * t - level) * s) / 2 - other


def gaussian(mean, shape, _, x):
    return passage(mean, mp.mpf(1), mean / mp.sqrt(shape), x)


def reciprocal(mean, shape, _, y):
    density, lower, upper = gaussian(mean, shape, None, 1 / y)
    return density / y**2, upper, lower


def levy(scale, _, __, x):
    return passage(mp.sqrt(scale), mp.mpf(0), mp.mpf(1), x)


def shifted(mean, shape, shift, x):
    return gaussian(mean, shape, None, x - shift)


DISTRIBUTIONS = {"gaussian": gaussian, "reciprocal": reciprocal, "levy": levy, "passage": passage, "shifted": shifted}


def gradient(distribution, parameters, x):
    """Returns the derivatives of a quantile by mean and shape at a fixed probability.

    Empty for distributions other than the inverse Gaussian.
    """
    if distribution != "gaussian":
        return []
    mean, shape, x = (mp.mpf(value) for value in (*parameters[:2], x))
    b = (x / mean + 1) * mp.sqrt(shape / (2 * x))
    by_mean = shape / mean**2 * x * mp.sqrt(2 * mp.pi * x / shape) * mp.erfc(b) * mp.exp(b * b)
    return [by_mean, (x - mean * by_mean) / shape]


def at(distribution, parameters, x):
    """Returns the values of VALUES."""
    found = DISTRIBUTIONS[distribution](*(mp.mpf(p) for p in parameters), mp.mpf(x))
    return [*found, *(mp.log(value) for value in found), found[0] / found[2]]


def agreed(of):
    """Returns the numbers of `of()` with 400 digits, or None if 250 digits do not agree."""
    found = []
    # The difference of the tails loses as many digits as x/mu has.
    for digits in (250, 400):
        with mp.workdps(digits):
            found.append(of())
    for a, b in zip(*found):
        if not abs(a - b) <= mp.mpf(10) ** -LEAST_DIGITS * abs(b):
            return None
    return found[1]


def size(rng):
    return 10 ** rng.uniform(-150, 150)


def draw(rng, distribution):
    """Draws parameters, and a number from the body of the distribution or from one of its tails."""
    root = rng.uniform(-3, 3) if rng.random() < 0.5 else rng.choice((-1, 1)) * 10 ** rng.uniform(0.5, 4.15)
    phi = 10 ** rng.uniform(-14, 8)
    t = abs(root) * math.sqrt(phi) / 2
    ratio = (t + math.sqrt(1 + t * t)) ** math.copysign(2, root)
    if distribution in ("gaussian", "reciprocal"):
        mean = size(rng)
        x = mean * ratio
        return (mean, mean / phi, 0.0), x if distribution == "gaussian" else 1 / x
    if distribution == "shifted":
        mean = 10 ** rng.uniform(-100, 100)
        shift = rng.choice((-1, 1)) * mean * 10 ** rng.uniform(-4, 8)
        return (mean, mean / phi, shift), shift + mean * ratio
    if distribution == "levy":
        scale = size(rng)
        return (scale, 0.0, 0.0), scale * 10 ** rng.uniform(*rng.choice([(-8, -2), (-2, 2), (2, 240)]))
    level, volatility = 10 ** rng.uniform(-50, 50), 10 ** rng.uniform(-50, 50)
    sign = rng.choice((-1, -1, 0, 1))
    if sign < 0:
        # A hitting probability in f64's range.
        phi = 10 ** rng.uniform(-2.4, 8)
    if sign == 0:
        return (level, 0.0, volatility), (level / volatility) ** 2 * 10 ** rng.uniform(-8, 200)
    drift = volatility**2 / (level * phi)
    return (level, sign * drift, volatility), level / drift * ratio


def is_usable(distribution, parameters, x):
    """Returns whether parameters and x are in the tested range."""
    if distribution == "passage":
        # Points with too small a probability are not tested.
        level, drift, volatility = parameters
        far = (level - drift * x) / volatility
        if abs(far) * abs(far) / x > 1e10 or 2 * abs(drift) / volatility * (level / volatility) > 1e16:
            return False
    if distribution == "shifted" and not x > parameters[2]:
        return False
    sizes = [abs(p) for p in parameters if p != 0.0]
    return all(1e-150 < p < 1e150 for p in sizes) and 1e-290 < abs(x) < 1e290


def text(value):
    return mp.nstr(value, 18, min_fixed=0, max_fixed=0)


def evaluated(distribution, parameters, x):
    """Returns the cells of a row of function values, or None if the point is not usable."""
    if not is_usable(distribution, parameters, x):
        return None
    found = agreed(lambda: [*at(distribution, parameters, x), *gradient(distribution, parameters, x)])
    if found is None:
        return None
    shown = [text(v) for v in found]
    return [distribution, "eval", *map(repr, parameters), repr(x), "", *shown, *[""] * (9 - len(found)), ""]


def inverted(distribution, kind, parameters, x):
    """Returns the cells of a row of a quantile, or None if the point is not usable."""
    if not is_usable(distribution, parameters, x):
        return None
    found = agreed(lambda: at(distribution, parameters, x))
    place = VALUES.index(kind.removeprefix("inverse_"))
    side, sign = (1, 1) if kind.endswith("cdf") else (2, -1)
    p = float(found[place]) if found is not None else 0.0
    # For an input at the end of its range the quantile is another number, or does not exist.
    if abs(p) < 1e-290 or p in (0.0, 1.0):
        return None
    with mp.workdps(60):
        shift = mp.mpf(parameters[2]) if distribution == "shifted" else mp.mpf(0)
        y = x - shift
        rate = y * found[0] / found[side]
        condition = (abs(mp.mpf(p)) if "ln" in kind else 1) / rate
        # The step is a rounding error times the condition. For a condition below this limit the
        # square of the step is far below f64's precision. Next to the hitting probability the
        # condition is so large that the exponential fails.
        if condition > 1e4:
            return None
        ln_p = mp.mpf(p) if "ln" in kind else mp.log(mp.mpf(p))
        answer = shift + y * mp.exp((ln_p - found[side + 3]) / (sign * rate))
        if distribution == "shifted":
            condition = (1 + condition) * y / abs(answer)
    return [distribution, kind, *map(repr, parameters), text(answer), repr(p), *[""] * (len(VALUES) + 2), mp.nstr(condition, 6)]


def row(distribution, kind, parameters, x):
    """Returns the cells of a row of any kind, or None if the point is not usable."""
    return evaluated(distribution, parameters, x) if kind == "eval" else inverted(distribution, kind, parameters, x)


def random_row(rng, distribution, kind):
    """Draws points until one of them is usable, and returns its cells."""
    while True:
        cells = row(distribution, kind, *draw(rng, distribution))
        if cells is not None:
            return cells


def main():
    rng = random.Random(21)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["id", "distribution", "kind", "first", "second", "third", "x", "p", *VALUES, "by_mean", "by_shape", "condition"])
    n_rows = 0
    for distribution, n_points, n_quantiles in COUNTS:
        for kind in ["eval"] * n_points + QUANTILES * n_quantiles:
            out.writerow([n_rows, *random_row(rng, distribution, kind)])
            n_rows += 1
    with open(sys.argv[1], encoding="utf-8") as file:
        for index, (distribution, kind, *parameters, x) in enumerate(csv.reader(file)):
            cells = row(distribution, kind, tuple(map(float, parameters)), float(x))
            assert cells is not None, (distribution, kind, parameters, x)
            out.writerow([f"found-{index}", *cells])


main()
