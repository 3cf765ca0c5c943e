"""The sum of sigmoid(relu(2 e + 1) * e - 3)."""

import protocol


def with_numpy(np, e):
    return (1 / (1 + np.exp(-(np.maximum(2 * e + 1, 0) * e - 3)))).sum()


def with_torch(torch, e):
    return torch.sigmoid(torch.relu(2 * e + 1) * e - 3).sum()


def with_jax(jax, e):
    return jax.nn.sigmoid(jax.nn.relu(2 * e + 1) * e - 3).sum()


protocol.rival({"e": ("rows", "cols")}, with_numpy, with_torch, with_jax)
