"""Inference of the float network 32C5-P2-64C5-P2-512-10 in PyTorch and OpenVINO, on one thread of
the CPU, or in PyTorch on an NVIDIA GPU.

`openvino-int8` quantizes weights per filter and the inputs of each layer, whose ranges are those of
the images, to 8 bits.

The arrays are 8-bit codes in f32 and all numbers of the network, in our layouts; weights are
permuted to the library's before the run. The result is the scores of all images.
"""

import argparse
import functools
import importlib.metadata
import os

import protocol

EPSILON = 1e-5
NAMES = ["codes", "input_scale", "input_offset", "classes_weight", "classes_bias"]
NAMES += ["conv1_weight", "conv2_weight", "hidden_weight"]
NAMES += [f"norm{number}_{name}" for number in (1, 2, 3) for name in ("gamma", "beta", "mean", "variance")]


def read(np, args):
    """Returns the arrays in the layouts of the libraries."""
    arrays = {name: np.fromfile(getattr(args, name), "<f4") for name in NAMES}

    def filters(array, inputs):
        return np.ascontiguousarray(array.reshape(-1, 5, 5, inputs).transpose(0, 3, 1, 2))

    arrays["codes"] = arrays["codes"].reshape(args.batch, 1, 28, 28)
    arrays["conv1_weight"] = filters(arrays["conv1_weight"], 1)
    arrays["conv2_weight"] = filters(arrays["conv2_weight"], 32)
    hidden = arrays["hidden_weight"].reshape(512, 4, 4, 64).transpose(0, 3, 1, 2)
    arrays["hidden_weight"] = np.ascontiguousarray(hidden.reshape(512, 1024))
    arrays["classes_weight"] = arrays["classes_weight"].reshape(10, 512)
    return arrays


def in_torch(torch, library, arrays, on_cuda):
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    device = "cuda" if on_cuda else "cpu"
    own = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    codes = own.pop("codes")
    layout = torch.channels_last if library == "torch-channels-last" else torch.contiguous_format
    for name in ("conv1_weight", "conv2_weight"):
        own[name] = own[name].contiguous(memory_format=layout)
    f = torch.nn.functional

    def norm(x, number):
        gamma, beta, mean, variance = (own[f"norm{number}_{name}"] for name in ("gamma", "beta", "mean", "variance"))
        return f.batch_norm(x, mean, variance, gamma, beta, False, 0.0, EPSILON).relu()

    def scores(codes):
        x = (codes * own["input_scale"] + own["input_offset"]).contiguous(memory_format=layout)
        x = norm(f.max_pool2d(f.conv2d(x, own["conv1_weight"]), 2), 1)
        x = norm(f.max_pool2d(f.conv2d(x, own["conv2_weight"]), 2), 2)
        x = norm(f.linear(x.flatten(1), own["hidden_weight"]), 3)
        return f.linear(x, own["classes_weight"], own["classes_bias"])

    if library.startswith("torch-compile"):
        folder = os.path.dirname(os.path.abspath(__file__))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        scores = torch.compile(scores)
    if on_cuda:
        return lambda: protocol.finished_on_cuda(torch, scores(codes))
    return lambda: scores(codes)


def model_of(np, openvino, arrays, ranges, with_inputs):
    """Returns the model, in int8 if there are ranges of the inputs of its layers. With `with_inputs`, these inputs
    are results as well."""
    opset = openvino.opset8
    parameter = opset.parameter(list(arrays["codes"].shape), np.float32)
    inputs = []

    def operands(x, name):
        """Returns the input and the weights of a layer."""
        weights = arrays[name]
        inputs.append(x)
        if not ranges:
            return x, opset.constant(weights)
        low, high = ranges[len(inputs) - 1]
        high_of_weights = np.abs(weights).reshape(len(weights), -1).max(1)
        high_of_weights = high_of_weights.reshape(-1, *[1] * (weights.ndim - 1))
        weights = opset.fake_quantize(
            opset.constant(weights), -high_of_weights, high_of_weights, -high_of_weights, high_of_weights, 255
        )
        return opset.fake_quantize(x, low, high, low, high, 256), weights

    def rows(numbers, axes):
        return numbers.reshape(1, -1, *[1] * axes)

    def norm(x, number, axes):
        gamma, beta, mean, variance = (arrays[f"norm{number}_{name}"] for name in ("gamma", "beta", "mean", "variance"))
        factor = gamma / np.sqrt(variance + np.float32(EPSILON))
        return opset.relu(opset.add(opset.multiply(x, rows(factor, axes)), rows(beta - mean * factor, axes)))

    def conv(x, name):
        return opset.convolution(*operands(x, name), [1, 1], [0, 0], [0, 0], [1, 1])

    def pool(x):
        return opset.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)

    x = opset.add(opset.multiply(parameter, arrays["input_scale"]), arrays["input_offset"])
    x = norm(pool(conv(x, "conv1_weight")), 1, 2)
    x = norm(pool(conv(x, "conv2_weight")), 2, 2)
    x = opset.reshape(x, [len(arrays["codes"]), 1024], False)
    x = norm(opset.matmul(*operands(x, "hidden_weight"), False, True), 3, 0)
    x = opset.add(opset.matmul(*operands(x, "classes_weight"), False, True), rows(arrays["classes_bias"], 0))
    return openvino.Model([x, *inputs] if with_inputs else [x], [parameter])


def in_openvino(np, openvino, library, arrays):
    settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()

    def started(ranges, with_inputs):
        model = model_of(np, openvino, arrays, ranges, with_inputs)
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        request.set_input_tensor(openvino.Tensor(arrays["codes"]))
        return request

    ranges = []
    if library == "openvino-int8":
        request = started([], True)
        request.infer()
        for number in range(1, 5):
            values = request.get_output_tensor(number).data
            ranges.append((values.min(), values.max()))
    request = started(ranges, False)

    def work():
        request.infer()
        return request.get_output_tensor().data

    return work


say = protocol.start()
parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
parser.add_argument("--batch", type=int, required=True)
for name in NAMES:
    parser.add_argument(f"--{name}", required=True)
args = parser.parse_args()
try:
    import numpy as np

    if args.library.startswith("openvino"):
        import openvino
        import openvino.opset8
    else:
        import torch
except ImportError as error:
    protocol.missing(say, error)

arrays, memory = read(np, args), protocol.peak_extra_bytes
if args.library.startswith("openvino"):
    work = in_openvino(np, openvino, args.library, arrays)
else:
    on_cuda = protocol.runs_on_cuda(say, torch, args.library)
    work = in_torch(torch, args.library, arrays, on_cuda)
    if on_cuda:
        memory = functools.partial(protocol.peak_extra_bytes_on_cuda, torch)


def as_bytes(scores):
    scores = scores.cpu() if hasattr(scores, "cpu") else scores
    return np.ascontiguousarray(scores).astype("<f4").tobytes()


version = importlib.metadata.version(args.library.split("-")[0])
protocol.serve(say, args.library, version, 1, work, as_bytes, memory=memory)
