"""Lets ``import pymysqlreplication`` and ``import asyncmy.replication`` find this package's.

::

    python -m replica_client.compat run program.py --its-own arguments
    python -m replica_client.compat run -m module

Programs stay as they are, and need not have the original installed. A module that is not here, such as
``asyncmy.connection``, is the original's. A program that brings a copy of the original as a package of its own
runs with ``--instead-of program.pymysqlreplication``; one that starts other programs with ``--children``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from replica_client.errors import ReplicaClientError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema import information_schema
from replica_client.schema.model import TableModel

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
    """Finds the replaced packages; before all other finders.

    Args:
        replaced: names of packages, and where they are found.
    """

    def __init__(self, replaced: Mapping[str, str]) -> None:
        self.replaced = dict(replaced)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module of this package that replaces a name, or None to leave the import to others."""
        for name, ours in self.replaced.items():
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
    """A loader like its base, for a module that keeps its own spec."""

    def __init__(self, target: str, own: ModuleSpec | None) -> None:
        super().__init__(target)
        self._own = own

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own


def install(*, names_from_source: bool = False, instead_of: Sequence[str] = ()) -> None:
    """Make later imports find this package's modules.

    Args:
        names_from_source: ask the source for names that the binlog does not have, as
            python-mysql-replication did before its release 1.0.
        instead_of: packages that are copies of python-mysql-replication under names of their own, or of
            ``asyncmy.replication`` where the last part of the name is ``replication``.
    """
    if names_from_source:
        stream = importlib.import_module("replica_client.compat.pymysqlreplication.binlogstream")
        stream.BinLogStreamReader.names_from_source = True
    copies = {
        name: REPLACED[
            "asyncmy.replication" if name.endswith(".replication") else "pymysqlreplication"
        ]
        for name in instead_of
    }
    finders = [one for one in sys.meta_path if isinstance(one, CompatFinder)]
    new = copies if finders else REPLACED | copies
    for name in new:
        for loaded in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
            del sys.modules[loaded]
    if finders:
        finders[0].replaced.update(new)
    else:
        sys.meta_path.insert(0, CompatFinder(new))


CHILDREN = Path(__file__).with_name("children")
"""Holds the ``sitecustomize`` that :func:`install_in_children` gives to Python programs."""
_OPTIONS = "REPLICA_CLIENT_SHIM"


def install_in_children(**options: Any) -> None:
    """Make Python programs that this process starts find this package's modules, by their environment.

    Args:
        options: those of :func:`install`.
    """
    paths = [str(CHILDREN), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ[_OPTIONS] = json.dumps(options)


def install_as_child() -> None:
    """Install the shim as :func:`install_in_children` requested; do nothing without a request."""
    options = os.environ.get(_OPTIONS)
    if options:
        install(**json.loads(options))


_LOG = logging.getLogger("replica_client.compat")


def flavor_of(dbms: str | None) -> ServerFlavor:
    """Return the flavor of a server that is ``mysql`` or ``mariadb``."""
    return ServerFlavor.MARIADB if dbms == "mariadb" else ServerFlavor.MYSQL


def questions(name: tuple[str, str], dbms: str | None) -> tuple[tuple[str, Sequence[Any]], ...]:
    """Return the queries about a table for the source, as statements with arguments."""
    where = information_schema.where_table(name)
    return (
        information_schema.tables_query(where),
        information_schema.columns_query(flavor_of(dbms), where),
        information_schema.keys_query(where),
    )


def definition(
    name: tuple[str, str],
    answers: Sequence[list[tuple[Any, ...]]],
    dbms: str | None,
    version: tuple[int, int, int],
) -> TableModel | None:
    """Return the table's definition by the answers, or None where there is no such table."""
    try:
        found = information_schema.read_tables(
            answers[0], answers[1], answers[2], flavor_of(dbms), version
        )
    except ReplicaClientError as error:
        _LOG.warning("%s.%s: %s", *name, error)
        return None
    return found[0] if found else None
