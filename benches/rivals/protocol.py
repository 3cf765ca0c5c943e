"""The loop of a rival: JSON lines on standard input and output.

A rival says one line when it is ready, {"name", "version", "threads"}, or {"missing": why} and
ends. Then it answers requests, one line each:
  {"run": k}        runs the work k times         -> {"seconds": [...]}
  {"memory": true}  runs the work once            -> {"peak_extra_bytes": n or null}
  {"result": path}  writes the last result there  -> {"written": bytes, "dtype": "f32"}
  {"quit": true}    ends
A script gives the work in NumPy, PyTorch, JAX and others to `rival`; `serve` is for anything else.
"""

import argparse
import ctypes
import functools
import importlib
import importlib.metadata
import json
import os
import sys
import time

# Those that compute in f64 on one thread.
PLAIN = ["scipy", "open_spiel", "nashpy"]
LIBRARIES = ["numpy", "torch", "torch-compile", "torch-cuda", "torch-compile-cuda", "jax"] + PLAIN
# Little-endian, as NumPy names them.
DTYPES = {"f32": "<f4", "f64": "<f8", "u32": "<u4", "bool": "|b1"}


def start():
    """Takes standard output for answers; whatever a library prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**answer):
        channel.write(json.dumps(answer) + "\n")
        channel.flush()

    return say


def available_cores():
    """Cores this process may use, which is what numerical libraries take by default."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def missing(say, error):
    """Ends because a library is not installed."""
    say(missing=str(error))
    sys.exit(0)


def rival(
    inputs, numpy=None, torch=None, jax=None, dtype="f32", blas=False, sizes=(), prepare=None, steps=None, **plain
):
    """Serves one work in the library that the command line names.

    `inputs` gives the shape of each array by the names of its sizes; arrays and sizes come from
    the command line under these names; the `plain` libraries get them in f64. Each function takes its library and the arrays, in order;
    PyTorch's is also the one that `torch.compile` gets. `steps` names libraries that compile a part
    in place of the whole: a function, given library and arrays, that is compiled and handed to the
    work as `step`. `dtype` is that of the result. `blas` says that NumPy hands the work to its BLAS and so to all cores; else it
    runs on one. `sizes` are further numbers; `prepare` is shown the arrays by name, which it may
    replace, and all numbers, before anything is compiled or timed.
    """
    say = start()
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=LIBRARIES, required=True)
    for name in inputs:
        parser.add_argument(f"--{name}", required=True)
    for size in sorted({size for shape in inputs.values() for size in shape}.union(sizes)):
        parser.add_argument(f"--{size}", type=int, required=True)
    args = parser.parse_args()
    work = {"numpy": numpy, "jax": jax, **plain}.get(args.library, torch)
    try:
        np = importlib.import_module("numpy")
        library = importlib.import_module(args.library.split("-")[0])
        for part in ("integrate", "optimize", "stats") if args.library == "scipy" else ():
            importlib.import_module("scipy." + part)
    except ImportError as error:
        missing(say, error)
    compiles, on_cuda = "compile" in args.library, args.library.endswith("-cuda")
    if on_cuda and not library.cuda.is_available():
        missing(say, "No module of PyTorch for CUDA")

    def read(name):
        shape = [getattr(args, size) for size in inputs[name]]
        return np.fromfile(getattr(args, name), dtype="<f4").reshape(shape)

    arrays = {name: read(name) for name in inputs}
    if prepare:
        prepare(arrays, args)
    arrays = list(arrays.values())
    step = (steps or {}).get(args.library.removesuffix("-cuda"))
    if args.library in PLAIN:
        arrays = [array.astype("<f8") for array in arrays]
        run, threads = lambda: np.asarray(work(library, *arrays)), 1
    elif args.library == "numpy":
        run, threads = in_numpy(library, work, arrays)
    elif args.library == "jax":
        run, threads = in_jax(library, work, arrays, step)
    else:
        run, threads = in_torch(library, work, arrays, compiles, step, on_cuda)
    threads = threads if blas or args.library != "numpy" else 1

    def as_bytes(result):
        result = result.cpu() if on_cuda else result
        return np.ascontiguousarray(result).astype(DTYPES[dtype]).tobytes()

    memory = functools.partial(peak_extra_bytes_on_cuda, library) if on_cuda else peak_extra_bytes
    version = importlib.metadata.version(args.library.split("-")[0])
    serve(say, args.library, version, threads, run, as_bytes, dtype, memory)


