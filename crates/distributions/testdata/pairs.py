#!/usr/bin/env python3
"""Writes the five distances between random pairs of distributions of one family, from closed forms
and crossing points.

The divergence and the Hellinger distance have closed forms. The other distances follow from the
points where the densities or the distribution functions cross. The densities cross at the zeros of
a function with few known critical points; between two neighbouring crossings the distribution
functions cross at most once. Crossings are found by bisection in a variable that stretches the ends
of the support (a logit, a logarithm), so that no crossing is too close to an end. All values are
computed with 40 digits; the closed forms are compared with a quadrature for some pairs.
usage: pairs.py > pairs.csv      (needs mpmath)
"""
import csv
import random
import sys

import mpmath as mp

mp.mp.dps = 40
REACH = mp.mpf(10) ** 9


class Family:
    """A distribution, whose functions take a variable y on the whole real line.

    In subclasses `x` converts y to the variable of the distribution and `slope` is the derivative
    of `x`. `critical` returns the critical points of the logarithm of the quotient of two
    densities, `kl` the divergence, `affinity` the integral of the root of the product.
    """

    def __init__(self, *parameters):
        self.p = [mp.mpf(p) for p in parameters]


class Beta(Family):
    """Beta distributions; y is the logit of x."""

    def ln_density(self, y):
        a, b = self.p
        return -(a - 1) * mp.log1p(mp.exp(-y)) - (b - 1) * mp.log1p(mp.exp(y)) - mp.log(mp.beta(a, b))

    def tails(self, y):
        a, b = self.p
        return regularized(a, b, y), regularized(b, a, -y)

    def area(self, y):
        """Returns the integral of the lower tail up to y."""
        a, b = self.p
        x = 1 / (1 + mp.exp(-y))
        return x * self.tails(y)[0] - a / (a + b) * regularized(a + 1, b, y)

    def mean(self):
        return self.p[0] / sum(self.p)

    @staticmethod
    def critical(f, g):
        da, db = f.p[0] - g.p[0], f.p[1] - g.p[1]
        return [mp.log(da / db)] if da * db > 0 else []

    @staticmethod
    def kl(f, g):
        (a, b), (c, d) = f.p, g.p
        psi = mp.digamma
        return mp.log(mp.beta(c, d) / mp.beta(a, b)) + (a - c) * psi(a) + (b - d) * psi(b) + (c - a + d - b) * psi(a + b)

    @staticmethod
    def affinity(f, g):
        (a, b), (c, d) = f.p, g.p
        return mp.beta((a + c) / 2, (b + d) / 2) / mp.sqrt(mp.beta(a, b) * mp.beta(c, d))

    @staticmethod
    def x(y):
        return 1 / (1 + mp.exp(-y))

    @staticmethod
    def slope(y):
        return 1 / ((1 + mp.exp(-y)) * (1 + mp.exp(y)))


def regularized(a, b, y):
    """Returns the incomplete beta function at the logit y.

    Computed by the series at 0, or as 1 minus the series at 1.
    """
    x, rest = 1 / (1 + mp.exp(-y)), 1 / (1 + mp.exp(y))
    if y < 0:
        return mp.exp(-a * mp.log1p(mp.exp(-y))) * rest**b / (a * mp.beta(a, b)) * mp.hyp2f1(a + b, 1, a + 1, x)
    return 1 - regularized(b, a, -y) if y > 0 else mp.betainc(a, b, 0, mp.mpf(1) / 2, regularized=True)


class Gamma(Family):
    """Gamma distributions with shape and rate; y is the logarithm of x."""

    def ln_density(self, y):
        a, r = self.p
        return a * mp.log(r) + (a - 1) * y - r * mp.exp(y) - mp.loggamma(a)

    def tails(self, y):
        a, r = self.p
        x = r * mp.exp(y)
        return mp.gammainc(a, 0, x, regularized=True), mp.gammainc(a, x, mp.inf, regularized=True)

    def area(self, y):
        a, r = self.p
        return mp.exp(y) * self.tails(y)[0] - a / r * mp.gammainc(a + 1, 0, r * mp.exp(y), regularized=True)

    def mean(self):
        return self.p[0] / self.p[1]

    @staticmethod
    def critical(f, g):
        da, dr = f.p[0] - g.p[0], f.p[1] - g.p[1]
        return [mp.log(da / dr)] if da * dr > 0 else []

    @staticmethod
    def kl(f, g):
        (a, r), (c, s) = f.p, g.p
        return (a - c) * mp.digamma(a) - mp.loggamma(a) + mp.loggamma(c) + c * mp.log(r / s) + a * (s - r) / r

    @staticmethod
    def affinity(f, g):
        (a, r), (c, s) = f.p, g.p
        ln = mp.loggamma((a + c) / 2) - (mp.loggamma(a) + mp.loggamma(c)) / 2
        return mp.exp(ln + (a * mp.log(r) + c * mp.log(s)) / 2 - (a + c) / 2 * mp.log((r + s) / 2))

    x = staticmethod(mp.exp)
    slope = staticmethod(mp.exp)


