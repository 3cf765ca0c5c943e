"""Training of a network with few bits in PyTorch: the same steps from the same weights.

The levels are the case on the command line: float, w1a1 and so on for LQ-Nets, u2a2 for levels at
equal distances, abc2a2 for ABC-Net. Parameters and state have the layouts of our network; weights
are permuted to those of PyTorch before the run. Weight decay applies to weights. PyTorch passes the
gradient of a max-pool to the first of equal maxima; our max-pool divides the gradient.
"""

import math
import re
import sys

import protocol

RATE, MOMENTUM, WEIGHT_DECAY, DECAY, RIDGE, EPSILON = 0.02, 0.9, 1e-4, 0.9, 1e-4, 1e-5
LEVELS = re.fullmatch(r"([a-z]+)(\d)?a?(\d)?", protocol.case())
KIND = LEVELS[1]
BITS = {"w": int(LEVELS[2] or 0), "a": int(LEVELS[3] or 0)}
PRODUCTS = {"conv1": 4, "conv2": 4, "hidden": 2, "classes": 2}
LEARNED = KIND in ("w", "u")


def names():
    """Returns the names of all arrays with their numbers of axes."""
    ranks = {"images": 4, "labels": 1, "order": 1, "input_scale": 1, "input_offset": 1}
    ranks |= {f"{name}_weight": rank for name, rank in PRODUCTS.items()}
    ranks["classes_bias"] = 1
    for number in (1, 2, 3):
        ranks |= {f"norm{number}_{name}": 1 for name in ("gamma", "beta", "mean", "variance")}
        if KIND == "abc":
            ranks |= {f"act{number}_shift": 1, f"act{number}_factor": 1}
    for layer in ("conv2", "hidden", "act1", "act2", "act3") if LEARNED else ():
        ranks |= {f"{layer}_basis": 2, f"{layer}_basis_sum": 2, f"{layer}_basis_bias": 0}
    return {name: tuple(f"{name}_{axis}" for axis in range(rank)) for name, rank in ranks.items()}


def factors(torch, bits, low, device):
    """Returns the factors of the basis for each code, `[code, number]`."""
    codes, places = torch.arange(2**bits, device=device), torch.arange(bits, device=device)
    digits = (codes[:, None] >> places & 1).float() * (1 - low) + low
    return digits @ (2.0**places)[:, None] if KIND == "u" else digits


def learned(torch, x, state, bits, low):
    """Returns the levels of `[channels, elements]` and updates the basis in place: one step of
    quantisation error minimisation, and the average without bias.
    """
    basis, basis_sum, basis_bias = state
    with torch.no_grad():
        of_codes = factors(torch, bits, low, x.device)
        levels, order = (basis @ of_codes.T).sort(1)
        thresholds = (levels[:, 1:] + levels[:, :-1]) / 2
        cells = torch.searchsorted(thresholds, x.contiguous())
        quantized = levels.gather(1, cells)
        counts, sums = [], []
        for cell in range(2**bits):
            is_inside = cells == cell
            counts.append(is_inside.sum(1))
            sums.append(torch.where(is_inside, x, 0.0).sum(1))
        counts, sums = torch.stack(counts, 1).float(), torch.stack(sums, 1)
        rows = of_codes[order]
        matrix = torch.einsum("cl,cli,clj->cij", counts, rows, rows)
        right = torch.einsum("cl,cli->ci", sums, rows)
        matrix = matrix + RIDGE * torch.eye(rows.shape[2], device=x.device)
        fitted = torch.linalg.solve(matrix, right + RIDGE * basis)
        basis_sum.mul_(DECAY).add_((1 - DECAY) * fitted)
        basis_bias.mul_(DECAY)
        basis.copy_(basis_sum / (1 - basis_bias))
    return quantized, levels[:, -1]


def abc_weights(torch, w):
    """Returns the levels of ABC-Net for `[channels, elements]`."""
    bases = BITS["w"]
    with torch.no_grad():
        shifts = [2 * base / (bases - 1) - 1 if bases > 1 else 0.0 for base in range(bases)]
        mean, deviation = w.mean(1, keepdim=True), w.std(1, correction=0, keepdim=True)
        signs = [torch.where(w - mean + shift * deviation >= 0, 1.0, -1.0) for shift in shifts]
        signs = torch.stack(signs, 1)
        alpha = torch.linalg.solve(signs @ signs.mT, signs @ w[:, :, None])
        return (alpha * signs).sum(1)


def weights(torch, w, state):
    """Returns the levels of weights, with the gradient of the weights."""
    if BITS["w"] == 0:
        return w
    rows = w.flatten(1)
    levels = learned(torch, rows, state, BITS["w"], -1)[0] if LEARNED else abc_weights(torch, rows)
    return w + (levels.reshape(w.shape) - w).detach()


