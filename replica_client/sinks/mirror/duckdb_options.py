"""Options of the sink ``duckdb``; this module needs no DuckDB."""

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
        path: of the file; made when it is not there.
        release: the file is closed after each commit, so that other processes can read it in between; ``false``: it
            stays open, which is faster, and no other process can open it.
        wait: seconds in which a process that has the file open must close it, before the sink tries later.
        threads: of DuckDB.
        memory_limit: of DuckDB: a size such as ``1GB``, or a part of the machine's memory such as ``50%``.
        missing_rows: what a change does of a row that the mirror does not have, or has already: ``error`` stops;
            ``ignore`` goes on, for a mirror that does not begin with all rows.
        unknown_tables: what a row of a table does of which neither CREATE TABLE nor a snapshot was seen: ``error``
            stops; ``create`` takes the table for empty.
        unstorable_values: what a value does that DuckDB does not have, such as a zero date or February 31st:
            ``error`` stops; ``null`` stores NULL.
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
    """The options of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    options = read_options(DuckdbOptions, table, "sink duckdb")
    check_path(options.path, "sink duckdb", "a file")
    check_least(options, "sink duckdb", threads=1, wait=0)
    if not _MEMORY.fullmatch(options.memory_limit):
        raise ConfigError("sink duckdb: memory_limit: a size is wanted, such as 1GB, or 50%")
    return options


def settings(options: DuckdbOptions) -> dict[str, str | int | bool]:
    """DuckDB's own settings."""
    return {
        "threads": options.threads,
        "memory_limit": options.memory_limit,
        # Nothing comes from the network, or from variables of this program.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