def in_numpy(numpy, work, arrays):
    return lambda: work(numpy, *arrays), available_cores()


def in_torch(torch, work, arrays, compiles, step, on_cuda):
    torch.set_grad_enabled(False)
    arrays = [torch.from_numpy(array) for array in arrays]
    if on_cuda:
        # Products in f32 as they are said, not in the shorter format of the tensor cores.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        arrays = [array.cuda() for array in arrays]

    run = functools.partial(work, torch)
    if compiles:
        # A cache that outlives the process would hide what the first call compiles.
        folder = os.path.dirname(os.path.abspath(__file__))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        if step:
            run = functools.partial(run, step=torch.compile(functools.partial(step, torch)))
        else:
            run = torch.compile(run)
    if on_cuda:
        return lambda: finished_on_cuda(torch, run(*arrays)), torch.get_num_threads()
    return lambda: run(*arrays), torch.get_num_threads()


def finished_on_cuda(torch, result):
    torch.cuda.synchronize()
    return result


def in_jax(jax, work, arrays, step):
    # The peers are compared on the CPU, whatever else is there.
    jax.config.update("jax_platforms", "cpu")
    # Inputs are arguments: what a compiled function closes over is folded as a constant.
    if step:
        compiled = functools.partial(work, jax, step=jax.jit(functools.partial(step, jax)))
    else:
        compiled = jax.jit(functools.partial(work, jax))
    arrays = [jax.device_put(array) for array in arrays]
    return lambda: compiled(*arrays).block_until_ready(), available_cores()


def peak_extra_bytes(work):
    """Runs the work and gives its result and the most memory it held beyond inputs and result.

    That is the growth of resident memory, as Linux counts it; None where there is no such count.
    """
    try:
        # What the allocator kept of earlier runs would be taken again without showing.
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = resident_kib("VmRSS")
    except (AttributeError, OSError, TypeError):
        return work(), None
    result = work()
    return result, max(1024 * (resident_kib("VmHWM") - before) - result.nbytes, 0)


def peak_extra_bytes_on_cuda(torch, work):
    """The same of what PyTorch allocates on the GPU."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = work()
    extra = torch.cuda.max_memory_allocated() - before - result.nbytes
    return result, max(extra, 0)


def resident_kib(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


def uncounted(work):
    """The same where nobody counts."""
    return work(), None


def by_the_clock(work):
    """Runs the work and gives its result and the seconds it took."""
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def serve(
    say, name, version, threads, work, as_bytes, dtype="f32", memory=peak_extra_bytes, timed=by_the_clock
):
    """Answers requests until told to quit or the other end is gone.

    `work()` gives a finished result, `as_bytes(result)` its raw little-endian elements of `dtype`. `timed(work)` gives a
    result with its seconds, where they are not those of the whole call.
    """

    def once():
        return timed(work)[0]

    say(name=name, version=version, threads=threads)
    last = None
    for line in sys.stdin:
        request = json.loads(line)
        if "run" in request:
            seconds = []
            for _ in range(request["run"]):
                result, elapsed = timed(work)
                seconds.append(elapsed)
                # Freeing the result before it falls to the next one keeps that out of the time.
                last = result
                del result
            say(seconds=seconds)
        elif "memory" in request:
            last = None
            last, extra = memory(once)
            say(peak_extra_bytes=extra)
        elif "result" in request:
            raw = as_bytes(once() if last is None else last)
            with open(request["result"], "wb") as file:
                file.write(raw)
            say(written=len(raw), dtype=dtype)
        else:
            break
