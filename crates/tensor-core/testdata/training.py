# Writes training.txt beside it: losses and optimisers by PyTorch (run with 2.15.0).
#
# A line is a case: `optim NAME TYPE` and the loss and the parameters (w, then b) of each of five steps, the loss taken
# before the update; or `loss NAME TYPE` and the loss and its gradient. The test writes down the same settings and inputs.
import torch

torch.set_num_threads(1)
OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd-decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05),
    "sgd-momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd-momentum-decay": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05),
    "sgd-nesterov-decay": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.05),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam-decay": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.05),
    "adam-settings": lambda p: torch.optim.Adam(p, lr=0.2, betas=(0.5, 0.75), eps=0.125),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.05),
}


def numbers(shape, factor, modulus, divisor, dtype):
    count = torch.Size(shape).numel()
    values = [(i * factor % modulus - modulus // 2) / divisor for i in range(count)]
    return torch.tensor(values, dtype=dtype).reshape(shape)


def line(*parts):
    return " ".join(repr(part) if isinstance(part, float) else part for part in parts)


def optimised(name, dtype):
    x = numbers((4, 3), 7, 11, 4, dtype)
    y = numbers((4, 2), 5, 7, 2, dtype)
    w = numbers((3, 2), 3, 5, 8, dtype).requires_grad_()
    b = numbers((2,), 2, 3, 4, dtype).requires_grad_()
    optimiser = OPTIMISERS[name]([w, b])
    for _ in range(5):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(x @ w + b, y)
        loss.backward()
        optimiser.step()
        yield from [loss.item(), *w.flatten().tolist(), *b.tolist()]


def entropy(scale):
    def loss(dtype):
        logits = (numbers((5, 4), 7, 11, 4, dtype) * scale).requires_grad_()
        labels = torch.tensor([0, 3, 1, 2, 3])
        return torch.nn.functional.cross_entropy(logits, labels), logits

    return loss


def squares(dtype):
    prediction = numbers((3, 2), 3, 5, 8, dtype).requires_grad_()
    return torch.nn.functional.mse_loss(prediction, numbers((3, 2), 5, 7, 2, dtype)), prediction


LOSSES = {"squares": squares, "entropy": entropy(1), "entropy-large": entropy(8192)}
with open("training.txt", "w") as out:
    for dtype, type_name in (torch.float64, "f64"), (torch.float32, "f32"):
        for name in OPTIMISERS:
            print(line("optim", name, type_name, *optimised(name, dtype)), file=out)
        for name, case in LOSSES.items():
            loss, at = case(dtype)
            loss.backward()
            print(line("loss", name, type_name, loss.item(), *at.grad.flatten().tolist()), file=out)
