"""Matrix product in NumPy or PyTorch on inputs from files of raw little-endian f32."""

import argparse
import importlib

import protocol


def main():
    say = protocol.start()
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=["numpy", "torch"], required=True)
    parser.add_argument("--a", required=True)
    parser.add_argument("--b", required=True)
    parser.add_argument("--m", type=int, required=True)
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--n", type=int, required=True)
    args = parser.parse_args()

    try:
        import numpy

        library = importlib.import_module(args.library)
    except ImportError as error:
        protocol.missing(say, error)

    a = numpy.fromfile(args.a, dtype="<f4").reshape(args.m, args.k)
    b = numpy.fromfile(args.b, dtype="<f4").reshape(args.k, args.n)
    if args.library == "torch":
        library.set_grad_enabled(False)
        a, b = library.from_numpy(a), library.from_numpy(b)
        threads = library.get_num_threads()
    else:
        threads = protocol.available_cores()

    def as_bytes(result):
        return numpy.ascontiguousarray(result, dtype="<f4").tobytes()

    protocol.serve(say, args.library, library.__version__, threads, lambda: a @ b, as_bytes)


main()
