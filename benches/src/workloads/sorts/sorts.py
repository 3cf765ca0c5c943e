"""Sorts of a matrix along one axis, the positions of sorted elements, and the largest elements."""

import protocol

LARGEST = 10


def largest(np, x):
    # A partition and a sort of the part are faster than a sort of whole lines.
    part = np.partition(x, x.shape[AXIS] - LARGEST, AXIS)[:, -LARGEST:]
    return np.sort(part, AXIS)[:, ::-1]


CASE, _, AXIS = protocol.case().partition("-axis")
AXIS = int(AXIS)
# For each case, the forms in NumPy, PyTorch and JAX. Positions are those of stable sorts, as ours.
CASES = {
    "sort": (
        lambda np, x: np.sort(x, AXIS),
        # `sort` also computes the positions.
        lambda torch, x: torch.sort(x, AXIS).values,
        lambda jax, x: jax.numpy.sort(x, AXIS),
    ),
    "argsort": (
        lambda np, x: np.argsort(x, AXIS, kind="stable"),
        lambda torch, x: torch.argsort(x, dim=AXIS, stable=True),
        lambda jax, x: jax.numpy.argsort(x, AXIS),
    ),
    "topk": (
        largest,
        lambda torch, x: torch.topk(x, LARGEST, AXIS).values,
        lambda jax, x: jax.lax.top_k(x, LARGEST)[0],
    ),
}
protocol.rival({"x": ("rows", "cols")}, *CASES[CASE], dtype="u32" if CASE == "argsort" else "f32")
