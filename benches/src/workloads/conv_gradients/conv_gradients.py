"""Gradients of a convolution with step 1 and without padding, by its weights and by its inputs."""

import protocol


def weights_in_numpy(np, x, cotangent):
    windows = np.lib.stride_tricks.sliding_window_view(x, [taps(x, cotangent)] * 2, axis=(2, 3))
    return np.einsum("bchwuv,bohw->ocuv", windows, cotangent, optimize=True)


def weights_in_torch(torch, x, cotangent):
    return torch.nn.grad.conv2d_weight(x, weight_shape(x, cotangent), cotangent)


def weights_in_jax(jax, x, cotangent):
    zeros = jax.numpy.zeros(weight_shape(x, cotangent), x.dtype)
    return jax.vjp(lambda kernels: convolution(jax, x, kernels), zeros)[1](cotangent)[0]


def inputs_in_numpy(np, kernels, cotangent):
    # A pixel's gradient is a sum over the windows that contain it: a convolution with flipped
    # kernels.
    edge = (kernels.shape[2] - 1,) * 2
    padded = np.pad(cotangent, ((0, 0), (0, 0), edge, edge))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernels.shape[2:], axis=(2, 3))
    return np.einsum("bohwuv,ocuv->bchw", windows, kernels[:, :, ::-1, ::-1], optimize=True)


def inputs_in_torch(torch, kernels, cotangent):
    return torch.nn.grad.conv2d_input(image_shape(kernels, cotangent), kernels, cotangent)


def inputs_in_jax(jax, kernels, cotangent):
    zeros = jax.numpy.zeros(image_shape(kernels, cotangent), kernels.dtype)
    return jax.vjp(lambda x: convolution(jax, x, kernels), zeros)[1](cotangent)[0]


def convolution(jax, x, kernels):
    return jax.lax.conv(x, kernels, (1, 1), "VALID")


def taps(x, cotangent):
    return x.shape[2] - cotangent.shape[2] + 1


def weight_shape(x, cotangent):
    return cotangent.shape[1], x.shape[1], taps(x, cotangent), taps(x, cotangent)


def image_shape(kernels, cotangent):
    batch, _, rows, cols = cotangent.shape
    return batch, kernels.shape[1], rows + kernels.shape[2] - 1, cols + kernels.shape[3] - 1


X = {"x": ("batch", "channels", "height", "width")}
KERNELS = {"kernels": ("outputs", "channels", "taps", "taps")}
COTANGENT = {"cotangent": ("batch", "outputs", "rows", "cols")}
CASES = {
    "by-weights": (X | COTANGENT, weights_in_numpy, weights_in_torch, weights_in_jax),
    "by-inputs": (KERNELS | COTANGENT, inputs_in_numpy, inputs_in_torch, inputs_in_jax),
}
protocol.rival(*CASES[protocol.case()], blas=True)