def activation(torch, x, own, state):
    """Returns the levels of activations; the gradient is 1 up to the highest level."""
    if BITS["a"] == 0:
        return x.relu()
    if not LEARNED:
        shifts, betas = own
        total = 0
        for shift, beta in zip(shifts, betas):
            shifted = x + shift
            inside = torch.where((shifted >= 0) & (shifted <= 1), shifted, 0.0)
            sign = torch.where(shifted >= 0.5, 1.0, -1.0)
            total = total + (inside + (sign - inside).detach()) * beta
        return total
    rectified = x.relu()
    levels, highest = learned(torch, rectified.detach().reshape(1, -1), state, BITS["a"], 0)
    surrogate = torch.where(x <= highest, rectified, 0.0)
    return surrogate + (levels.reshape(x.shape) - surrogate).detach()


def forward(torch, parameters, state, x):
    """Returns the scores of a batch; changes the state in place."""
    f = torch.nn.functional

    def of_layer(name):
        return [state.get(f"{name}_{part}") for part in ("basis", "basis_sum", "basis_bias")]

    def after(x, number, pools):
        if pools:
            x = f.max_pool2d(x, 2)
        norm = f"norm{number}_"
        gamma, beta = parameters[norm + "gamma"], parameters[norm + "beta"]
        x = f.batch_norm(x, state[norm + "mean"], state[norm + "variance"], gamma, beta, True, 1 - DECAY, EPSILON)
        own = [parameters.get(f"act{number}_{part}") for part in ("shift", "factor")]
        return activation(torch, x, own, of_layer(f"act{number}"))

    x = after(f.conv2d(x, parameters["conv1_weight"]), 1, True)
    x = after(f.conv2d(x, weights(torch, parameters["conv2_weight"], of_layer("conv2"))), 2, True)
    x = after(f.linear(x.flatten(1), weights(torch, parameters["hidden_weight"], of_layer("hidden"))), 3, False)
    return f.linear(x, parameters["classes_weight"], parameters["classes_bias"])


def loss_of(torch, parameters, state, x, y):
    """Returns the mean cross-entropy of a batch; changes the state in place."""
    return torch.nn.functional.cross_entropy(forward(torch, parameters, state, x), y)


NAMES = names()


def train(torch, *arrays, step=None):
    """Returns the loss of each step."""
    arrays = dict(zip(NAMES, arrays))
    images, labels, order = (arrays.pop(name) for name in ("images", "labels", "order"))
    arrays.pop("input_scale"), arrays.pop("input_offset")
    is_state = ("_mean", "_variance", "_basis", "_basis_sum", "_basis_bias")
    state = {name: array.clone() for name, array in arrays.items() if name.endswith(is_state)}
    parameters = {name: array.clone() for name, array in arrays.items() if name not in state}
    if CHANNELS_LAST:
        for name in ("conv1_weight", "conv2_weight"):
            parameters[name] = parameters[name].contiguous(memory_format=torch.channels_last)
    compute = step or (lambda *arguments: loss_of(torch, *arguments))
    with torch.enable_grad():
        for parameter in parameters.values():
            parameter.requires_grad_()
        decayed = [own for name, own in parameters.items() if name.endswith("_weight")]
        others = [own for name, own in parameters.items() if not name.endswith("_weight")]
        groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others}]
        optimizer = torch.optim.SGD(groups, RATE, momentum=MOMENTUM)
        losses = []
        for batch in order.reshape(-1, BATCH):
            x, y = images[batch], labels[batch]
            if CHANNELS_LAST:
                x = x.contiguous(memory_format=torch.channels_last)
            loss = compute(parameters, state, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


def prepare(arrays, args):
    """Converts images to numbers, and weights to PyTorch's layouts."""
    global BATCH
    import numpy as np

    BATCH = args.batch
    arrays["labels"], arrays["order"] = (arrays[name].astype("int64") for name in ("labels", "order"))
    images = arrays["images"] * arrays["input_scale"] + arrays["input_offset"]
    arrays["images"] = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    for name in ("conv1_weight", "conv2_weight"):
        arrays[name] = np.ascontiguousarray(arrays[name].transpose(0, 3, 1, 2))
    # The linear layer reads its image in the order of PyTorch's layout.
    hidden = arrays["hidden_weight"]
    channels = arrays["conv2_weight"].shape[0]
    side = math.isqrt(hidden.shape[1] // channels)
    hidden = hidden.reshape(-1, side, side, channels).transpose(0, 3, 1, 2)
    arrays["hidden_weight"] = np.ascontiguousarray(hidden.reshape(len(hidden), -1))


CHANNELS_LAST = "torch-channels-last" in sys.argv
protocol.rival(
    NAMES, None, train, sizes=["batch"], prepare=prepare, steps={"torch-compile": loss_of}
)
