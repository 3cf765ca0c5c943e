#!/usr/bin/env python3
"""Coefficients of the polynomials in `elementary` and `erfcx`; writes the Rust file beside it.

Each polynomial interpolates its function at Chebyshev nodes with 60 digits, is turned into powers and rounded to f64.
What stands beside it is the largest relative error found on 2001 points between the nodes: of the polynomial as
rounded, evaluated with 60 digits, so rounding errors of an evaluation come on top.

usage: coefficients.py > coefficients.rs      (needs mpmath)
"""
import mpmath as mp

mp.mp.dps = 60
# `erfcx` is taken from here on, and the middle of its polynomial's variable lies so far beyond.
LEFT, MIDDLE = mp.mpf(1) / 2, mp.mpf(4)


def powers(function, low, high, count):
    """Coefficients in ascending powers of x of the polynomial of `count` terms on [low, high]."""
    angle = [mp.pi * (j + mp.mpf(1) / 2) / count for j in range(count)]
    middle, half = (low + high) / 2, (high - low) / 2
    values = [function(middle + half * mp.cos(a)) for a in angle]
    chebyshev = [(2 if k else 1) * mp.fsum(v * mp.cos(k * a) for v, a in zip(values, angle)) / count for k in range(count)]
    # T(k + 1) = 2 y T(k) - T(k - 1), in powers of y = (x - middle) / half.
    before, this = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [mp.mpf(0)] * count
    for k, c in enumerate(chebyshev):
        terms = before if k == 0 else this
        for i, t in enumerate(terms):
            total[i] += c * t
        if k > 0:
            doubled = [mp.mpf(0)] + [2 * t for t in this]
            before, this = this, [d - (before[i] if i < len(before) else 0) for i, d in enumerate(doubled)]
    if middle == 0 and half == 1:
        return total
    # Powers of y into powers of x, by Horner's rule on polynomials.
    shifted = [mp.mpf(0)]
    for c in reversed(total):
        product = [mp.mpf(0)] * (len(shifted) + 1)
        for i, t in enumerate(shifted):
            product[i] += t * (-middle / half)
            product[i + 1] += t / half
        product[0] += c
        shifted = product
    return shifted[:count]


def worst(function, low, high, rounded, weight):
    """Largest error of `weight * polynomial` relative to the function that the weight belongs to."""
    points = [low + (high - low) * mp.mpf(j) / 2000 for j in range(2001)]
    return max(abs(weight(x) * (mp.polyval(rounded[::-1], x) - function(x))) for x in points)


def write(name, doc, function, low, high, count, weight):
    rounded = [mp.mpf(float(c)) for c in powers(function, low, high, count)]
    error = worst(function, low, high, rounded, weight)
    print(f"\n{doc} Largest relative error: {mp.nstr(error, 2)}.")
    print(f"pub(super) const {name}: [f64; {count}] = [")
    for c in rounded:
        print(f"    {float(c)!r},")
    print("];")


def scaled_erfcx(y):
    """erfcx(t) (t + LEFT + MIDDLE) of y = (t + LEFT - MIDDLE) / (t + LEFT + MIDDLE)."""
    if y == 1:
        return 1 / mp.sqrt(mp.pi)
    shifted = MIDDLE * (1 + y) / (1 - y)
    t = shifted - LEFT
    value = mp.exp(t * t) * mp.erfc(t) if t < 1000 else mp.nsum(
        lambda n: (-1) ** int(n) * mp.fac2(2 * n - 1) / (2 * t * t) ** n, [0, 10]) / (t * mp.sqrt(mp.pi))
    return value * (shifted + MIDDLE)


def exp_rest(r):
    return mp.nsum(lambda n: r**n / mp.factorial(n + 2), [0, 40])


def ln_rest(z):
    """(2 atanh(s) - 2 s) / s of z = s^2."""
    return mp.nsum(lambda n: 2 * z**n / (2 * n + 1), [1, 60])


print("//! Written by `coefficients.py` beside it, which says how: do not edit. Ascending powers.")
write("ERFCX", "/// `erfcx(t) (t + 9/2)` in `(t - 7/2) / (t + 9/2)`, for `t >= -1/2`.",
      scaled_erfcx, mp.mpf(-1), mp.mpf(1), 28, lambda y: 1 / scaled_erfcx(y))
half_ln2 = mp.log(2) / 2
write("EXP", "/// `(e^r - 1 - r) / r^2`, for `|r| <= ln(2) / 2`.",
      exp_rest, -half_ln2, half_ln2, 12, lambda r: r * r / mp.exp(r))
z_max = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
write("LN", "/// `(2 atanh(s) - 2 s) / s` without its factor `z = s^2`, in `z`, for `z <= 0.0295`.",
      lambda z: ln_rest(z) / z if z else mp.mpf(2) / 3, mp.mpf(0), z_max, 8,
      lambda z: z / (2 + ln_rest(z)))
