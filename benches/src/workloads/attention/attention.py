"""Attention: softmax(q k^T / sqrt(width)) v for each head of each sample."""

import protocol


def with_numpy(np, q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.float32(q.shape[-1] ** 0.5)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def with_torch(torch, q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def with_jax(jax, q, k, v):
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return jax.nn.softmax(scores, -1) @ v


AXES = ("batch", "heads", "length", "width")
protocol.rival({"q": AXES, "k": AXES, "v": AXES}, with_numpy, with_torch, with_jax, blas=True)
