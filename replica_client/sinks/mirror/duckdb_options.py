"""Options of the sink ``duckdb``. The module does not import DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.sink_options import check_least, check_path, read_options

_MEMORY: Final = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?B|%)", re.IGNORECASE)


class DuckdbOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``duckdb``.

    Attributes:
        path: path of the file; created if it does not exist.
        release: whether the file is closed after each commit, so that other processes can read it
            in between; ``false``: the file stays open, which is faster, and no other process can
            open it.
        wait: seconds to wait until another process closes the file; then the sink retries later.
        threads: number of DuckDB's threads.
        memory_limit: DuckDB's memory limit: a size such as ``1GB``, or a part of the machine's
            memory such as ``50%``.
        missing_rows: reaction to a change of a row that is missing, or an insert of a row that
            exists: ``error`` stops; ``ignore`` goes on, for a mirror that does not start with all
            rows.
        unknown_tables: reaction to a row of a table without CREATE TABLE or snapshot before:
            ``error`` stops; ``create`` creates the table and assumes that it was empty.
        unstorable_values: reaction to a value that DuckDB cannot store, such as a zero date or
            February 31st: ``error`` stops; ``null`` stores NULL.
    """

    path: str
    release: bool = True
    wait: float = 10.0
    threads: int = 1
    memory_limit: str = "1GB"
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"
    unstorable_values: Literal["error", "null"] = "error"


def read_duckdb_options(table: Mapping[str, object]) -> DuckdbOptions:
    """Return the options in a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(DuckdbOptions, table, "sink duckdb")
    check_path(options.path, "sink duckdb", "a file")
    check_least(options, "sink duckdb", threads=1, wait=0)
    if not _MEMORY.fullmatch(options.memory_limit):
        raise ConfigError("sink duckdb: memory_limit: a size is wanted, such as 1GB, or 50%")
    return options


def settings(options: DuckdbOptions) -> dict[str, str | int | bool]:
    """Return DuckDB's settings."""
    return {
        "threads": options.threads,
        "memory_limit": options.memory_limit,
        # Load nothing from the network, and read no variables of this program.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
