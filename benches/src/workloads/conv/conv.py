"""Convolution of a batch of images with kernels."""

import protocol


def with_numpy(np, x, kernels):
    padded = np.pad(x, ((0, 0), (0, 0), (PADDING, PADDING), (PADDING, PADDING))) if PADDING else x
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernels.shape[2:], axis=(2, 3))
    return np.einsum("bchwuv,ocuv->bohw", windows[:, :, ::STEP, ::STEP], kernels, optimize=True)


def with_torch(torch, x, kernels):
    return torch.nn.functional.conv2d(x, kernels, stride=STEP, padding=PADDING)


def in_onednn(torch, x, kernels):
    """Returns the arrays as tensors of oneDNN, the images in its own order of elements.

    A conversion keeps the order, but the result of a convolution is in the order that oneDNN
    prefers. A convolution with the identity changes no element.
    """
    identity = torch.eye(x.shape[1])[:, :, None, None]
    return torch.nn.functional.conv2d(x.to_mkldnn(), identity.to_mkldnn()), kernels.to_mkldnn()


def with_jax(jax, x, kernels):
    return jax.lax.conv_general_dilated(x, kernels, (STEP, STEP), [(PADDING, PADDING)] * 2)


def prepare(arrays, args):
    global STEP, PADDING
    STEP, PADDING = args.step, args.padding


SHAPES = {
    "x": ("batch", "channels", "height", "width"),
    "kernels": ("outputs", "channels", "taps", "taps"),
}
protocol.rival(
    SHAPES,
    with_numpy,
    with_torch,
    with_jax,
    blas=True,
    sizes=["step", "padding"],
    prepare=prepare,
    in_onednn=in_onednn,
)