class InverseGaussian(Family):
    """Inverse Gaussian distributions with mean and shape; y is the logarithm of x."""

    def ln_density(self, y):
        m, s = self.p
        x = mp.exp(y)
        return mp.log(s / (2 * mp.pi)) / 2 - 3 * y / 2 - s * (x - m) ** 2 / (2 * m * m * x)

    def tails(self, y):
        m, s = self.p
        x = mp.exp(y)
        with mp.workdps(120):
            root = mp.sqrt(s / x)
            other = mp.exp(2 * s / m) * mp.ncdf(-root * (x / m + 1))
            return mp.ncdf(root * (x / m - 1)) + other, mp.ncdf(-root * (x / m - 1)) - other

    def area(self, y):
        """Returns the integral of the lower tail.

        It is x F minus the partial mean m (Phi(w) - exp(2 s/m) Phi(-v)).
        """
        m, s = self.p
        x = mp.exp(y)
        with mp.workdps(120):
            root = mp.sqrt(s / x)
            other = mp.exp(2 * s / m) * mp.ncdf(-root * (x / m + 1))
            near = mp.ncdf(root * (x / m - 1))
            return x * (near + other) - m * (near - other)

    def mean(self):
        return self.p[0]

    @staticmethod
    def critical(f, g):
        # ln f/g is c - A x - B/x, whose critical point is at A x = B/x.
        slope = f.p[1] / f.p[0] ** 2 - g.p[1] / g.p[0] ** 2
        decay = f.p[1] - g.p[1]
        return [mp.log(decay / slope) / 2] if slope * decay > 0 else []

    @staticmethod
    def kl(f, g):
        (m, s), (n, t) = f.p, g.p
        return (mp.log(s / t) + t / s - 1 + t * (m - n) ** 2 / (m * n * n)) / 2

    @staticmethod
    def affinity(f, g):
        # The square root of the product of both densities is a multiple of another density of the
        # family.
        (m, s), (n, t) = f.p, g.p
        shape = (s + t) / 2
        mean = mp.sqrt(shape / ((s / m**2 + t / n**2) / 2))
        return mp.sqrt(mp.sqrt(s * t) / shape) * mp.exp((s / m + t / n) / 2 - shape / mean)

    x = staticmethod(mp.exp)
    slope = staticmethod(mp.exp)


class Normal(Family):
    """Normal distributions with mean and standard deviation; y is x."""

    def ln_density(self, y):
        m, s = self.p
        return -mp.log(s * mp.sqrt(2 * mp.pi)) - ((y - m) / s) ** 2 / 2

    def tails(self, y):
        z = (y - self.p[0]) / self.p[1]
        return mp.ncdf(z), mp.ncdf(-z)

    def area(self, y):
        m, s = self.p
        z = (y - m) / s
        return s * (z * mp.ncdf(z) + mp.npdf(z))

    def mean(self):
        return self.p[0]

    @staticmethod
    def critical(f, g):
        (m, s), (n, t) = f.p, g.p
        return [(m * t * t - n * s * s) / (t * t - s * s)]

    @staticmethod
    def kl(f, g):
        (m, s), (n, t) = f.p, g.p
        return mp.log(t / s) + (s * s + (m - n) ** 2) / (2 * t * t) - mp.mpf(1) / 2

    @staticmethod
    def affinity(f, g):
        (m, s), (n, t) = f.p, g.p
        return mp.sqrt(2 * s * t / (s * s + t * t)) * mp.exp(-((m - n) ** 2) / (4 * (s * s + t * t)))

    x = staticmethod(lambda y: y)
    slope = staticmethod(lambda y: mp.mpf(1))


class Laplace(Family):
    """Laplace distributions with location and scale; y is x."""

    def ln_density(self, y):
        m, s = self.p
        return -mp.log(2 * s) - abs(y - m) / s

    def tails(self, y):
        z = (y - self.p[0]) / self.p[1]
        small = mp.exp(-abs(z)) / 2
        return (small, 1 - small) if z < 0 else (1 - small, small)

    def area(self, y):
        m, s = self.p
        z = (y - m) / s
        small = s * mp.exp(-abs(z)) / 2
        return small if z < 0 else y - m + small

    def mean(self):
        return self.p[0]

    @staticmethod
    def critical(f, g):
        return sorted({f.p[0], g.p[0]})

    @staticmethod
    def kl(f, g):
        (m, s), (n, t) = f.p, g.p
        d = abs(m - n)
        return mp.log(t / s) + (s * mp.exp(-d / s) + d) / t - 1

    @staticmethod
    def affinity(f, g):
        (m, s), (n, t) = f.p, g.p
        d = abs(m - n)
        middle = d * mp.exp(-d / (2 * s)) if s == t else 2 * (mp.exp(-d / (2 * s)) - mp.exp(-d / (2 * t))) * s * t / (s - t)
        outer = 2 * s * t / (s + t) * (mp.exp(-d / (2 * s)) + mp.exp(-d / (2 * t)))
        return (middle + outer) / (2 * mp.sqrt(s * t))

    x = staticmethod(lambda y: y)
    slope = staticmethod(lambda y: mp.mpf(1))


