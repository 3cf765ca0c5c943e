"""Elementwise functions of vectors."""

import protocol


def chain(relu, x):
    return relu(2 * x + 1) * x + 3


# For each function, its forms in NumPy, PyTorch and JAX.
CASES = {
    "exp": (lambda np, x: np.exp(x), lambda torch, x: torch.exp(x), lambda jax, x: jax.numpy.exp(x)),
    "ln": (lambda np, x: np.log(x), lambda torch, x: torch.log(x), lambda jax, x: jax.numpy.log(x)),
    "tanh": (lambda np, x: np.tanh(x), lambda torch, x: torch.tanh(x), lambda jax, x: jax.numpy.tanh(x)),
    "sin": (lambda np, x: np.sin(x), lambda torch, x: torch.sin(x), lambda jax, x: jax.numpy.sin(x)),
    "cos": (lambda np, x: np.cos(x), lambda torch, x: torch.cos(x), lambda jax, x: jax.numpy.cos(x)),
    "pow": (lambda _, x, y: x**y, lambda _, x, y: x**y, lambda _, x, y: x**y),
    "sigmoid": (
        lambda np, x: 1 / (1 + np.exp(-x)),
        lambda torch, x: torch.sigmoid(x),
        lambda jax, x: jax.nn.sigmoid(x),
    ),
    "erf": (None, lambda torch, x: torch.erf(x), lambda jax, x: jax.lax.erf(x)),
    "add": (lambda _, x, y: x + y, lambda _, x, y: x + y, lambda _, x, y: x + y),
    "chain": (
        lambda np, x: chain(lambda x: np.maximum(x, 0), x),
        lambda torch, x: chain(torch.relu, x),
        lambda jax, x: chain(jax.nn.relu, x),
    ),
}
function = protocol.case()
names = ("x", "y") if function in ("pow", "add") else ("x",)
protocol.rival({name: ("n",) for name in names}, *CASES[function])
