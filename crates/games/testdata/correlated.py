"""Best correlated and coarse correlated equilibria of random games, by scipy's HiGHS.

The payoffs are small integers. They are written next to the answers, so that the tests do not need
this generator.
"""

import itertools
import json
import sys

import numpy as np
from scipy.optimize import linprog

SHAPES = [(2, 2), (3, 3), (4, 3), (1, 4), (2, 2, 2), (3, 2, 3), (2, 2, 2, 2)]


def best(payoffs, weights, coarse):
    """The largest weighted sum of payoffs over all equilibria."""
    shape = payoffs[0].shape
    cells = list(itertools.product(*map(range, shape)))
    rows = []
    for player, table in enumerate(payoffs):
        own = range(shape[player])
        recommended = [own] if coarse else [[action] for action in own]
        for actions in recommended:
            for other in range(shape[player]):
                row = []
                for cell in cells:
                    moved = cell[:player] + (other,) + cell[player + 1 :]
                    row.append(float(table[moved] - table[cell]) if cell[player] in actions else 0.0)
                rows.append(row)
    gain = sum(weight * table for weight, table in zip(weights, payoffs)).ravel()
    answer = linprog(
        -gain, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=np.ones((1, len(cells))), b_eq=[1.0], method="highs"
    )
    assert answer.status == 0, answer.message
    return -answer.fun


def main():
    random = np.random.default_rng(7)
    games = []
    for shape in SHAPES:
        for _ in range(3):
            payoffs = [random.integers(-9, 10, shape) for _ in shape]
            weights = [int(weight) for weight in random.integers(-2, 4, len(shape))]
            ones = [1] * len(shape)
            games.append(
                {
                    "shape": shape,
                    "payoffs": [table.ravel().tolist() for table in payoffs],
                    "weights": weights,
                    "welfare": best(payoffs, ones, False),
                    "weighted": best(payoffs, weights, False),
                    "coarse_welfare": best(payoffs, ones, True),
                    "coarse_weighted": best(payoffs, weights, True),
                }
            )
    lines = ",\n".join(json.dumps(game) for game in games)
    sys.stdout.write(f"[\n{lines}\n]\n")


main()
