"""Two convolutions with stride 2 and two linear layers, on images of digits."""

import training


def net(library, parameters, x):
    w0, b0, w1, b1, w2, b2, w3, b3 = parameters
    if hasattr(library, "lax"):

        def conv(x, w, b):
            return library.lax.conv(x, w, (2, 2), "VALID") + b[:, None, None]

    else:

        def conv(x, w, b):
            return library.nn.functional.conv2d(x, w, b, stride=2)

    def relu(x):
        return training.relu(library, x)

    x = relu(conv(relu(conv(x, w0, b0)), w1, b1))
    return relu(x.reshape(len(x), -1) @ w2 + b2) @ w3 + b3


# JAX's convolutions are several times slower inside a scan (jax-ml/jax issue 12868).
training.rival(
    net, 4, {"w0": 4, "b0": 1, "w1": 4, "b1": 1, "w2": 2, "b2": 1, "w3": 2, "b3": 1}, scans=False
)
