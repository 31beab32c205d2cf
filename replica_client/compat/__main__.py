"""``python -m replica_client.compat run program.py``: run a program with the shim."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from replica_client.compat.shim import install

USAGE = """usage: python -m replica_client.compat run [--names-from-source] PROGRAM.py [ARGUMENT ...]
       python -m replica_client.compat run [--names-from-source] -m MODULE [ARGUMENT ...]

Runs a program that was written for python-mysql-replication or asyncmy.replication on replica_client.

--names-from-source  for programs written for python-mysql-replication before 1.0: where the binlog does not
                     tell the columns' names (binlog_row_metadata=MINIMAL), ask the source how the table is now"""


def main(arguments: list[str]) -> int:
    """Run a program; its exit status is its own."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)  # noqa: T201
        return 0
    from_source = arguments[1:2] == ["--names-from-source"]
    if from_source:
        arguments = [arguments[0], *arguments[2:]]
    if len(arguments) < 2 or arguments[0] != "run" or arguments[1:] == ["-m"]:
        print(USAGE, file=sys.stderr)  # noqa: T201
        return 2
    install(names_from_source=from_source)
    if arguments[1] == "-m":
        sys.argv = arguments[2:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[2], run_name="__main__", alter_sys=True)
        return 0
    path = Path(arguments[1])
    if not path.is_file():
        print(f"there is no file {path}", file=sys.stderr)  # noqa: T201
        return 2
    sys.argv = arguments[1:]
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
