"""The two forms of the hot modules: compiled, or the same files as plain Python.

The modules in :data:`COMPILED_MODULES` are ordinary Python in Cython's pure mode. Where the build
found a C compiler an extension module lies next to each ``.py`` file. ``REPLICA_CLIENT_IMPL``
chooses:

=============  ==================================================================================
unset          compiled when every extension is there and not older than its source, else Python
``compiled``   compiled, or ImportError with the reason
``python``     the ``.py`` files, though extensions lie next to them
=============  ==================================================================================

Where it is unset and Python runs, the first reader says so (:func:`tell_plain`).

It is all or nothing, because compiled modules share C types with each other.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from replica_client import _cython

# Literal: scripts/build/build_hook.py reads it without importing the package.
COMPILED_MODULES: tuple[str, ...] = (
    "replica_client.archive.key_scan",
    "replica_client.archive.net_positions",
    "replica_client.protocol.binlog.event_search",
    "replica_client.protocol.binlog.values.decimal",
    "replica_client.protocol.binlog.values.json_binary",
    "replica_client.protocol.binlog.values.json_keys",
    "replica_client.protocol.binlog.values.json_reader",
    "replica_client.protocol.binlog.values.json_scalar",
    "replica_client.protocol.binlog.values.json_writer",
    "replica_client.protocol.binlog.values.numbers",
    "replica_client.protocol.binlog.values.temporal",
    "replica_client.protocol.binlog.values.temporal_storage",
    "replica_client.protocol.codec.event_queue",
    "replica_client.protocol.codec.turns",
    "replica_client.cli.check_fast_path",
    "replica_client.cli.event_text",
    "replica_client.compat.event_screen",
    "replica_client.compat.row_dicts",
    "replica_client.stream.fast.column_fast_path",
    "replica_client.stream.fast.event_fast_path",
    "replica_client.stream.fast.fast_path",
    "replica_client.stream.fast.gtid_runs",
    "replica_client.stream.fast.fast_path_tables",
    "replica_client.stream.fast.row_fast_path",
    "replica_client.stream.fast.statement_scan",
    "replica_client.stream.fast.tagged_gtid",
    "replica_client.stream.files.read_at",
    "replica_client.stream.transactions.transaction",
    "replica_client.stream.fast.transaction_scan",
    "replica_client.rows.column_layout",
    "replica_client.rows.column_sink",
    "replica_client.rows.column_writer",
    "replica_client.rows.columnar",
    "replica_client.rows.change",
    "replica_client.rows.image",
    "replica_client.rows.image_splice",
    "replica_client.rows.image_tests",
    "replica_client.rows.image_values",
    "replica_client.rows.json_lines",
    "replica_client.rows.json_rows",
    "replica_client.rows.row",
    "replica_client.rows.row_change",
    "replica_client.rows.row_lines",
    "replica_client.rows.row_screen",
    "replica_client.rows.runs",
    "replica_client.rows.stored_tests",
    "replica_client.rows.table_lines",
    "replica_client.rows.text_columns",
    "replica_client.rows.value_text",
    "replica_client.protocol.wire.framing",
)

SHARED = "replica_client._cython_shared"
"""Cython's own functions, which all compiled modules call; it has no ``.py`` file."""

VARIABLE = "REPLICA_CLIENT_IMPL"

_PACKAGE = Path(__file__).parent


def _source(module: str) -> Path:
    return _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _extension(module: str) -> Path | None:
    source = _source(module)
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = source.with_name(source.stem + suffix)
        if path.exists():
            return path
    return None


def _changed(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def why_not_compiled(modules: Sequence[str] = COMPILED_MODULES) -> str | None:
    """Return the reason why the compiled modules cannot be used, or None when they can."""
    if not modules:
        return "no module is compiled in this version"
    checkout = (_PACKAGE.parent / "pyproject.toml").exists()
    for module in modules:
        extension, source = _extension(module), _source(module)
        if extension is None:
            return f"{module} was not compiled (no C compiler when this package was installed?)"
        # An installer gives files any time it likes, but in a checkout people edit them.
        newest = max(_changed(source), _changed(source.with_suffix(".pxd")))
        if checkout and _changed(extension) < newest:
            return f"{module} changed after it was compiled: run python scripts/build/build_hook.py"
    if _extension(SHARED) is None:
        return f"{SHARED} was not compiled (no C compiler when this package was installed?)"
    return None


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Runs a hot module as Python: ``cython`` is :mod:`replica_client._cython` while it does."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        before = sys.modules.get("cython")
        sys.modules["cython"] = _cython
        try:
            super().exec_module(module)
        finally:
            if before is None:
                del sys.modules["cython"]
            else:
                sys.modules["cython"] = before


class SourceFinder:
    """Finds the ``.py`` file of the given modules where Python would take an extension module."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = frozenset(modules)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a module that is to run as Python, or None for all others."""
        if fullname not in self._modules:
            return None
        source = str(_source(fullname))
        loader = SourceLoader(fullname, source)
        return importlib.util.spec_from_file_location(fullname, source, loader=loader)


def _choose() -> bool:
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "compiled", "python"):
        raise ImportError(f"{VARIABLE}={wanted}: it is 'compiled', 'python' or unset")
    reason = "the variable asks for Python" if wanted == "python" else why_not_compiled()
    if reason is None:
        return True
    if wanted == "compiled":
        raise ImportError(f"{VARIABLE}=compiled, but {reason}")
    sys.meta_path.insert(0, SourceFinder(COMPILED_MODULES))
    return False


_COMPILED = _choose()


@functools.cache
def tell_plain() -> None:
    """Say once, as a warning of the log, that the hot modules run as Python without a request for it."""
    if _COMPILED or os.environ.get(VARIABLE) == "python":
        return
    logging.getLogger("replica_client").warning(
        "runs as plain Python, up to 28 times slower (Arrow batches): %s; to fix it, install a C"
        " compiler and this package again, or set %s=python to accept it",
        why_not_compiled(),
        VARIABLE,
    )


def compiled() -> bool:
    """Return whether the hot modules run compiled."""
    return _COMPILED
