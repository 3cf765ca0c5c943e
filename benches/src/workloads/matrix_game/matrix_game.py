"""A zero-sum game: strategies of both players with NashConv at most a millionth of the range of
payoffs.
"""

import protocol

ACCURACY = 1e-6


def with_scipy(scipy, gains):
    """Solves the row player's linear program; the column player's strategy is its dual solution."""
    import numpy

    rows, cols = gains.shape
    # Variables: the row player's strategy and, last, the value of the game, which is maximised.
    costs = numpy.append(numpy.zeros(rows), -1.0)
    worth = numpy.hstack([-gains.T, numpy.ones((cols, 1))])
    whole = numpy.append(numpy.ones(rows), 0.0)[None]
    bounds = [(0, None)] * rows + [(None, None)]
    found = scipy.optimize.linprog(costs, worth, numpy.zeros(cols), whole, [1.0], bounds, method="highs")
    return numpy.concatenate([found.x[:rows], -found.ineqlin.marginals])


def with_numpy(numpy, gains):
    """Learns by predictive regret matching+ with alternating updates; averages are weighted by the
    square of the step.
    """
    row, col = Player(numpy, gains), Player(numpy, -gains.T)
    target = ACCURACY * (gains.max() - gains.min())
    step, next_look = 0, 1
    while True:
        step += 1
        row.learn(numpy, col.strategy, step)
        col.learn(numpy, row.strategy, step)
        if step == next_look:
            next_look += 1 + step // 32
            x, y = row.sum / row.sum.sum(), col.sum / col.sum.sum()
            if (gains @ y).max() - (x @ gains).min() <= target:
                return numpy.concatenate([x, y])


class Player:
    def __init__(self, numpy, gains):
        self.gains = numpy.ascontiguousarray(gains)
        self.strategy = numpy.full(len(gains), 1 / len(gains))
        self.regrets, self.sum = numpy.zeros(len(gains)), numpy.zeros(len(gains))

    def learn(self, numpy, other, step):
        self.sum += step**2 * self.strategy
        values = self.gains @ other
        regret = values - self.strategy @ values
        self.regrets = numpy.maximum(self.regrets + regret, 0)
        # Prediction: the next regret equals the current one.
        guess = numpy.maximum(self.regrets + regret, 0)
        total = guess.sum()
        self.strategy = guess / total if total > 0 else numpy.full(len(guess), 1 / len(guess))


def prepare(arrays, args):
    arrays["gains"] = arrays["gains"].astype("<f8")


protocol.rival(
    {"gains": ("rows", "cols")}, numpy=with_numpy, scipy=with_scipy, dtype="f64", blas=True, prepare=prepare
)
