"""Runs a Python module that ends with its standard input: ``python -m ...leash -m MODULE ...``.

A process that was started over SSH lives on when the other end is killed. Its standard input ends
then, in any case; whatever it had started ends with it.

Servers of dask among the arguments (``--spec``) listen where SSH found the machine, unless they are
told otherwise. By themselves they look for the way to the internet, and where there is none they
announce 127.0.0.1, at which no other machine reaches them.
"""

import ipaddress
import json
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


def found_at(connection: str) -> str:
    """Return the address at which SSH found this machine, nothing if it is one of loopback.

    Parameters
    ----------
    connection : str
        What the SSH server tells in SSH_CONNECTION: address and port of both sides.
    """
    words = connection.split()
    try:
        address = ipaddress.ip_address(words[2])
    except (IndexError, ValueError):
        return ""
    return "" if address.is_loopback or address.is_link_local else str(address)


def listening_at(address: str, spec: str) -> str:
    """Return the specification of servers that listen at an address, if they were not told where.

    Parameters
    ----------
    address : str
        Nothing if it is not known.
    spec : str
        JSON, as `distributed.cli.dask_spec` takes it: one server or several, `cls` and `opts`.
    """
    told = json.loads(spec)
    for server in [told] if "cls" in told else told.values():
        if address and not {"host", "interface", "contact_address"} & server["opts"].keys():
            server["opts"]["host"] = address
    return json.dumps(told)


def main() -> None:
    """Run the module that the arguments name."""
    threading.Thread(target=watch, daemon=True).start()
    del sys.argv[:2]  # this module, and -m
    if "--spec" in sys.argv[:-1]:
        place = sys.argv.index("--spec") + 1
        address = found_at(os.environ.get("SSH_CONNECTION", ""))
        sys.argv[place] = listening_at(address, sys.argv[place])
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
