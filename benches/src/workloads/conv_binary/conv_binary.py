"""Convolution of levels of one or two bits in OpenVINO: as bits, in int8 and in f32, from f32 in
NHWC to f32 in NHWC.

The levels are -1 and 1, or -3, -1, 1 and 3. Weights are constants of the model, and are levels
already. Positions outside of the image have the lowest level. The number of threads is requested,
and reported.
"""

import argparse
import importlib.metadata

import protocol

TAPS = 3


def nchw(openvino, x):
    return openvino.opset8.transpose(x, [0, 3, 1, 2])


def highest(bits):
    """Returns the highest level; the lowest one is its negative."""
    import numpy as np

    return np.float32(2**bits - 1)


def levels_of(openvino, x, bits, in_bytes=False):
    """Returns the nearest level; with 256 steps, the plugin computes the convolution in int8.

    The range of the input is not empty, because the plugin returns NaN for an empty range.
    """
    import numpy as np

    high = highest(bits)
    far = np.float32(1e-6) if bits == 1 else high
    quantized = openvino.opset8.fake_quantize(x, -far, far, -high, high, 2**bits)
    if not in_bytes:
        return quantized
    return openvino.opset8.fake_quantize(quantized, -high, high, -high, high, 256)


def padded(openvino, x, bits):
    """Pads with the lowest level, which a convolution itself cannot."""
    import numpy as np

    edges = np.array([0, 0, 1, 1])
    return openvino.opset8.pad(x, edges, edges, "constant", -highest(bits))


def convolution(openvino, library, x, weights, bits):
    import numpy as np

    opset = openvino.opset8
    kernel = np.ascontiguousarray(weights.transpose(0, 3, 1, 2))
    one, none = [1, 1], [0, 0]
    if library == "openvino":
        words = openvino.Tensor(openvino.Type.u1, openvino.Shape(kernel.shape))
        # The first element is the lowest bit. With channels that are no multiple of 8, the plugin
        # returns wrong sums.
        packed = np.packbits(kernel.reshape(-1) > 0, bitorder="little")
        words.data[:] = packed.reshape(words.data.shape)
        kernel = openvino.op.Constant(words)
        x = levels_of(openvino, nchw(openvino, x), bits)
        return openvino.opset1.binary_convolution(x, kernel, one, one, one, one, "xnor-popcount", -1.0)
    in_bytes = library == "openvino-int8"
    x = padded(openvino, levels_of(openvino, nchw(openvino, x), bits, in_bytes), bits)
    if in_bytes:
        # 127 steps of 1/42: the levels 1 and 3 are 42 and 126 steps.
        high = np.float32(127 / 42)
        kernel = opset.fake_quantize(opset.constant(kernel), -high, high, -high, high, 255)
    return opset.convolution(x, kernel, one, none, none, one)


say = protocol.start()
parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
for name in ["x", "weights"]:
    parser.add_argument(f"--{name}", required=True)
for name in ["batch", "side", "channels", "bits"]:
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
sums = convolution(openvino, args.library, parameter, weights, args.bits)
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
