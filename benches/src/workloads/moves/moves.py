"""Copies of arrays in another order. Every result is a new, contiguous array."""

import protocol

PADDING, STEP = 4, 2


def selected_in_jax(_, x, index):
    # Without a check of the positions, which is the fastest way.
    return x.at[index].get(mode="promise_in_bounds")


def prepare(arrays, _):
    if "index" in arrays:
        # The type of positions in NumPy and PyTorch; JAX converts them to its own.
        arrays["index"] = arrays["index"].astype("int64")


MATRIX = {"x": ("rows", "cols")}
INDEX = {"index": ("rows",)}
# For each case, the shapes, and the forms in NumPy, PyTorch and JAX.
CASES = {
    "transpose": (
        MATRIX,
        lambda np, x: np.ascontiguousarray(x.T),
        lambda _, x: x.t().contiguous(),
        lambda _, x: x.T,
    ),
    "pad": (
        MATRIX,
        lambda np, x: np.pad(x, PADDING),
        lambda torch, x: torch.nn.functional.pad(x, [PADDING] * 4),
        lambda jax, x: jax.numpy.pad(x, PADDING),
    ),
    "join": (
        MATRIX | {"y": ("rows", "cols")},
        lambda np, x, y: np.concatenate([x, y], 1),
        lambda torch, x, y: torch.cat([x, y], 1),
        lambda jax, x, y: jax.numpy.concatenate([x, y], 1),
    ),
    "flip": (
        MATRIX,
        lambda np, x: np.ascontiguousarray(x[:, ::-1]),
        lambda torch, x: torch.flip(x, [1]),
        lambda _, x: x[:, ::-1],
    ),
    "step": (
        MATRIX,
        lambda np, x: np.ascontiguousarray(x[:, ::STEP]),
        lambda _, x: x[:, ::STEP].contiguous(),
        lambda _, x: x[:, ::STEP],
    ),
    "rows": (
        MATRIX | INDEX,
        lambda np, x, index: np.take(x, index, 0),
        lambda torch, x, index: torch.index_select(x, 0, index),
        selected_in_jax,
    ),
    "elements": (
        {"x": ("rows",)} | INDEX,
        lambda np, x, index: np.take(x, index),
        lambda torch, x, index: torch.index_select(x, 0, index),
        selected_in_jax,
    ),
}
protocol.rival(*CASES[protocol.case()], prepare=prepare)
