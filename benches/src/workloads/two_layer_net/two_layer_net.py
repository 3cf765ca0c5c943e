"""Linear, relu, linear, fitted to targets by plain gradient descent."""

import training


def net(library, parameters, x):
    w0, b0, w1, b1 = parameters
    return training.relu(library, x @ w0 + b0) @ w1 + b1


def with_numpy(np, x, y, stages, w0, b0, w1, b1):
    weights = w0, b0, w1, b1 = [weight.copy() for weight in (w0, b0, w1, b1)]
    losses = []
    for epochs, rate, _ in stages:
        for _ in range(int(epochs)):
            hidden = x @ w0 + b0
            relu = np.maximum(hidden, 0)
            difference = relu @ w1 + b1 - y
            losses.append((difference * difference).sum())
            by_outputs = 2 * difference
            by_hidden = (by_outputs @ w1.T) * (hidden > 0)
            gradients = x.T @ by_hidden, by_hidden.sum(0), relu.T @ by_outputs, by_outputs.sum(0)
            for weight, gradient in zip(weights, gradients):
                weight -= rate * gradient
    return np.array(losses)


training.rival(net, 2, {"w0": 2, "b0": 1, "w1": 2, "b1": 1}, with_numpy)
