"""Writes the files in npy/: small arrays as numpy.save and its kin write them."""

import numpy as np
from numpy.lib import format as npy

SIX = np.array([[1.5, -0.0, np.inf], [np.nan, 2**-10, -2]])

ARRAYS = {
    "f32": SIX.astype("<f4"),
    "f64_column_major": np.asfortranarray(SIX),
    "f16": SIX.astype("<f2"),
    "i32_big_endian": np.array([[[1], [-2]], [[3], [2**31 - 1]], [[5], [-(2**31)]]], ">i4"),
    "u32_scalar": np.array(2**32 - 1, "<u4"),
    "bool_line": np.array([True, False, True]),
    "f32_empty": np.zeros((2, 0, 3), "<f4"),
    "f64_big_endian_column_major": np.asfortranarray(SIX.astype(">f8")),
    "i64": np.arange(3, dtype="<i8"),
    "i64_large": np.array([[1, -(2**31)], [2**31 - 1, 5_000_000_000]], "<i8"),
    "u8_column_major": np.asfortranarray(np.array([[0, 1, 2], [127, 128, 255]], "u1")),
    "i16_big_endian": np.array([-(2**15), -1, 2**15 - 1], ">i2"),
    "u64": np.array([0, 2**32 - 1], "<u8"),
    "c64": np.zeros(2, "<c8"),
    "record": np.zeros(2, [("a", "<f4"), ("b", "<i4")]),
}

for name, array in ARRAYS.items():
    np.save(f"npy/{name}.npy", array)
for version in (2, 0), (3, 0):
    with open(f"npy/f32_version_{version[0]}.npy", "wb") as file:
        npy.write_array(file, SIX.astype("<f4"), version)
