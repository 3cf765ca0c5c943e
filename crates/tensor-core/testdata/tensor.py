"""Writes tensor.txt: what NumPy gives for the programs below, one a line."""

import math
import warnings

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

np.seterr(all="ignore")
warnings.simplefilter("ignore")

F32, F64, F16, I32, U32 = np.float32, np.float64, np.float16, np.int32, np.uint32
NAMES = {F32: "f32", F64: "f64", F16: "f16", I32: "i32", U32: "u32", np.bool_: "bool"}
INF, NAN = np.inf, np.nan

# Values that are special, or that show which way a result is rounded.
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, -7.25, 1e30]
SIGNED = [-(2**31), -8, -7, -1, 0, 1, 2, 3, 33, 2**31 - 1]
UNSIGNED = [0, 1, 2, 3, 7, 31, 32, 33, 2**31, 2**32 - 1]


def iota(shape, dtype=I32):
    """Small integers in no order, with ties."""
    n = int(np.prod(shape, dtype=int))
    return ((np.arange(n) * 7) % 11 - 5).astype(dtype).reshape(shape)


def bits(shape):
    return iota(shape) % 3 == 0


def word(value):
    if isinstance(value, np.bool_ | np.integer):
        return str(int(value))
    return str(float(value) if isinstance(value, F16) else value).removesuffix(".0")


def written(array):
    array = np.asarray(array)
    words = " ".join(word(value) for value in array.ravel())
    return f"{NAMES[array.dtype.type]}{list(array.shape)} {words}".replace(", ", ",").strip()


def softmax_of(x, axis=0):
    wide = x.astype(F64)
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype)


LINES = []


def case(program, function, *operands, refused=None):
    """One line: the program, its operands, and what NumPy gives, or the error of ours where it refuses."""
    operands = [np.asarray(operand) for operand in operands]
    if refused:
        try:
            function(*operands)
        except (ValueError, IndexError, TypeError):
            result = f"refused {refused}"
        else:
            raise SystemExit(f"NumPy accepts {program}")
    else:
        result = written(function(*operands))
    LINES.append("; ".join([program, *map(written, operands), result]))


def products_of_bytes(a, b):
    """The sums of the products of four signed bytes, for a column and a row of words."""
    a, b = (np.ascontiguousarray(words).ravel().view(np.int8).reshape(-1, 4).astype(I32) for words in (a, b))
    return a @ b.T


