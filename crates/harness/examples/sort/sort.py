"""The numbers of x in ascending order."""

import protocol


def with_numpy(np, x):
    return np.sort(x)


protocol.rival({"x": ("n",)}, with_numpy)
