"""Scatters: counts and sums of elements by their index, the gradient of an embedding, a histogram."""

import protocol

RESULTS, VOCABULARY, COLUMNS, BINS, RANGE = 1000, 5000, 256, 64, 4.0
CASE = protocol.case()


def prepare(arrays, _):
    if "index" in arrays:
        # The type of positions in NumPy and PyTorch; JAX converts them to its own.
        arrays["index"] = arrays["index"].astype("int64")


def at_in_numpy(add):
    def run(np, index, x):
        result = np.zeros((RESULTS,), x.dtype)
        getattr(np, add).at(result, index, x)
        return result

    return run


def rows_in_numpy(np, index, x):
    result = np.zeros((VOCABULARY, COLUMNS), x.dtype)
    np.add.at(result, index, x)
    return result


def maxima_in_torch(torch, index, x):
    return torch.zeros(RESULTS, device=x.device).scatter_reduce_(0, index, x, "amax")


def rows_in_torch(torch, index, x):
    return torch.zeros(VOCABULARY, COLUMNS, device=x.device).index_add_(0, index, x)


def histogram_in_torch(torch, x):
    if x.is_cuda:
        # `histogram` has no version for CUDA. In f32, `histc` would count elements that are next to
        # an edge in the wrong bin, because it adds RANGE to each.
        counts = torch.histc(x.double(), BINS, -RANGE, RANGE)
    else:
        counts = torch.histogram(x, BINS, range=(-RANGE, RANGE)).hist
    return counts.to(torch.uint32)


INDEX = {"index": ("rows",)}
# For each case, the shapes, and the forms in NumPy, PyTorch and JAX.
CASES = {
    "counts": (
        INDEX,
        lambda np, index: np.bincount(index, minlength=RESULTS).astype(np.uint32),
        lambda torch, index: torch.bincount(index, minlength=RESULTS).to(torch.uint32),
        lambda jax, index: jax.numpy.bincount(index, length=RESULTS).astype(jax.numpy.uint32),
    ),
    "sums": (
        INDEX | {"x": ("rows",)},
        # Faster than `add.at`, in f64.
        lambda np, index, x: np.bincount(index, x, RESULTS).astype(np.float32),
        lambda torch, index, x: torch.zeros(RESULTS, device=x.device).index_add_(0, index, x),
        lambda jax, index, x: jax.ops.segment_sum(x, index, RESULTS),
    ),
    "maxima": (
        INDEX | {"x": ("rows",)},
        at_in_numpy("maximum"),
        maxima_in_torch,
        lambda jax, index, x: jax.numpy.zeros(RESULTS, x.dtype).at[index].max(x),
    ),
    "rows": (
        INDEX | {"x": ("rows", "cols")},
        rows_in_numpy,
        rows_in_torch,
        lambda jax, index, x: jax.ops.segment_sum(x, index, VOCABULARY),
    ),
    "histogram": (
        {"x": ("rows",)},
        lambda np, x: np.histogram(x, BINS, (-RANGE, RANGE))[0].astype(np.uint32),
        histogram_in_torch,
        lambda jax, x: jax.numpy.histogram(x, BINS, (-RANGE, RANGE))[0].astype(jax.numpy.uint32),
    ),
}
protocol.rival(
    *CASES[CASE], prepare=prepare, dtype="u32" if CASE in ("counts", "histogram") else "f32"
)
