"""Counterfactual regret minimisation in OpenSpiel and in the Rust program `cfr`; the result is
NashConv.

The game is Liar's dice with `faces` faces, or Leduc poker if `faces` is 0. The work is `iterations`
of CFR, or of CFR+ if `plus` is 1, from the start; with 0 iterations it is the evaluation of the
uniform profile. In `cfr`, whose CFR+ uses other weights, `plus` selects DCFR. The time of `cfr`
does not include reading the game: the time of a run with one iteration is subtracted.
"""

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from fractions import Fraction

import protocol

# Minimum number of timed iterations of `cfr`; the time of fewer would be lost in the noise of the
# reading time.
TIMED = 2000


def in_open_spiel(pyspiel, game, args):
    """Returns a function that does the work and returns its result and time, and a function for
    NashConv of a result.
    """
    if args.iterations == 0:
        uniform = pyspiel.UniformRandomPolicy(game)
        return lambda: protocol.by_the_clock(lambda: pyspiel.nash_conv(game, uniform)), lambda nash_conv: nash_conv

    def learn():
        solver = (pyspiel.CFRPlusSolver if args.plus else pyspiel.CFRSolver)(game)
        begin = time.perf_counter()
        for _ in range(args.iterations):
            solver.evaluate_and_update_policy()
        return solver, time.perf_counter() - begin

    return learn, lambda solver: pyspiel.nash_conv(game, solver.average_policy())


def in_cfr(program, game, args):
    """Returns the same two functions as `in_open_spiel`, for the program `cfr` without sampling and
    on one thread.
    """
    from open_spiel.python.algorithms import gambit

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "game.efg")
    # The program requires probabilities that sum to exactly one, so decimals are replaced by
    # fractions.
    text = re.sub(
        r"\b0\.\d{16}\b", lambda p: str(Fraction(p[0]).limit_denominator(1000)), gambit.export_gambit(game)
    )
    with open(path, "w") as file:
        file.write(text)
    fixed = [program, "--input", path, "--infoset-numbers", "--method", "full", "--parallel", "1"]

    def solve(iterations):
        options = ["--discount", "dcfr" if args.plus else "vanilla", "--max-iters", str(iterations)]
        return protocol.by_the_clock(lambda: json.loads(subprocess.check_output(fixed + options)))

    def learn():
        timed = max(args.iterations, TIMED)
        (_, reading), (result, seconds) = solve(1), solve(timed)
        return result if timed == args.iterations else None, (seconds - reading) * args.iterations / (timed - 1)

    def nash_conv(result):
        result = result or solve(args.iterations)[0]
        return result["player_one_regret"] + result["player_two_regret"]

    return learn, nash_conv


def program_of(say):
    """Returns path and version of `cfr`; the version output distinguishes it from other programs of
    this name.
    """
    path = shutil.which("cfr") or os.path.join(sys.prefix, "cfr", "bin", "cfr")
    try:
        said = subprocess.check_output([path, "--version"], text=True, stderr=subprocess.DEVNULL).split()
    except (OSError, subprocess.SubprocessError):
        said = []
    if len(said) != 2 or said[0] != "cfr":
        protocol.missing(say, f"program cfr not found (to install it: `cargo install cfr --root {os.path.join(sys.prefix, 'cfr')}`)")
    return path, said[1]


say = protocol.start()
parser = argparse.ArgumentParser()
parser.add_argument("--library", choices=["open_spiel", "cfr"], required=True)
for size in ["faces", "iterations", "plus"]:
    parser.add_argument(f"--{size}", type=int, required=True)
args = parser.parse_args()
try:
    import pyspiel
except ImportError as error:
    protocol.missing(say, error)
game = pyspiel.load_game(f"liars_dice(dice_sides={args.faces})" if args.faces else "leduc_poker")
if args.library == "cfr":
    program, version = program_of(say)
    learn, nash_conv = in_cfr(program, game, args)
else:
    version = importlib.metadata.version("open_spiel")
    learn, nash_conv = in_open_spiel(pyspiel, game, args)


def as_bytes(result):
    return struct.pack("<d", nash_conv(result))


protocol.serve(say, args.library, version, 1, learn, as_bytes, "f64", protocol.uncounted, timed=lambda work: work())