def roots(h, cuts):
    """Returns the points at which h changes its sign, at most one between two neighbouring cuts."""
    found = []
    for low, high in zip(cuts, cuts[1:]):
        below, above = h(low), h(high)
        if below * above >= 0:
            continue
        while high - low > mp.mpf(10) ** -30 * (1 + abs(low)):
            middle = (low + high) / 2
            if h(middle) * below > 0:
                low = middle
            else:
                high = middle
        found.append((low + high) / 2)
    return found


def difference(f, g, y):
    """Returns F - G, from the upper tails where they are smaller."""
    (a, b), (c, d) = f.tails(y), g.tails(y)
    return a - c if a + c < 1 else d - b


def distances(f, g):
    """Returns the five distances in the order of the columns."""
    family = type(f)
    wide = 700 if family in (Gamma, InverseGaussian) else REACH
    line = [-REACH, *family.critical(f, g), mp.mpf(wide)]
    if family is Beta:
        line[-1] = REACH
    if family is InverseGaussian:
        line[0] = mp.mpf(-700)
    def ln_ratio(y):
        # Far from 0 both logarithms are huge and nearly equal, so that many digits cancel.
        with mp.workdps(40 if abs(y) < 20 else 700):
            return f.ln_density(y) - g.ln_density(y)

    crossings = roots(ln_ratio, line)
    steps = [0, *(difference(f, g, y) for y in crossings), 0]
    tv = sum(abs(b - a) for a, b in zip(steps, steps[1:])) / 2
    ks = max(map(abs, steps))
    # The distribution functions cross between two extremes of their difference with different
    # signs.
    between = roots(lambda y: difference(f, g, y), crossings)
    # At the upper end the integral of a lower tail is x minus the mean.
    areas = [mp.mpf(0), *(f.area(y) - g.area(y) for y in between), g.mean() - f.mean()]
    w1 = sum(abs(b - a) for a, b in zip(areas, areas[1:]))
    return [ks, tv, mp.sqrt(1 - family.affinity(f, g)), family.kl(f, g), w1]


def checked(f, g):
    """Compares the closed forms of the divergence and of the affinity with a quadrature."""
    family = type(f)
    with mp.workdps(25):
        points = [mp.mpf(j) for j in range(-160, 161, 4)]
        slope = lambda y: family.slope(y) * mp.exp(f.ln_density(y))
        kl = mp.quad(lambda y: slope(y) * (f.ln_density(y) - g.ln_density(y)), points)
        both = mp.quad(lambda y: family.slope(y) * mp.exp((f.ln_density(y) + g.ln_density(y)) / 2), points)
    assert abs(kl / family.kl(f, g) - 1) < 1e-12, (family, kl, family.kl(f, g))
    assert abs(both / family.affinity(f, g) - 1) < 1e-12, (family, both, family.affinity(f, g))


def power(rng, low, high):
    """Draws a power of 10 with an exponent from low to high, rounded to 6 digits."""
    return float("%.6g" % 10 ** rng.uniform(low, high))


def draw(rng, family):
    """Draws a distribution of a family."""
    if family is Beta:
        return Beta(power(rng, -1.0, 1.0), power(rng, -1.0, 1.0))
    if family is Gamma:
        return Gamma(power(rng, -0.7, 2.0), power(rng, -2.0, 2.0))
    if family is InverseGaussian:
        return InverseGaussian(power(rng, -1.5, 1.5), power(rng, -1.5, 1.5))
    return family(float("%.4g" % rng.uniform(-3, 3)), power(rng, -1.5, 1.5))


def main():
    rng = random.Random(6)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["family", "p1", "p2", "q1", "q2", "kolmogorov", "total_variation", "hellinger", "kl", "wasserstein1"])
    fixed = [(Beta(0.5, 0.5), Beta(2, 2)), (Beta(3, 0.5), Beta(9, 12)), (Laplace(0, 2), Laplace(0, 1)), (Gamma(80, 1), Gamma(70, 1))]
    for pair in fixed:
        checked(*pair)
    checked(InverseGaussian(1, 2), InverseGaussian(2, 1))
    checked(Normal(0, 1), Normal(1, 2))
    count = {Beta: 16, Gamma: 14, InverseGaussian: 8, Normal: 10, Laplace: 12}
    pairs = fixed + [(draw(rng, family), draw(rng, family)) for family, n in count.items() for _ in range(n)]
    for f, g in pairs:
        values = [mp.nstr(t, 20, min_fixed=0, max_fixed=0) for t in distances(f, g)]
        out.writerow([type(f).__name__, *(repr(float(p)) for p in f.p + g.p), *values])
        sys.stdout.flush()


main()
