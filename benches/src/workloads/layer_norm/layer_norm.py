"""Layer normalization of the rows of x, with a scale and a shift for each column."""

import protocol

VARIANCE_OFFSET = 1e-5


def normalized(library, x, scale, shift):
    deviation = library.sqrt(x.var(1, keepdims=True) + VARIANCE_OFFSET)
    return (x - x.mean(1, keepdims=True)) / deviation * scale + shift


def with_torch(torch, x, scale, shift):
    return torch.nn.functional.layer_norm(x, scale.shape, scale, shift, VARIANCE_OFFSET)


def with_jax(jax, x, scale, shift):
    return normalized(jax.numpy, x, scale, shift)


protocol.rival(
    {"x": ("rows", "cols"), "scale": ("cols",), "shift": ("cols",)}, normalized, with_torch, with_jax
)
