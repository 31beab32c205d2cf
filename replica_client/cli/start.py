"""Where the command begins: signals are heard before anything else is imported."""

from __future__ import annotations

import sys

from replica_client.cli.interruption import end_at_once, interrupt_again, runs_the_daemon


def main() -> int:
    """Run the command of this process; returns its exit status, see :func:`~replica_client.cli.main.main`."""
    words = sys.argv[1:]
    end_at_once(0 if runs_the_daemon(words) else 130)
    sys.unraisablehook = interrupt_again
    from replica_client.cli.main import main as run

    return run(words)