def elementwise():
    for dtype in F32, F64:
        x = np.array(FLOATS, dtype)
        column = x[:, None]
        for name, function in [
            ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide),
            ("floor_div", np.floor_divide), ("rem", np.remainder), ("pow", np.power),
            ("maximum", np.maximum), ("minimum", np.minimum),
            ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
            ("eq", np.equal), ("ne", np.not_equal),
        ]:
            case(name, function, column, x)
        y = np.array(FLOATS + [0.3, 2.5, 3.5, -0.5, 100.0, -100.0, 1e-30], dtype)
        for name, function in [
            ("neg", np.negative), ("abs", np.abs), ("floor", np.floor), ("ceil", np.ceil), ("round", np.rint),
            ("trunc", np.trunc), ("sqrt", np.sqrt), ("recip", np.reciprocal), ("exp", np.exp), ("ln", np.log),
            ("tanh", np.tanh), ("is_nan", np.isnan), ("square", np.square),
            ("relu", lambda y: np.maximum(y, dtype(0))), ("sign", np.sign),
            ("sigmoid", lambda y: (1 / (1 + np.exp(-y.astype(F64)))).astype(dtype)),
            ("erf", lambda y: np.vectorize(math.erf, otypes=[F64])(y).astype(dtype)),
            ("erfc", lambda y: np.vectorize(math.erfc, otypes=[F64])(y).astype(dtype)),
        ]:
            case(name, function, y)
        angles = np.array([NAN, INF, -INF, 0.0, -0.0, 0.5, -1.0, 3.0, 22.0, -100.0, 1e4], dtype)
        case("sin", np.sin, angles)
        case("cos", np.cos, angles)

    for values, dtype in (SIGNED, I32), (UNSIGNED, U32):
        x = np.array(values, dtype)
        column = x[:, None]
        for name, function in [
            ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("floor_div", np.floor_divide),
            ("rem", np.remainder), ("maximum", np.maximum), ("minimum", np.minimum),
            ("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor),
            ("shl", np.left_shift), ("shr", np.right_shift),
            ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
            ("eq", np.equal), ("ne", np.not_equal),
        ]:
            case(name, function, column, x)
        # The values, and words whose bytes have all signs.
        y = np.concatenate([x.view(I32), np.array([0x7F80FF01, -0x7F008081, 0x01020304, -0x01020304], I32)]).view(dtype)
        case("dot4_i8", lambda a, b: products_of_bytes(a, b).astype(dtype), y[:, None], y)
        case("not", np.invert, x)
        # NumPy counts the bits of the absolute value of a signed integer; here all 32 bits count.
        case("count_ones", lambda x: np.bitwise_count(x.view(U32)).astype(dtype), x)
        case("square", np.square, x)
        case("relu", lambda x: np.maximum(x, dtype(0)), x)
        case("sign", np.sign, x)
    case("neg", np.negative, np.array(SIGNED, I32))
    case("abs", np.abs, np.array(SIGNED, I32))

    b = np.array([False, True])
    for name, function in [
        ("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor), ("eq", np.equal), ("ne", np.not_equal),
    ]:
        case(name, function, b[:, None], b)
    case("not", np.logical_not, b)

    for dtype in F32, F64:
        bounds = np.array([NAN, -INF, -1.0, 0.5, INF], dtype)
        case("clip", np.clip, np.array(FLOATS, dtype)[:, None, None], bounds[:, None], bounds)
    case("clip", np.clip, np.array(SIGNED, I32)[:, None], np.array([-7, 3], I32), np.array([2, 1], I32))
    case("clip", np.clip, np.array(UNSIGNED, U32), np.array(2, U32), np.array(33, U32))
    case("clip", np.clip, iota((2,)), iota((3,)), iota(()), refused="BroadcastMismatch")

    for a, b in [((3, 1), (4,)), ((), (2, 2)), ((2, 1, 3), (4, 1)), ((0,), (1,)), ((0, 1), (1, 3)), ((1,), ())]:
        case("add", np.add, iota(a), iota(b))
    for a, b in [((2, 3), (2,)), ((0,), (2,)), ((4, 1), (3, 2))]:
        case("add", np.add, iota(a), iota(b), refused="BroadcastMismatch")


def conversion():
    def to(dtype):
        return lambda x: x.astype(dtype)

    special = [NAN, INF, -INF, 0.0, -0.0, 0.1, -0.9]
    in_range = [0.0, -0.0, 0.99, -0.99, 2.5, -2.5, 7.999, -8.5, 65504.0]
    for source in F32, F64, F16:
        for target in F32, F64, F16, np.bool_:
            if source != target:
                case(f"cast {NAMES[target]}", to(target), np.array(special + in_range + [6e-8, 65519.0, 65520.0], source))
        case("cast i32", to(I32), np.array(in_range, source))
        case("cast u32", to(U32), np.array([0.0, 0.99, 2.5, 7.999, 65504.0], source))
    for source, values in (I32, SIGNED), (U32, UNSIGNED):
        x = np.array(values + [2**24 + 1, 2**24 + 3, 65519, 65520], source)
        for target in F32, F64, F16, I32, U32, np.bool_:
            if source != target:
                case(f"cast {NAMES[target]}", to(target), x)
    for target in F32, F64, F16, I32, U32:
        case(f"cast {NAMES[target]}", to(target), np.array([False, True]))


def selection():
    x, y = np.array([NAN, 1.0, -0.0, INF], F32), np.array([1.0, NAN, 0.0, -INF], F32)
    case("select", np.where, np.array([True, False, True, False]), x, y)
    case("select", np.where, x > 0, x, y)
    case("select", np.where, bits((2, 1, 3)), iota((4, 1)), iota((3,)))
    case("select", np.where, np.True_, iota((2, 2), U32), iota((1,), U32))
    case("select", np.where, bits((0,)), iota((1,)), iota((), I32))
    case("select", np.where, bits((3,)), bits((2, 1)), ~bits((3,)))
    case("select", np.where, bits((2,)), iota((3,)), iota((1,)), refused="BroadcastMismatch")


def views():
    x, line = iota((2, 3, 4)), np.arange(7, dtype=I32)

    def sliced(axis, start, stop, step):
        def function(x):
            index = [slice(None)] * x.ndim
            index[axis] = slice(start, stop, step)
            return x[tuple(index)]

        return f"slice {axis} {start} {stop} {step}".replace("None", "_"), function

    for start in None, 0, 2, 6, 7, 100, -1, -7, -100:
        for stop in None, 0, 5, 100, -2, -100:
            case(*sliced(0, start, stop, 2), line)
            case(*sliced(0, start, stop, -3), line)
    for axis, start, stop, step in [(0, 1, None, 1), (1, -2, None, 1), (2, None, None, -1), (-1, 3, 0, -2), (-2, 5, 9, 1)]:
        case(*sliced(axis, start, stop, step), x)
    case(*sliced(0, None, None, 0), line, refused="ZeroStep")
    case(*sliced(0, 1, 2, 1), iota(()), refused="AxisOutOfRange")

    for axis in 0, 1, 2, -1, -3:
        case(f"flip {axis}", lambda x: np.flip(x, axis), x)
    case("flip 3", lambda x: np.flip(x, 3), x, refused="AxisOutOfRange")
    for axes in [(0, 1, 2), (2, 0, 1), (1, 0, 2), (-1, -2, -3), (0, 2, -2)]:
        case(f"permute {' '.join(map(str, axes))}", lambda x: np.transpose(x, axes), x)
    case("permute 0 0 1", lambda x: np.transpose(x, (0, 0, 1)), x, refused="NotAPermutation")
    case("permute 0 1", lambda x: np.transpose(x, (0, 1)), x, refused="NotAPermutation")
    for shape in [(2, 3, 4), (2, 3), (3,), (), (0, 2)]:
        case("t", np.transpose, iota(shape))
    for axis in 0, 1, 2, -1, -2, -3:
        case(f"expand_dims {axis}", lambda x: np.expand_dims(x, axis), iota((2, 3)))
    case("expand_dims 3", lambda x: np.expand_dims(x, 3), iota((2, 3)), refused="AxisOutOfRange")
    case("expand_dims -4", lambda x: np.expand_dims(x, -4), iota((2, 3)), refused="AxisOutOfRange")
    for axis in 0, 2, -1, -3:
        case(f"squeeze {axis}", lambda x: np.squeeze(x, axis), iota((1, 3, 1)))
    case("squeeze 1", lambda x: np.squeeze(x, 1), iota((1, 3, 1)), refused="NotSizeOne")

    def broadcast(shape):
        return f"broadcast_to {' '.join(map(str, shape))}".strip(), lambda x: np.broadcast_to(x, shape)

    for source, shape in [((3,), (2, 3)), ((3, 1), (3, 2)), ((), (2, 2)), ((1,), (0,)), ((2, 1, 3), (2, 2, 3)), ((), ())]:
        case(*broadcast(shape), iota(source))
    for source, shape in [((3,), (3, 2)), ((2, 3), (3,)), ((0,), (2,)), ((2,), (1,))]:
        case(*broadcast(shape), iota(source), refused="NotBroadcastable")

    for source, shape in [((2, 3), (3, 2)), ((2, 3), (6,)), ((6,), (1, 2, 3)), ((), (1, 1)), ((1,), ()), ((0, 3), (2, 0))]:
        case(f"reshape {' '.join(map(str, shape))}".strip(), lambda x: np.reshape(x, shape), iota(source))
    case("reshape 4", lambda x: np.reshape(x, (4,)), iota((2, 3)), refused="ElementCount")
    # A transposed matrix and a flipped one have no strides for these shapes.
    case("t | reshape 3 4", lambda x: np.reshape(x.T, (3, 4)), iota((2, 6)))
    case("flip 0 | reshape 12", lambda x: np.reshape(np.flip(x, 0), (12,)), iota((3, 4)))
    case("t | flatten", lambda x: x.T.flatten(), iota((2, 3)))

    def window(axis, size, step):
        def function(x):
            every = [slice(None)] * x.ndim
            every[axis] = slice(None, None, step)
            return sliding_window_view(x, size, axis)[tuple(every) + (slice(None),)]

        return f"window {axis} {size} {step}", function

    for axis, size, step in [(0, 3, 1), (0, 2, 3), (0, 7, 1), (0, 1, 2), (-1, 4, 2)]:
        case(*window(axis, size, step), line)
    for axis, size, step in [(0, 2, 1), (1, 2, 1), (2, 3, 1), (-1, 2, 2)]:
        case(*window(axis, size, step), x)
    case(*window(0, 8, 1), line, refused="WindowSize")

    def pad(axis, before, after, fill):
        def function(x):
            widths = [(0, 0)] * x.ndim
            widths[axis] = (before, after)
            return np.pad(x, widths, constant_values=fill)

        return f"pad {axis} {before} {after} {fill}", function

    for axis, before, after, fill in [(0, 1, 2, 0), (1, 0, 1, -7), (-1, 2, 0, 9), (0, 0, 0, 1)]:
        case(*pad(axis, before, after, fill), x)
    case(*pad(0, 2, 1, 4), iota((0,)))
    case(*pad(0, 1, 1, 4), iota((0, 2)))
    case(*pad(1, 1, 1, 4), iota((0, 2)))


def joining():
    def concat(axis):
        return f"concat {axis}", lambda *parts: np.concatenate(parts, axis)

    def stack(axis):
        return f"stack {axis}", lambda *parts: np.stack(parts, axis)

    case(*concat(0), iota((2, 3)), iota((1, 3)) + I32(20), iota((0, 3)), iota((2, 3)) + I32(40))
    case(*concat(1), iota((2, 1), F32), iota((2, 3), F32) / F32(2))
    case(*concat(-1), bits((2, 2)), ~bits((2, 1)))
    case(*concat(0), iota((3,), F16), np.array([NAN, -0.0, 0.1], F16))
    case(*concat(-2), iota((0, 2)), iota((0, 2)))
    case(*concat(0), iota((2,)))
    case(*concat(0), iota((2, 3)), iota((2, 2)), refused="ConcatMismatch")
    case(*concat(0), iota((2, 3)), iota((3,)), refused="ConcatMismatch")
    case(*concat(0), iota(()), iota(()), refused="AxisOutOfRange")
    case(*concat(2), iota((2, 3)), iota((2, 3)), refused="AxisOutOfRange")
    for axis in 0, 1, 2, -1, -2:
        case(*stack(axis), iota((2, 3)), -iota((2, 3)))
    case(*stack(0), iota(()), iota(()), iota(()))
    case(*stack(0), iota((2,)), iota((3,)), refused="ConcatMismatch")


def reductions():
    sums = {"sum": np.sum, "prod": np.prod}
    extremes = {"max": np.max, "min": np.min}

    def program(name, axes, keep):
        which = ".." if axes is None else " ".join(map(str, axes))
        return f"{name}{'_keep' if keep else ''} {which}".strip()

    def both(name, function, x, axes, keep=False, refused=None):
        case(program(name, axes, keep), lambda x: function(x, axes, keep), x, refused=refused)

    def folded(name, x, axes, keep=False, refused=None):
        if name in sums:
            dtype = U32 if x.dtype == np.bool_ else x.dtype
            both(name, lambda x, a, k: sums[name](x, axis=a, keepdims=k, dtype=dtype), x, axes, keep, refused)
        elif name in extremes:
            both(name, lambda x, a, k: extremes[name](x, axis=a, keepdims=k), x, axes, keep, refused)
        elif name == "mean":
            dtype = x.dtype if x.dtype in (F32, F64) else F32
            both(name, lambda x, a, k: np.mean(x, axis=a, keepdims=k, dtype=dtype), x, axes, keep, refused)
        elif name == "count":
            both(name, lambda x, a, k: U32(np.count_nonzero(x, axis=a, keepdims=k)), x, axes, keep, refused)
        else:
            function = {"all": np.all, "any": np.any}[name]
            both(name, lambda x, a, k: function(x, axis=a, keepdims=k), x, axes, keep, refused)

    sets = [None, (0,), (1,), (-1,), (0, 2), (-1, 0), (2, 0, 1), ()]
    halves = iota((2, 3, 4), F32) / F32(2)
    for axes in sets:
        for keep in False, True:
            for name in "sum", "prod", "max", "min", "mean":
                folded(name, halves, axes, keep)
            for name in "all", "any", "sum":
                folded(name, bits((2, 3, 4)), axes, keep)
    for dtype in F64, I32, U32:
        for name in "sum", "prod", "max", "min", "mean", "count":
            folded(name, iota((3, 4), dtype), (0,))
            folded(name, iota((3, 4), dtype), None)
    extreme = np.array([[2**31 - 1, 1, 2**31 - 1], [-(2**31), -1, 5]], I32)
    for name in "sum", "prod", "max", "min":
        folded(name, extreme, (1,))
        folded(name, extreme.view(U32), (1,))

    special = np.array([[1, NAN, 3], [INF, 1, -INF], [INF, INF, 2], [-0.0, -0.0, -0.0], [NAN, NAN, NAN], [-INF, 2, 2]], F32)
    for dtype in F32, F64:
        for name in "sum", "prod", "max", "min", "mean", "count":
            folded(name, special.astype(dtype), (1,))

    for name in "sum", "prod", "max", "min":
        folded(name, iota((2, 3), F32), (2,), refused="AxisOutOfRange")
        folded(name, iota((2, 3), F32), (0, -2), refused="RepeatedAxis")
        folded(name, iota((), F32), None)

    # Nothing has a sum, but no largest element.
    for name in "sum", "prod", "mean", "count", "max", "min":
        for shape, axes in [((0,), None), ((0, 3), (0,)), ((0, 3), (1,)), ((0, 3), None), ((3, 0), (0,)), ((3, 0), (1,)),
                            ((0, 0), (0,)), ((0, 0), (1,)), ((0, 0), None), ((2, 0, 3), (1,)), ((2, 0, 3), (0, 2)), ((0, 3), ())]:
            x = iota(shape, F32)
            folds_nothing = any(shape[axis] == 0 for axis in (range(len(shape)) if axes is None else axes))
            refused = "EmptyReduction" if name in extremes and folds_nothing else None
            folded(name, x, axes, refused=refused)
    for name in "all", "any", "sum":
        folded(name, bits((0, 2)), (0,))
        folded(name, bits((0, 2)), (1,))
        folded(name, bits((0,)), None)

    def spread(name, x, axes, ddof, keep=False, refused=None):
        which = ".." if axes is None else " ".join(map(str, axes))
        dtype = x.dtype if x.dtype in (F32, F64) else F32
        function = {"var": np.var, "std": np.std}[name]
        case(f"{name}{ddof}{'_keep' if keep else ''} {which}".strip(),
             lambda x: function(x, axis=axes, ddof=ddof, keepdims=keep, dtype=dtype), x, refused=refused)

    for name in "var", "std":
        for ddof in 0, 1:
            for axes in sets:
                spread(name, halves, axes, ddof, keep=axes == (1,))
            for dtype in F64, I32, U32:
                spread(name, iota((3, 4), dtype), (0,), ddof)
            spread(name, bits((2, 3)), None, ddof)
            spread(name, special, (1,), ddof)
            spread(name, special[:, :1], (1,), ddof)
            for shape, axes in [((0,), None), ((0, 3), (0,)), ((0, 3), (1,)), ((3, 0), (1,))]:
                spread(name, iota(shape, F32), axes, ddof)
        # A mean that a sum of squares would lose the variance beside.
        spread(name, (iota((11,), F64) + 1e9), None, 1)
        spread(name, iota((2, 3), F32), (2,), 0, refused="AxisOutOfRange")

    def position(name, x, axis, refused=None):
        function = {"argmax": np.argmax, "argmin": np.argmin}[name]
        case(f"{name} {axis}", lambda x: U32(function(x, axis)), x, refused=refused)

    for name in "argmax", "argmin":
        for axis in 0, 1, 2, -1:
            position(name, iota((2, 3, 4), F32), axis)
        for dtype in F64, I32, U32:
            position(name, iota((3, 4), dtype), -1)
        position(name, extreme, 1)
        for dtype in F32, F64:
            position(name, special.astype(dtype), 1)
            position(name, special.astype(dtype), 0)
        position(name, np.array([0.0, -0.0, 0.0, -0.0], F32), 0)
        position(name, np.array([INF, INF], F32), 0)
        position(name, iota((3, 0), F32), 0)
        position(name, iota((3, 0), F32), 1, refused="EmptyReduction")
        position(name, iota((0,), F32), 0, refused="EmptyReduction")
        position(name, iota((0, 0), F32), 0, refused="EmptyReduction")
        position(name, iota((2,), F32), 1, refused="AxisOutOfRange")

    def softmax(axis):
        return f"softmax {axis}", lambda x: softmax_of(x, axis)

    for dtype in F32, F64:
        case(*softmax(0), iota((3, 4), dtype))
        case(*softmax(-1), iota((2, 3, 4), dtype) * dtype(100))
    case(*softmax(0), np.array([[1000.0, -INF, NAN, INF], [999.0, 0.0, 1.0, INF]], F32))
    case(*softmax(1), iota((0, 3), F32))
    case(*softmax(0), iota((0, 3), F32), refused="EmptyReduction")


def scans():
    starts = {"cumsum": 0, "cumprod": 1, "cummax": None, "cummin": None}
    functions = {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}

    def start(name, dtype):
        if starts[name] is not None:
            return starts[name]
        least = -INF if dtype in (F32, F64) else np.iinfo(dtype).min
        greatest = INF if dtype in (F32, F64) else np.iinfo(dtype).max
        return least if name == "cummax" else greatest

    def running(name, x, axis, reversed=False, exclusive=False, refused=None):
        def function(x):
            dtype = U32 if x.dtype == np.bool_ else x.dtype.type
            if reversed:
                x = np.flip(x, axis)
            if name in ("cumsum", "cumprod"):
                y = functions[name](x, axis, dtype=dtype)
            else:
                y = functions[name](x, axis)
            if exclusive:
                y = np.concatenate([np.full_like(y.take([0], axis), start(name, dtype)), y], axis)
                y = y.take(range(x.shape[axis]), axis)
            return np.flip(y, axis) if reversed else y

        suffix = ("_reversed" if reversed else "") + ("_exclusive" if exclusive else "")
        case(f"{name}{suffix} {axis}", function, x, refused=refused)

    special = np.array([[1.0, NAN, 2.0, INF], [INF, -INF, 1.0, 0.0], [-0.0, 0.0, -3.0, NAN]], F32)
    for name in functions:
        for reversed in False, True:
            for exclusive in False, True:
                for axis in 0, 1, -1:
                    running(name, iota((2, 3, 4), F32), axis, reversed, exclusive)
                for dtype in F64, I32, U32:
                    running(name, iota((3, 4), dtype), 1, reversed, exclusive)
                running(name, special, 0, reversed, exclusive)
                running(name, special, 1, reversed, exclusive)
        running(name, iota((3, 1), F32), 1)
        running(name, iota((3, 0), F32), 1)
        running(name, iota((0, 3), F32), 1)
        running(name, iota((2, 3), F32), 2, refused="AxisOutOfRange")
        running(name, iota((2, 3), F32), -3, refused="AxisOutOfRange")
    running("cumsum", bits((3, 4)), 0)
    running("cumsum", bits((3, 4)), 1, reversed=True, exclusive=True)
    running("cumsum", np.array([2**31 - 1, 1, 1], I32), 0)
    running("cumprod", np.array([2**31, 2, 3], U32), 0)


def sorts():
    def order(x, axis, descending):
        # Every key is exact, and NaN is last whatever its sign.
        keys = x.astype(np.float64)
        return np.argsort(-keys if descending else keys, axis, kind="stable").astype(U32)

    def sorted_(name, x, axis, descending):
        def function(x):
            positions = order(x, axis, descending)
            return positions if name == "argsort" else np.take_along_axis(x, positions, axis)

        case(f"{name}{'_descending' if descending else ''} {axis}", function, x)

    special = np.array([[1.0, NAN, 2.0, INF, -0.0, 0.0], [0.0, -INF, 1.0, 1.0, NAN, -0.0]], F32)
    for name in "sort", "argsort":
        for descending in False, True:
            for dtype in F32, F64, I32, U32:
                x = (iota((3, 4, 2), F64) * 5 % 7 - (0 if dtype == U32 else 3)).astype(dtype)
                for axis in 0, 1, -1:
                    sorted_(name, x, axis, descending)
            sorted_(name, special, 0, descending)
            sorted_(name, special, 1, descending)
            sorted_(name, special > 0.5, 1, descending)
            sorted_(name, iota((3, 1), F32), 1, descending)
            sorted_(name, iota((0, 3), F32), 0, descending)

    def largest(name, x, k, axis):
        def function(x):
            positions = np.take(order(x, axis, True), np.arange(k), axis)
            return positions if name == "topk_positions" else np.take_along_axis(x, positions, axis)

        case(f"{name} {k} {axis}", function, x)

    for name in "topk", "topk_positions":
        for k in 0, 1, 3:
            largest(name, iota((4, 3), F32), k, 0)
            largest(name, iota((3, 4), I32), k, -1)
        largest(name, special, 6, 1)
        largest(name, special, 5, -1)
        largest(name, special > 0.5, 4, 1)
        largest(name, iota((3,), U32), 3, 0)


def scatters():
    def scatter(name, at, axis, along):
        def function(x, index, values):
            result = x.copy()
            index = index.astype(np.int64)
            if along:
                shape = list(x.shape)
                shape[axis] = index.shape[axis]
                places = list(np.indices(shape))
                places[axis] = np.broadcast_to(index, shape)
                places = tuple(places)
            else:
                places = (slice(None),) * (axis % x.ndim) + (index,)
            at(result, places, values)
            return result

        return f"scatter_{name}{'_along_axis' if along else ''} {axis}", function

    at = np.array([[2, 0, -1], [1, 2, 0]], I32)
    for name, function in ("add", np.add.at), ("max", np.maximum.at), ("min", np.minimum.at):
        for dtype in F32, F64, I32, U32:
            x = abs(iota((3, 2))).astype(dtype)
            case(*scatter(name, function, 0, False), x, at, abs(iota((2, 3, 2), I32) * 3).astype(dtype))
            case(*scatter(name, function, -1, False), x.T, at[0], abs(iota((2, 3))).astype(dtype))
            case(*scatter(name, function, 0, True), x, at[:, :2], abs(iota((2, 2))).astype(dtype))
            case(*scatter(name, function, 1, True), x.T, at.astype(I32), abs(iota((2, 3))).astype(dtype))
        special = np.array([1.0, NAN, INF, -INF, 2.0, 0.5], F32)
        case(*scatter(name, function, 0, False), special, np.array([4, 1, 2, 5, 0, 4, 3], U32), np.array([3, 1, -1, NAN, 7, 5, INF], F32))
        case(*scatter(name, function, 0, False), special, np.array([], I32), np.array([], F32))
        case(*scatter(name, function, 0, False), special, np.array(2, I32), np.array(9, F32))
        case(*scatter(name, function, 0, True), special, np.array([2, 2, -1], I32), np.array(3, F32))
        case(*scatter(name, function, 0, False), special, np.array([6], I32), np.array([9], F32), refused="IndexOutOfRange")
        case(*scatter(name, function, 0, False), special, np.array([-7], I32), np.array([9], F32), refused="IndexOutOfRange")
    for dtype in I32, U32:
        for shape in (40,), (3, 7), (0,), ():
            case("bincount 12", lambda x: np.bincount(x.ravel(), minlength=12).astype(U32), abs(iota(shape)).astype(dtype))
    edges = np.array([0, 1, 0.25, 0.5, 0.75, 0.1, 0.2, 0.3, 0.7, -0.1, 1.1, 0.9999999, INF, -INF], F64)
    for dtype in F32, F64:
        for n_bins, low, high in (1, 0, 1), (4, 0, 1), (10, -0.5, 1.5), (7, 0.1, 0.2):
            x = np.concatenate([edges, np.linspace(-0.2, 1.2, 57)]).astype(dtype)

            def histogram(x, n_bins=n_bins, low=low, high=high):
                # NumPy rounds its own edges from f64; ours are computed in the type of x.
                width = x.dtype.type((high - low) / n_bins)
                edges = np.arange(n_bins).astype(x.dtype) * width + x.dtype.type(low)
                edges = np.append(edges, x.dtype.type(high))
                return np.histogram(x, edges)[0].astype(U32)

            case(f"histogram {n_bins} {low} {high}", histogram, x)
    case("histogram 3 0 1", lambda x: np.array([0, 0, 1], U32), np.array([NAN, 0.7], F32))


def picking():
    def take(axis):
        return f"gather {axis}", lambda x, index: np.take(x, index.astype(np.int64), axis)

    x = iota((3, 4), F32)
    case(*take(0), x, np.array([2, 0, -1, -3], I32))
    case(*take(1), x, np.array([[3, -4], [0, 1]], I32))
    case(*take(-1), x, np.array(1, I32))
    case(*take(0), x, np.array([2, 1], U32))
    case(*take(1), iota((2, 3, 2)), np.array([[[0, 2]]], I32))
    case(*take(0), bits((5,)), np.array([4, 4, 0], I32))
    case(*take(0), np.array([0.1, NAN, -0.0], F16), np.array([2, 1, 0], I32))
    case(*take(0), x, np.zeros((0,), I32))
    case(*take(0), iota((0, 2)), np.zeros((0,), I32))
    case(*take(1), iota((0, 2)), np.array([1, -1], I32))
    case(*take(0), x, np.array([0, 3], I32), refused="IndexOutOfRange")
    case(*take(0), x, np.array([0, -4], I32), refused="IndexOutOfRange")
    case(*take(0), x, np.array([2**32 - 1], U32), refused="IndexOutOfRange")
    case(*take(1), x, np.array(4, I32), refused="IndexOutOfRange")
    case(*take(0), iota((0, 2)), np.array([0], I32), refused="EmptyReduction")
    case(*take(2), x, np.array([0], I32), refused="AxisOutOfRange")

    def along(axis):
        return f"take_along_axis {axis}", lambda x, index: np.take_along_axis(x, index.astype(np.int64), axis)

    case(*along(1), x, np.array([[3, -4, 0], [1, 1, -1], [0, 2, 2]], I32))
    case(*along(0), x, np.array([[0, 1, 2, -1]], I32))
    case(*along(-1), x, np.array([[0], [1], [3]], U32))
    case(*along(1), x, np.array([[-1, 0]], I32))
    case(*along(1), x, np.zeros((3, 0), I32))
    case(*along(0), iota((4,)), np.array([3, -3, 0, 0, 1], I32))
    case(*along(1), x, np.array([[4], [0], [0]], I32), refused="IndexOutOfRange")
    case(*along(1), x, np.array([[0], [0], [-5]], I32), refused="IndexOutOfRange")


def products():
    shapes = [
        ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((1, 1), (1, 1)), ((3,), (2, 3, 2)),
        ((2, 2, 3), (3,)), ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)),
        ((1, 2, 3), (2, 3, 1)), ((2, 1, 1, 2), (3, 2, 1)), ((0,), (0,)), ((2, 0), (0, 3)), ((0, 3), (3, 2)),
        ((0, 2, 3), (3, 2)), ((0, 2, 3), (1, 3, 2)), ((9, 17), (17, 10)), ((16, 8), (8, 16)),
    ]
    for dtype in F32, I32:
        for a, b in shapes:
            case("matmul", np.matmul, iota(a, dtype), iota(b, dtype))
    case("matmul", np.matmul, iota((2, 3), F64), iota((3, 2), F64))
    case("matmul", np.matmul, iota((2, 3), U32), iota((3, 2), U32))
    case("matmul", np.matmul, np.array([[INF, 1], [NAN, 0]], F32), np.array([[0, 1], [1, 2]], F32))
    for a, b in [((3,), (2,)), ((2, 3), (2, 3)), ((), (3,)), ((2, 2), ()), ((3,), (2, 3))]:
        case("matmul", np.matmul, iota(a, F32), iota(b, F32), refused="InnerMismatch")
    case("matmul", np.matmul, iota((2, 2, 3), F32), iota((3, 3, 2), F32), refused="BroadcastMismatch")


