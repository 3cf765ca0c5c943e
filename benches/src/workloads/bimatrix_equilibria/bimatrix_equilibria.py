"""All equilibria of a bimatrix game: the strategies of both players, by descending probability of
the first action.
"""

import protocol


def with_nashpy(nashpy, a, b):
    found = nashpy.Game(a, b).vertex_enumeration()
    return sorted(([*x, *y] for x, y in found), key=lambda profile: [-round(p, 6) for p in profile])


protocol.rival({"a": ("rows", "cols"), "b": ("rows", "cols")}, nashpy=with_nashpy, dtype="f64")
