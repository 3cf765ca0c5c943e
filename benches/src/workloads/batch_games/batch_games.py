"""Regret matching in many 3x3 games, one after the other; the result is the average strategies of
both players.
"""

import math

import protocol


def with_open_spiel(open_spiel, gains):
    # OpenSpiel averages the uniform strategies before its first step, so STEPS - 1 steps average
    # STEPS strategies.
    return [concatenated(matching.regret_matching([a, -a], iterations=STEPS - 1, gamma=0)) for a in gains]


def concatenated(strategies):
    return [p for strategy in strategies for p in strategy]


def prepare(arrays, args):
    from open_spiel.python.algorithms import regret_matching

    global STEPS, matching
    STEPS, matching = args.steps, regret_matching
    # By default OpenSpiel's regrets start at 1 / this constant; infinity makes them start at zero.
    matching.INITIAL_REGRET_DENOM = math.inf


protocol.rival(
    {"gains": ("games", "rows", "cols")}, open_spiel=with_open_spiel, dtype="f64", sizes=("steps",), prepare=prepare
)