def chains():
    """Several steps, where a planner has something to get wrong."""
    line, x = iota((9,), F32), iota((4, 6), F32)
    case("window 0 3 1 | mean -1", lambda x: sliding_window_view(x, 3).mean(-1), line)
    case("window 0 4 2 | flip 1 | max -1 | flip 0", lambda x: np.flip(sliding_window_view(x, 4)[::2, ::-1].max(-1)), line)
    case("window 0 2 1 | window 1 3 2 | sum -1 -2", lambda x: sliding_window_view(x, (2, 3))[:, ::2].sum((-1, -2)), x)
    case("slice 0 _ _ -2 | pad 0 1 2 7 | slice 0 0 _ 2", lambda x: np.pad(x[::-2], (1, 2), constant_values=7)[::2], line)
    case("pad 0 1 1 -100 | window 0 3 1 | argmin -1", lambda x: U32(sliding_window_view(np.pad(x, 1, constant_values=-100), 3).argmin(-1)), line)
    case("pad 1 2 0 1 | t | reshape 4 8 | prod 1", lambda x: np.pad(x, [(0, 0), (2, 0)], constant_values=1).T.reshape(4, 8).prod(1), x)
    case("concat 0 | flip 0 | t | sum_keep 1", lambda a, b: np.flip(np.concatenate([a, b]), 0).T.sum(1, keepdims=True), x, -x)
    case("sub | abs | lt_1 | sum 0", lambda a, b: (abs(a - b) < 1).sum(0, dtype=U32), x[:, :, None], x[:, None, :])
    case("sub | abs | lt_1 | all 0", lambda a, b: (abs(a - b) < 1).all(0), x[:, :, None], x[:, None, :])
    case("gather 1 | permute 1 0 2 | max 0", lambda x, i: np.take(x, i, 1).max(1), x, np.array([[0, -1], [3, 3]], I32))
    case("sum 1 | expand_dims 1 | broadcast_to 4 3 | prod 0", lambda x: np.broadcast_to(x.sum(1)[:, None], (4, 3)).prod(0), x)
    case("matmul | relu | max 1 | softmax 0", lambda a, b: softmax_of(np.maximum(a @ b, 0).max(1)), x, x.T)


