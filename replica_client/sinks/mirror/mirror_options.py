"""Options of mirrors. The module imports no database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.registry import Count, PathText, Period, Seconds, read_options


class ClickhouseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``clickhouse``.

    Attributes:
        url: URL of the server's HTTP interface: ``http://host:8123`` or ``https://host:8443``.
        user: user of the connection.
        password: password of that user; may be ``file:…``.
        database_prefix: prefix of the mirror's databases, put before the source's database names.
        missing_rows: reaction to a change of a row that is missing, or an insert of a row that
            exists: ``error`` stops, which costs a query of the keys of each batch; ``ignore`` goes
            on, for a mirror that does not start with all rows.
        unknown_tables: reaction to a row of a table without CREATE TABLE or snapshot before:
            ``error`` stops; ``create`` creates the table and assumes that it was empty.
        unstorable_values: reaction to a value that ClickHouse cannot store, such as a zero date or
            February 31st: ``error`` stops; ``null`` stores NULL.
        timeout: time limit of an answer, in seconds.
        ca: file with certificates of trusted authorities; ``""``: those of certifi.
    """

    url: str
    user: str = "default"
    password: str = ""
    database_prefix: str = ""
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"
    unstorable_values: Literal["error", "null"] = "error"
    timeout: Period = 300.0
    ca: str = ""

    def __repr__(self) -> str:
        return "<ClickHouse>"  # nothing that may hold a password


def read_clickhouse_options(table: Mapping[str, object]) -> ClickhouseOptions:
    """Return the options in a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(ClickhouseOptions, table, "sink clickhouse")
    parts = urlsplit(options.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("sink clickhouse: url must be https:// or http:// with a host")
    if parts.username or parts.password:
        raise ConfigError("sink clickhouse: url: it has a password; give it in user and password")
    if parts.query or parts.fragment:
        raise ConfigError("sink clickhouse: url: it has parameters, which the sink sets itself")
    for name in ("user", "password"):
        text = getattr(options, name)
        if not text.isascii() or not (text.isprintable() or not text):
            raise ConfigError(f"sink clickhouse: {name}: it must be printable ASCII")
    return options


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

    path: PathText
    release: bool = True
    wait: Seconds = 10.0
    threads: Count = 1
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
    if not _MEMORY.fullmatch(options.memory_limit):
        raise ConfigError("sink duckdb: memory_limit must be a size, such as 1GB, or 50%")
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
