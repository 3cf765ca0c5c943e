"""Whether each pair of columns of x lies closer than 1 in all of its rows."""

import protocol


def with_numpy(np, x):
    # The difference of all pairs in all rows would be 4 GB, so one row of x at a time.
    similar = np.ones((x.shape[1], x.shape[1]), bool)
    for row in x:
        similar &= np.abs(row[:, None] - row[None, :]) < 1
    return similar


def with_torch(_, x):
    # In place: with another 4 GB for the absolute value, peers with less memory could not run it.
    return ((x[:, :, None] - x[:, None, :]).abs_() < 1).all(0)


def with_jax(jax, x):
    return (jax.numpy.abs(x[:, :, None] - x[:, None, :]) < 1).all(0)


protocol.rival({"x": ("n", "d")}, with_numpy, with_torch, with_jax, dtype="bool")
