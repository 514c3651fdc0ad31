"""Runs a Python module that ends with its standard input: ``python -m ...leash -m MODULE ...``.

A process that was started over SSH lives on when the other end is killed. Its standard input ends
then, in any case; whatever it had started ends with it.
"""

import os
import runpy
import signal
import sys
import threading
import time

GRACE_SECONDS = 5.0


def watch() -> None:
    """Wait for the end of standard input, then end this process, politely at first."""
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main() -> None:
    """Run the module that the arguments name."""
    threading.Thread(target=watch, daemon=True).start()
    del sys.argv[:2]  # this module, and -m
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
