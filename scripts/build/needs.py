"""Where a script's environment lacks a package, one line says so instead of a traceback.

Scripts import it before anything that is not Python's own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

_ROOT = Path(__file__).resolve().parents[2]


def _tell(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    # A module missing from a package that is there is a defect, and shown as one.
    if not isinstance(error, ModuleNotFoundError) or "." in (error.name or "."):
        sys.__excepthook__(kind, error, traceback)
        return
    program = Path(sys.argv[0]).resolve()
    print(
        f"{program.name}: {sys.executable} has no package {error.name}; run it in the environment that"
        f" scripts/test makes: .venv-test/bin/python {program.relative_to(_ROOT)}",
        file=sys.stderr,
    )


sys.excepthook = _tell
