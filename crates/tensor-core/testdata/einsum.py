"""Writes einsum.txt: what numpy.einsum gives for the cases below."""

import numpy as np

CASES = [
    ("ik,kj->ij", [(2, 3), (3, 4)]),
    ("ik,kj", [(2, 3), (3, 4)]),
    ("kj,ik", [(3, 4), (2, 3)]),
    ("ik,jk->ij", [(2, 3), (4, 3)]),
    ("ki,kj->ji", [(3, 2), (3, 5)]),
    ("i,i", [(7,), (7,)]),
    ("i,j->ij", [(3,), (5,)]),
    ("i,j->ji", [(3,), (5,)]),
    ("i,i->i", [(5,), (5,)]),
    ("ij->ji", [(2, 5)]),
    ("ba", [(2, 3)]),
    ("aB", [(2, 3)]),
    ("ij->", [(3, 5)]),
    ("ij->i", [(3, 5)]),
    ("ij->j", [(3, 5)]),
    ("ii", [(4, 4)]),
    ("ii->i", [(4, 4)]),
    ("iii->i", [(3, 3, 3)]),
    ("iji->j", [(3, 2, 3)]),
    ("iij,jj->i", [(2, 2, 3), (3, 3)]),
    ("ij,j", [(3, 4), (4,)]),
    ("bik,bkj->bij", [(2, 2, 3), (2, 3, 5)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 2), (2, 2, 4, 2)]),
    ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 4)]),
    ("ij,jk,kl", [(2, 3), (3, 2), (2, 4)]),
    ("ijk,ljm,kmn->iln", [(2, 2, 3), (2, 2, 2), (3, 2, 4)]),
    ("i,ij,j->", [(2,), (2, 3), (3,)]),
    ("a,b,c,d->dcba", [(2,), (3,), (2,), (2,)]),
    ("ij,ij->ij", [(1, 3), (2, 3)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("ij,kj->ik", [(2, 3), (1, 1)]),
    ("ii,i->i", [(1, 1), (3,)]),
    ("ik,kj->ij", [(2, 0), (0, 3)]),
    ("ik,kj->ij", [(0, 3), (3, 2)]),
    ("ij,i->i", [(3, 0), (1,)]),
    ("i,->i", [(3,), ()]),
    (",", [(), ()]),
    ("", [()]),
]


def words(numbers):
    return " ".join(str(int(n)) for n in numbers)


with open("einsum.txt", "w", encoding="ascii") as file:
    for spec, shapes in CASES:
        operands = [
            ((np.arange(np.prod(shape, dtype=int)) * 7 + n * 5) % 11 - 5.0).reshape(shape)
            for n, shape in enumerate(shapes)
        ]
        out = np.einsum(spec, *operands)
        shapes = " / ".join(words(shape) for shape in shapes)
        file.write(f"{spec}; {shapes}; {words(np.shape(out))}; {words(np.ravel(out))}\n")
