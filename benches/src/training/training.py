"""Training in other libraries: the same steps from the same weights.

A script defines a net as a function of library, parameters and batch. The arrays are inputs,
answers (targets, or class numbers), stages (rows of epochs, rate, momentum), the test set of a
classifier, and the parameters w0, b0, w1, ...; the result is the loss of each step and, for a
classifier, the test accuracy.
"""

import protocol


def relu(library, x):
    """Applies relu by the function of the library."""
    return (library.nn if hasattr(library, "lax") else library).relu(x)


def shapes(inputs, answers, parameters, classes):
    """Returns the names of the sizes of all arrays, from their numbers of axes."""
    ranks = {"inputs": inputs, "answers": answers, "stages": 2}
    if classes:
        ranks.update(test_inputs=inputs, test_answers=answers)
    ranks.update(parameters)
    return {name: tuple(f"{name}_{axis}" for axis in range(rank)) for name, rank in ranks.items()}


def rival(net, inputs, parameters, numpy=None, scans=True):
    """Serves the training of a classifier or, if `numpy` is given, of a fit to targets.

    `inputs` is the number of axes of the inputs; `parameters` maps each parameter to its number of
    axes. With `scans`, JAX runs the steps in one scan; otherwise it calls a compiled step in a
    loop. Scripts choose the faster way.
    """
    classes = numpy is None
    names = shapes(inputs, 1 if classes else 2, parameters, classes)

    def batches(x, y):
        return x.reshape(-1, BATCH, *x.shape[1:]), y.reshape(-1, BATCH, *y.shape[1:])

    def torch_loss(torch, weights, inputs, answers):
        outputs = net(torch, weights, inputs)
        if classes:
            return torch.nn.functional.cross_entropy(outputs, answers)
        return torch.nn.functional.mse_loss(outputs, answers, reduction="sum")

    def torch_step(torch, weights, velocities, inputs, answers, rate, momentum):
        """Computes forward pass, backward pass and update as one graph; changes weights and
        velocities in place.
        """

        def loss_of(weights):
            return torch_loss(torch, weights, inputs, answers)

        gradients, loss = torch.func.grad_and_value(loss_of)(weights)
        if velocities:
            gradients = [v.mul_(momentum).add_(g) for v, g in zip(velocities, gradients)]
        for weight, gradient in zip(weights, gradients):
            weight.sub_(rate * gradient)
        return loss

    def by_steps(torch, step, weights, x, y, stages):
        velocities = [torch.zeros_like(weight) for weight in weights] if STAGES[:, 2].any() else []
        # The rate is a tensor and so an input of the graph; a number would be a constant, and
        # another rate would compile again.
        for epochs, rate, momentum in stages:
            for _ in range(int(epochs)):
                for inputs, answers in zip(x, y):
                    yield step(weights, velocities, inputs, answers, rate, momentum)

    def by_optimizer(torch, weights, x, y, stages):
        optimizer = torch.optim.SGD(weights, 1.0)
        group = optimizer.param_groups[0]
        for epochs, rate, momentum in stages.tolist():
            group.update(lr=rate, momentum=momentum)
            for _ in range(int(epochs)):
                for inputs, answers in zip(x, y):
                    loss = torch_loss(torch, weights, inputs, answers)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    yield loss.detach()

    def with_torch(torch, x, y, stages, *rest, step=None):
        tests, first = (rest[:2], rest[2:]) if classes else ((), rest)
        x, y = batches(x, y)
        weights = [weight.clone() for weight in first]
        if step:
            losses = torch.stack(list(by_steps(torch, step, weights, x, y, stages)))
        else:
            with torch.enable_grad():
                weights = [weight.requires_grad_() for weight in weights]
                losses = torch.stack(list(by_optimizer(torch, weights, x, y, stages)))
        if not classes:
            return losses
        right = (net(torch, weights, tests[0]).argmax(1) == tests[1]).float().mean()
        return torch.cat([losses, right[None]])

    def jax_step(jax, state, x, y, number, rate, momentum):
        def loss_of(weights):
            outputs = net(jax, weights, x[number])
            if not classes:
                return jax.numpy.square(outputs - y[number]).sum()
            logs = jax.nn.log_softmax(outputs)
            return -jax.numpy.take_along_axis(logs, y[number][:, None], 1).mean()

        weights, velocities = state
        loss, gradients = jax.value_and_grad(loss_of)(weights)
        if velocities:
            gradients = velocities = [momentum * v + g for v, g in zip(velocities, gradients)]
        weights = [w - rate * g for w, g in zip(weights, gradients)]
        return (weights, velocities), loss

    def in_a_scan(jax, state, x, y, stages):
        jnp = jax.numpy
        n_steps = [int(epochs) * len(x) for epochs in STAGES[:, 0]]
        repeats = jnp.repeat(jnp.arange(len(n_steps)), jnp.array(n_steps), total_repeat_length=sum(n_steps))
        numbers = jnp.arange(sum(n_steps)) % len(x)

        def step(state, what):
            return jax_step(jax, state, x, y, *what)

        return jax.lax.scan(step, state, (numbers, stages[repeats, 1], stages[repeats, 2]))

    def in_a_loop(jax, step, state, x, y):
        losses = []
        for epochs, rate, momentum in STAGES:
            for _ in range(int(epochs)):
                for number in range(len(x)):
                    state, loss = step(state, x, y, number, rate, momentum)
                    losses.append(loss)
        return state, jax.numpy.array(jax.device_get(losses))

    def with_jax(jax, x, y, stages, *rest, step=None):
        tests, first = (rest[:2], rest[2:]) if classes else ((), rest)
        x, y = batches(x, y)
        has_momentum = STAGES[:, 2].any()
        zeros = [jax.numpy.zeros_like(weight) for weight in first] if has_momentum else []
        state = (list(first), zeros)
        if step:
            (weights, _), losses = in_a_loop(jax, step, state, x, y)
        else:
            (weights, _), losses = in_a_scan(jax, state, x, y, stages)
        if not classes:
            return losses
        right = (net(jax, weights, tests[0]).argmax(1) == tests[1]).mean()
        return jax.numpy.concatenate([losses, right[None]])

    def prepare(arrays, args):
        """Stores stages and batch size, which determine shapes and must be known when the work is
        compiled.
        """
        global BATCH, STAGES
        BATCH, STAGES = args.batch, arrays["stages"]
        if classes:
            # PyTorch requires int64 classes; JAX converts them to its own integer type.
            for name in ("answers", "test_answers"):
                arrays[name] = arrays[name].astype("int64")

    protocol.rival(
        names,
        numpy,
        with_torch,
        with_jax,
        blas=True,
        sizes=["batch"],
        prepare=prepare,
        steps={"torch-compile": torch_step} | ({} if scans else {"jax": jax_step}),
    )
