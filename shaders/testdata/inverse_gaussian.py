#!/usr/bin/env python3
"""Golden values and golden draws of the inverse Gaussian distribution; writes two CSV files next to this script.

Values, at points that f32 represents: the textbook formulas with exp(2 shape/mean), with 160 and 200 digits. Cancellation
loses only a small part of these digits; both results must agree to 25 digits. Draws: Philox4x32-10, the method of Box and
Muller, and the choice between two candidates, as described in `src/twin/inverse_gaussian_sample.rs`, with uniform numbers
rounded to f32.

usage: inverse_gaussian.py      (needs mpmath)
"""
import random
import struct
from pathlib import Path

import mpmath as mp

HERE = Path(__file__).parent
N_LAWS, N_POINTS, N_DRAWS = 60, 8, 10


def f32(x):
    return struct.unpack("<f", struct.pack("<f", float(x)))[0]


def normal_tail(z):
    """Returns the probability of a standard normal number above z."""
    return mp.erfc(z / mp.sqrt(2)) / 2


def functions(mean, shape, x):
    mean, shape, x = mp.mpf(mean), mp.mpf(shape), mp.mpf(x)
    s = mp.sqrt(shape / x)
    w, v = s * (x - mean) / mean, s * (x + mean) / mean
    pdf = s / x * mp.npdf(w)
    image = mp.exp(2 * shape / mean) * normal_tail(v)
    cdf, sf = normal_tail(-w) + image, normal_tail(w) - image
    return pdf, mp.log(pdf), cdf, sf, mp.log(cdf), mp.log(sf)


def values():
    draw = random.Random(2024)
    lines = ["mean,shape,x,pdf,ln_pdf,cdf,sf,ln_cdf,ln_sf"]
    for _ in range(N_LAWS):
        mean = 10 ** draw.uniform(-12, 12)
        shape = mean / 10 ** draw.uniform(-12, 12)
        for point in range(N_POINTS):
            # Drawn by the signed root: two points in the middle, the others out to the smallest probabilities of f32.
            half = draw.uniform(-1, 1) * (2 if point < 2 else 13) * (mean / shape) ** 0.5 / 2
            root = abs(half) + (1 + half * half) ** 0.5
            x = f32(mean * root ** (2 if half > 0 else -2))
            rows = []
            for digits in (160, 200):
                mp.mp.dps = digits
                row = functions(mean, shape, x)
                rows.append([mp.nstr(value, 25, min_fixed=1, max_fixed=0) for value in row])
                if rows[0] != rows[-1]:
                    raise ArithmeticError(f"{mean} {shape} {x}: {rows}")
            lines.append(",".join([repr(mean), repr(shape), repr(x)] + rows[0]))
    (HERE / "inverse_gaussian.csv").write_text("\n".join(lines) + "\n")


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & 0xFFFFFFFF, first >> 32 ^ c[3] ^ k[1], first & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def drawn(mean, shape, words):
    half = mp.mpf(1) / 2
    u = mp.mpf(f32((mp.mpf(words[0]) * 2**24 + (words[1] & 0xFF) * 2**16 + half / 2**8) / mp.mpf(2) ** 56))
    turn = mp.mpf(f32(((words[1] >> 8) + half) / 2**24))
    choice = mp.mpf(f32(((mp.mpf(words[2]) * 2**32 + words[3]) + half) / mp.mpf(2) ** 64))
    z = mp.sqrt(-2 * mp.log(u)) * mp.sin(turn * mp.pi / 2)
    t = z * mp.sqrt(mp.mpf(mean) / shape) / 2
    q = (t + mp.sqrt(1 + t * t)) ** 2
    return mean * q if choice * (1 + q) < 1 else mean / q


def draws():
    mp.mp.dps = 60
    lines = ["mean,shape,key,stream,number,draw"]
    for mean, shape, key, stream, first in ((1.0, 3.0, 7, 0, 0), (2.5, 1e-6, 0x0123456789ABCDEF, 5, 1 << 31), (1e-9, 0.01, 1, 1 << 40, 99)):
        for number in range(first, first + N_DRAWS):
            words = philox([number, 0, stream & 0xFFFFFFFF, stream >> 32], [key & 0xFFFFFFFF, key >> 32])
            lines.append(f"{mean!r},{shape!r},{key},{stream},{number},{mp.nstr(drawn(mean, shape, words), 20)}")
    (HERE / "inverse_gaussian_draws.csv").write_text("\n".join(lines) + "\n")


values()
draws()
