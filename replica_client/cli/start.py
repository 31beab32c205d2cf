"""The begin and the end of the command: signals are handled before anything else is imported, and until it ends."""

from __future__ import annotations

import atexit
import gc
import sys

from replica_client.cli.interruption import (
    end_at_once,
    forget_interrupts,
    ignore_signals,
    interrupt_again,
    runs_the_daemon,
)

# Objects that are made before the young ones are searched; Python's own 700 would search the objects of many new tables
# again and again.
_YOUNG = 20_000


def collect_from_here() -> None:
    """Start the garbage collector, which ignores the imported modules.

    It is off during imports, which make no garbage: 8 % of the start of a command (0.33 s, CPython 3.11).
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    gc.enable()


def main() -> int:
    """Run the command of this process; returns its exit status, see :func:`~replica_client.cli.main.main`."""
    gc.disable()
    words = sys.argv[1:]
    interrupted = 0 if runs_the_daemon(words) else 130
    end_at_once(interrupted)
    sys.unraisablehook = interrupt_again
    atexit.register(ignore_signals)  # the first one is called last
    from replica_client.cli.main import main as run

    try:
        status = run(words)
        end_at_once(status)
    except KeyboardInterrupt:  # another one, while the first one was told
        end_at_once(interrupted)
        status = interrupted
    forget_interrupts()
    return status


def singer_tap() -> int:
    """Run ``tap-replica-client``; without the extra ``singer`` one line says how to install it."""
    from replica_client.cli.output import message
    from replica_client.cli.program import extra_module
    from replica_client.errors import ReplicaClientError

    try:
        tap = extra_module("replica_client.compat.singer_tap", "singer")
    except (ReplicaClientError, ImportError) as error:
        message(f"tap-replica-client: {error}")
        return 1
    tap.main()
    return 0
