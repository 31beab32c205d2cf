"""Lets ``import pymysqlreplication`` and ``import asyncmy.replication`` find this package's.

::

    python -m replica_client.compat run program.py --its-own arguments
    python -m replica_client.compat run -m module

Programs stay as they are, and need not have the original installed. A module that is not here, such as
``asyncmy.connection``, is the original's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

REPLACED = {
    "pymysqlreplication": "replica_client.compat.pymysqlreplication",
    "asyncmy.replication": "replica_client.compat.asyncmy",
}
"""Names of packages, and where they are found."""


class _Same(Loader):
    """Gives a module that exists under another name."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._target)

    def exec_module(self, module: ModuleType) -> None:
        pass


class CompatFinder(MetaPathFinder):
    """Finds the replaced packages; before all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of ours that stands for a name; None: it is found as ever."""
        for name, ours in REPLACED.items():
            if fullname == name or fullname.startswith(f"{name}."):
                found = ours + fullname.removeprefix(name)
                if fullname == name or importlib.util.find_spec(found) is not None:
                    return _spec(fullname, found)
        return None


def _spec(name: str, found: str) -> ModuleSpec:
    module = importlib.import_module(found)
    # The machinery of import would name the module by the spec; it keeps its own.
    own = module.__spec__
    spec = ModuleSpec(name, _Kept(found, own), is_package=hasattr(module, "__path__"))
    spec.submodule_search_locations = list(getattr(module, "__path__", [])) or None
    return spec


class _Kept(_Same):
    """The same, and the module keeps its own spec."""

    def __init__(self, target: str, own: ModuleSpec | None) -> None:
        super().__init__(target)
        self._own = own

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own


def install(*, names_from_source: bool = False) -> None:
    """Let imports from now on find this package's modules.

    Args:
        names_from_source: ask the source for names that the binlog does not have, as
            python-mysql-replication did before its release 1.0.
    """
    if names_from_source:
        stream = importlib.import_module("replica_client.compat.pymysqlreplication.binlogstream")
        stream.BinLogStreamReader.names_from_source = True
    if not any(isinstance(finder, CompatFinder) for finder in sys.meta_path):
        for name in REPLACED:
            for loaded in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
                del sys.modules[loaded]
        sys.meta_path.insert(0, CompatFinder())
