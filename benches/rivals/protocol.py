"""The loop of a rival: JSON lines on standard input and output.

A rival says one line when it is ready, {"name", "version", "threads"}, or {"missing": why} and
ends. Then it answers requests, one line each:
  {"run": k}        runs the work k times         -> {"seconds": [...]}
  {"result": path}  writes the last result there  -> {"written": bytes}
  {"quit": true}    ends
"""

import json
import os
import sys
import time


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


def serve(say, name, version, threads, work, as_bytes):
    """Answers requests until told to quit or the other end is gone.

    `work()` gives a finished result, `as_bytes(result)` its raw little-endian f32.
    """
    say(name=name, version=version, threads=threads)
    last = None
    for line in sys.stdin:
        request = json.loads(line)
        if "run" in request:
            seconds = []
            for _ in range(request["run"]):
                begin = time.perf_counter()
                result = work()
                seconds.append(time.perf_counter() - begin)
                # Freeing the result before it falls to the next one keeps that out of the time.
                last = result
                del result
            say(seconds=seconds)
        elif "result" in request:
            raw = as_bytes(work() if last is None else last)
            with open(request["result"], "wb") as file:
                file.write(raw)
            say(written=len(raw))
        else:
            break
