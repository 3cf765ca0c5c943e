"""The protocol of a rival: JSON lines on standard input and output.

When ready, a rival writes one line: {"name", "version", "threads"}. If its library is not
installed, it writes {"missing": reason} and exits. After that it answers requests, one line each:
  {"run": k}        runs the work k times             -> {"seconds": [...]}
  {"memory": true}  runs the work once                -> {"peak_extra_bytes": n or null}
  {"result": path}  writes the last result to a file  -> {"written": bytes, "dtype": "f32"}
  {"quit": true}    exits
A script passes functions for NumPy, PyTorch, JAX and other libraries to `rival`; `serve` is for all
other programs.
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

# Libraries that compute in f64 on one thread.
PLAIN = ["scipy", "open_spiel", "nashpy"]
LIBRARIES = ["numpy", "torch", "torch-channels-last", "torch-compile", "torch-onednn", "jax"] + PLAIN
LIBRARIES += ["torch-cuda", "torch-compile-cuda"]
# Names of the little-endian element types in NumPy; the name of an array's file ends in its type.
DTYPES = {"f32": "<f4", "f64": "<f8", "u32": "<u4", "bool": "|b1"}


def start():
    """Reserves standard output for answers; output of libraries is redirected to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**answer):
        channel.write(json.dumps(answer) + "\n")
        channel.flush()

    return say


def available_cores():
    """Returns the number of cores that this process may use, the default number of threads of
    numerical libraries.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def case():
    """Returns the name of the program to run, for a script that contains several."""
    return sys.argv[sys.argv.index("--case") + 1]


def missing(say, error):
    """Reports that a library is not installed, and exits."""
    say(missing=str(error))
    sys.exit(0)


def runs_on_cuda(say, torch, library):
    """Returns whether the name of the library selects an NVIDIA GPU. Without one, reports that the
    rival is missing, and exits.
    """
    if not library.endswith("-cuda"):
        return False
    if not torch.cuda.is_available():
        missing(say, "PyTorch has no CUDA support here")
    # Compute products in f32, not in the shorter format of the tensor cores.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return True


def rival(
    inputs,
    numpy=None,
    torch=None,
    jax=None,
    dtype=None,
    blas=False,
    sizes=(),
    prepare=None,
    steps=None,
    in_onednn=None,
    **plain,
):
    """Serves a workload in the library that the command line names.

    `inputs` maps the name of each array to its shape, a tuple of names of sizes; the command line
    has the path of each array and the value of each size under these names. Each function is called
    with its library and the arrays, in order; `torch` is also used for `torch.compile`. The `plain`
    libraries get the arrays in f64. `steps` maps libraries to a function that is compiled in place
    of the whole work; it is called with library and arrays and passed to the work as `step`.
    `dtype` is the type of the result; by default f32, or f64 if an array is in f64. `blas` states
    that NumPy calls its BLAS, which uses all cores; otherwise NumPy uses one core. `sizes` are
    further integers of the command line. `prepare` is called with the arrays by name, which it may
    replace, and with all integers, before anything is compiled or timed. `in_onednn` is called with
    PyTorch and its tensors and returns tensors of oneDNN, for the rival `torch-onednn`.
    """
    say = start()
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=LIBRARIES, required=True)
    parser.add_argument("--case")
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
    compiles, on_cuda = "compile" in args.library, runs_on_cuda(say, library, args.library)
    convert = in_onednn if args.library == "torch-onednn" else None

    def read(name):
        shape, path = [getattr(args, size) for size in inputs[name]], getattr(args, name)
        return np.fromfile(path, DTYPES[path.rpartition(".")[2]]).reshape(shape)

    arrays = {name: read(name) for name in inputs}
    is_wide = any(array.dtype == "f8" for array in arrays.values())
    dtype = dtype or ("f64" if is_wide else "f32")
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
        run, threads = in_jax(library, work, arrays, step, is_wide)
    else:
        run, threads = in_torch(library, work, arrays, compiles, step, on_cuda, convert)
    threads = threads if blas or args.library != "numpy" else 1

    def as_bytes(result):
        if convert:
            result = result.to_dense()
        result = result.cpu() if on_cuda else result
        return np.ascontiguousarray(result).astype(DTYPES[dtype]).tobytes()

    memory = functools.partial(peak_extra_bytes_on_cuda, library) if on_cuda else peak_extra_bytes
    version = importlib.metadata.version(args.library.split("-")[0])
    serve(say, args.library, version, threads, run, as_bytes, dtype, memory)


def in_numpy(numpy, work, arrays):
    return lambda: work(numpy, *arrays), available_cores()


def in_torch(torch, work, arrays, compiles, step, on_cuda, convert):
    torch.set_grad_enabled(False)
    arrays = [torch.from_numpy(array) for array in arrays]
    if on_cuda:
        arrays = [array.cuda() for array in arrays]
    if convert:
        arrays = convert(torch, *arrays)

    run = functools.partial(work, torch)
    if compiles:
        # A compilation cache that outlives the process would hide the compilation time of the first
        # call.
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


def in_jax(jax, work, arrays, step, is_wide):
    # Rivals in JAX are compared on the CPU, even if a GPU is available.
    jax.config.update("jax_platforms", "cpu")
    # By default JAX computes in f32 even if arrays are in f64.
    jax.config.update("jax_enable_x64", is_wide)
    # Inputs are passed as arguments, because arrays in the closure of a compiled function would be
    # folded as constants.
    if step:
        compiled = functools.partial(work, jax, step=jax.jit(functools.partial(step, jax)))
    else:
        compiled = jax.jit(functools.partial(work, jax))
    arrays = [jax.device_put(array) for array in arrays]
    return lambda: compiled(*arrays).block_until_ready(), available_cores()


def peak_extra_bytes(work):
    """Runs the work and returns its result, and the peak memory in addition to inputs and result in
    bytes.

    The memory is the growth of resident memory as reported by Linux; None on other systems.
    """
    try:
        # Without this, memory cached by the allocator would be reused without being counted.
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = resident_kib("VmRSS")
    except (AttributeError, OSError, TypeError):
        return work(), None
    result = work()
    return result, max(1024 * (resident_kib("VmHWM") - before) - result.nbytes, 0)


def peak_extra_bytes_on_cuda(torch, work):
    """Runs the work and returns its result, and the peak memory that PyTorch allocated on the GPU
    for intermediate values.
    """
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = work()
    extra = torch.cuda.max_memory_allocated() - before - result.nbytes
    return result, max(extra, 0)


def resident_kib(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


def uncounted(work):
    """Runs the work and returns its result, and None because its memory is not measured."""
    return work(), None


def by_the_clock(work):
    """Runs the work and returns its result and the seconds it took."""
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def serve(
    say, name, version, threads, work, as_bytes, dtype="f32", memory=peak_extra_bytes, timed=by_the_clock
):
    """Answers requests until a request to quit, or until standard input is closed.

    `work()` returns a finished result, `as_bytes(result)` its raw little-endian elements of
    `dtype`. `timed(work)` returns a result with its seconds, if these are not the seconds of the
    whole call.
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
                # The previous result is freed here, outside the measured time.
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
