"""Convolution of signs in OpenVINO: as bits, in int8 and in f32, from f32 in NHWC to f32 in NHWC.

Weights are constants of the model. Positions outside of the image have the sign -1. The number of
threads is requested, and reported.
"""

import argparse
import importlib.metadata

import protocol

TAPS = 3


def nchw(openvino, x):
    return openvino.opset8.transpose(x, [0, 3, 1, 2])


def signs(openvino, x, levels=2):
    """Returns -1 or 1; with 256 levels, the plugin computes the convolution in int8.

    The range of the input is not empty, because the plugin returns NaN for an empty range.
    """
    import numpy as np

    near, one = np.float32(1e-6), np.float32(1)
    two = openvino.opset8.fake_quantize(x, -near, near, -one, one, 2)
    if levels == 2:
        return two
    return openvino.opset8.fake_quantize(two, -one, one, -one, one, levels)


def padded(openvino, x):
    """Pads with -1, which a convolution itself cannot."""
    import numpy as np

    edges = np.array([0, 0, 1, 1])
    return openvino.opset8.pad(x, edges, edges, "constant", np.float32(-1))


def convolution(openvino, library, x, weights):
    import numpy as np

    opset = openvino.opset8
    kernel = np.where(weights > 0, 1, -1).astype(np.float32).transpose(0, 3, 1, 2)
    kernel = np.ascontiguousarray(kernel)
    one, none = [1, 1], [0, 0]
    if library == "openvino":
        bits = openvino.Tensor(openvino.Type.u1, openvino.Shape(kernel.shape))
        # The first element is the lowest bit. With channels that are no multiple of 8, the plugin
        # returns wrong sums.
        packed = np.packbits(kernel.reshape(-1) > 0, bitorder="little")
        bits.data[:] = packed.reshape(bits.data.shape)
        kernel = openvino.op.Constant(bits)
        x = signs(openvino, nchw(openvino, x))
        return openvino.opset1.binary_convolution(x, kernel, one, one, one, one, "xnor-popcount", -1.0)
    levels = 256 if library == "openvino-int8" else 2
    x = padded(openvino, signs(openvino, nchw(openvino, x), levels))
    if levels == 256:
        low, high = np.float32(-1), np.float32(1)
        kernel = opset.fake_quantize(opset.constant(kernel), low, high, low, high, 255)
    return opset.convolution(x, kernel, one, none, none, one)


say = protocol.start()
parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
for name in ["x", "weights"]:
    parser.add_argument(f"--{name}", required=True)
for name in ["batch", "side", "channels"]:
    parser.add_argument(f"--{name}", type=int, required=True)
args = parser.parse_args()
try:
    import numpy as np
    import openvino
    import openvino.opset1
    import openvino.opset8
except ImportError as error:
    protocol.missing(say, error)

image = [args.batch, args.side, args.side, args.channels]
x = np.fromfile(args.x, dtype="<f4").reshape(image)
weights = np.fromfile(args.weights, dtype="<f4").reshape(args.channels, TAPS, TAPS, args.channels)
parameter = openvino.opset8.parameter(image, np.float32)
sums = convolution(openvino, args.library, parameter, weights)
model = openvino.Model([openvino.opset8.transpose(sums, [0, 2, 3, 1])], [parameter])
threads = protocol.available_cores()
settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
compiled = openvino.Core().compile_model(model, "CPU", settings)
request = compiled.create_infer_request()
request.set_input_tensor(openvino.Tensor(x))


def work():
    request.infer()
    return request.get_output_tensor().data


version = importlib.metadata.version("openvino")
protocol.serve(say, args.library, version, threads, work, lambda y: np.ascontiguousarray(y).astype("<f4").tobytes())
