"""``python -m replica_client.compat run program.py``: run a program with the shim."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from replica_client.compat.shim import install, install_in_children

USAGE = """usage: python -m replica_client.compat run [OPTION ...] PROGRAM.py [ARGUMENT ...]
       python -m replica_client.compat run [OPTION ...] -m MODULE [ARGUMENT ...]

Runs a program that was written for python-mysql-replication or asyncmy.replication on replica_client.

--names-from-source  for programs written for python-mysql-replication before 1.0: where the binlog does not
                     tell the columns' names (binlog_row_metadata=MINIMAL), ask the source how the table is now
--instead-of NAME    a package of the program that is a copy of python-mysql-replication; may be repeated
--children           also in Python programs that the program starts"""


def _options(arguments: list[str]) -> tuple[dict[str, Any], bool, list[str]] | None:
    """Parse the shim's options. Return them, whether children get the shim, and the rest; None: wrong usage."""
    options: dict[str, Any] = {"names_from_source": False, "instead_of": []}
    for_children = False
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        option = rest.pop(0)
        if option == "--names-from-source":
            options["names_from_source"] = True
        elif option == "--children":
            for_children = True
        elif option == "--instead-of" and rest:
            options["instead_of"].append(rest.pop(0))
        else:
            return None
    return options, for_children, rest


def main(arguments: list[str]) -> int:
    """Run a program; its exit status is its own."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)  # noqa: T201
        return 0
    given = _options(arguments[1:]) if arguments[:1] == ["run"] else None
    if given is None or not given[2] or given[2] == ["-m"]:
        print(USAGE, file=sys.stderr)  # noqa: T201
        return 2
    options, for_children, program = given
    path = Path(program[0])
    if program[0] != "-m" and not path.is_file():
        print(f"there is no file {path}", file=sys.stderr)  # noqa: T201
        return 2
    install(**options)
    if for_children:
        install_in_children(**options)
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path.insert(0, "")
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return 0
    sys.argv = program
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