def near_zero():
    for dtype in F32, F64:
        small = [s * dtype(10.0) ** -e for e in (1, 3, 7, 12, 20) for s in (dtype(1), dtype(-0.7))]
        x = np.array(FLOATS + small + [0.41, 0.42, -0.41, -0.42, -0.999, 0.99, 1.01, 40.0, -40.0, 100.0, -1e30], dtype)
        case("exp2", np.exp2, x)
        case("expm1", np.expm1, x)
        case("log1p", np.log1p, x)


def triangles():
    for shape in (3, 4), (4, 3), (2, 3, 3), (1, 1), (0, 2), (2, 2, 0):
        for k in (-9, -1, 0, 1, 9) if shape == (3, 4) else (0, -1):
            case(f"tril {k}", lambda x: np.tril(x, k), iota(shape))
            case(f"triu {k}", lambda x: np.triu(x, k), iota(shape))
    special = np.array([[NAN, INF], [-INF, -0.0]], F32)
    case("tril 0", np.tril, special)
    case("triu 1", lambda x: np.triu(x, 1), special.astype(F16))
    case("tril -1", lambda x: np.tril(x, -1), bits((3, 3)))
    x = iota((2, 3, 4))
    for a, b in (0, 1), (-1, -2), (2, 0), (1, 1):
        case(f"swap_axes {a} {b}", lambda x: np.swapaxes(x, a, b), x)
    case("swap_axes 0 3", lambda x: np.swapaxes(x, 0, 3), x, refused="AxisOutOfRange")
    for axis, n, part in (0, 2, 1), (1, 3, 0), (-1, 2, 1), (-1, 4, 3), (0, 1, 0):
        case(f"split {axis} {n} {part}", lambda x: np.split(x, n, axis)[part], x)
    case("split 0 3 2", lambda x: np.split(x, 3, 0)[2], iota((0, 2)))
    case("split 1 2 0", lambda x: np.split(x, 2, 1)[0], x, refused="UnevenSplit")
    case("split 3 2 0", lambda x: np.split(x, 2, 3)[0], x, refused="AxisOutOfRange")


elementwise()
conversion()
selection()
views()
joining()
reductions()
scans()
sorts()
scatters()
picking()
products()
chains()
near_zero()
triangles()
with open("tensor.txt", "w", encoding="ascii") as file:
    file.write("\n".join(LINES) + "\n")
