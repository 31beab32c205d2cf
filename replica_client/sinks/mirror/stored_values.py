"""Values and column types of mirrors, and values that a database cannot store.

All types are in :data:`~replica_client.schema.kinds.TARGETS`. BIGINT UNSIGNED and BIT are text of the
digits from 9223372036854775808 on; SQLite and DuckDB have one zero. DECIMAL, dates and times are text as
MySQL writes it, TIMESTAMP in UTC; a geometry is the bytes that MySQL stores.
"""

from __future__ import annotations

import logging
import re
from calendar import monthrange
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from replica_client.errors import ConfigError, SinkError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.value_types import EnumValue, encode_geometry
from replica_client.rows.json_values import value_to_json
from replica_client.rows.special_values import RawJson
from replica_client.schema.kinds import DATES, TEXT_KINDS, rules
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.registry import Count, PathText, Period, Seconds, read_options

INTEGER_LIMIT: Final = 1 << 63


def one_zero(value: float) -> float:
    """Return a number with ``0.0`` in place of ``-0.0``."""
    return value + 0.0


def _large(value: int) -> int | str:
    return value if value < INTEGER_LIMIT else str(value)


def _decimal(value: Any) -> str:
    return f"{value:f}"


def _enum(value: EnumValue) -> str:
    return str(value.index) if value.label is None else value.label


def _json(value: Any) -> str:
    if isinstance(value, RawJson):
        return str(value)
    if not isinstance(value, JsonDocument):
        raise SinkError(
            "a JSON column was changed in parts of its document; set binlog_row_image=FULL, or "
            "binlog_row_value_options='' on the source"
        )
    return value.text


_ENCODERS: Final = rules(
    "the mirrors' values",
    {
        "integer year real string bytes": None,
        "bit": _large,
        "decimal": _decimal,
        "date time datetime timestamp set address": str,
        "enum": _enum,
        "json": _json,
        "spatial": encode_geometry,
        "vector": value_to_json,
    },
)


def stored_encoder(column: ColumnModel) -> ValueEncoder | None:
    """Return the encoder of a column's values; None if they are stored as they are."""
    is_large = column.kind == "bigint" and column.unsigned
    return _large if is_large else _ENCODERS[column.kind]


_LOG = logging.getLogger("replica_client.sinks")
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


class ReplacedValues:
    """Counts values that were stored as NULL, and logs the first one of each column.

    Attributes:
        count: number of values.
    """

    def __init__(self) -> None:
        self.count = 0
        self._columns: set[str] = set()

    def add(self, where: str, column: str, why: str) -> None:
        """Count a value."""
        self.count += 1
        if column not in self._columns:
            self._columns.add(column)
            _LOG.warning(
                "%s: NULL is stored for a value of column %s: %s (unstorable_values = 'null'); the metric "
                "replica_client_replaced_values counts these",
                where,
                column,
                why,
            )


def storable_encoder(
    column: ColumnModel,
    product: str,
    where: str,
    *,
    nulls: bool,
    zero_character: bool,
    years: tuple[int, int] = (1, 9999),
    replaced: ReplacedValues,
) -> ValueEncoder:
    """Return the encoder of a column's values for a database that cannot store all of them.

    Args:
        column: column of a mirrored table.
        product: name of the database product, for messages.
        where: the mirror, for messages.
        nulls: whether such a value becomes NULL; otherwise it is an error.
        zero_character: whether text may hold U+0000.
        years: first and last year that the database stores.
        replaced: counts values that become NULL.
    """
    encode = stored_encoder(column)

    def checked(value: Any) -> Any:
        stored = value if encode is None else encode(value)
        why = _why_not(column, stored, product, zero_character=zero_character, years=years)
        if not why:
            return stored
        if nulls:
            replaced.add(where, column.name, f"{product} does not have the value")
            return None
        raise SinkError(
            f"{where}: column {column.name}: {why}; set unstorable_values = 'null', or leave the table out"
        )

    return checked


def _why_not(
    column: ColumnModel, value: Any, product: str, *, zero_character: bool, years: tuple[int, int]
) -> str:
    """Return why a value cannot be stored; ``""`` if it can."""
    if type(value) is not str:
        return ""
    if column.kind in DATES:
        return "" if _has_day(value, *years) else f"{product} has no date {value}"
    if zero_character or "\0" not in value:
        return ""
    if column.kind in TEXT_KINDS or column.kind == "json":
        return f"{product} has no text with a character U+0000"
    return ""


def _has_day(value: str, first: int, last: int) -> bool:
    """Return whether a date that MySQL wrote is valid, unlike zero dates or February 31st."""
    found = _DATE.match(value)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    return (
        first <= year <= last
        and 0 < month <= 12
        and 0 < day <= (day if day <= 28 else monthrange(year, month)[1])
    )


class MirrorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options that all mirrors have.

    Attributes:
        missing_rows: reaction to a change of a row that is missing, or an insert of a row that
            exists: ``error`` stops; ``ignore`` goes on, for a mirror that does not start with all
            rows.
        unknown_tables: reaction to a row of a table without CREATE TABLE or snapshot before:
            ``error`` stops; ``create`` creates the table and assumes that it was empty.
    """

    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"


class FileMirrorOptions(MirrorOptions, frozen=True, kw_only=True):
    """Options that all mirrors in a file have.

    Attributes:
        path: path of the file; created if it does not exist.
    """

    path: PathText


class ClickhouseOptions(MirrorOptions, frozen=True, kw_only=True):
    """Options of the sink ``clickhouse``.

    Attributes:
        url: URL of the server's HTTP interface: ``http://host:8123`` or ``https://host:8443``.
        user: user of the connection.
        password: password of that user; may be ``file:…``.
        database_prefix: prefix of the mirror's databases, put before the source's database names.
        unstorable_values: reaction to a value that ClickHouse cannot store, such as a zero date or
            February 31st: ``error`` stops; ``null`` stores NULL.
        timeout: time limit of an answer, in seconds.
        ca: file with certificates of trusted authorities; ``""``: those of certifi.
    """

    url: str
    user: str = "default"
    password: str = ""
    database_prefix: str = ""
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


class DuckdbOptions(FileMirrorOptions, frozen=True, kw_only=True):
    """Options of the sink ``duckdb``.

    Attributes:
        release: whether the file is closed after each commit, so that other processes can read it
            in between; ``false``: the file stays open, which is faster, and no other process can
            open it.
        wait: seconds to wait until another process closes the file; then the sink retries later.
        threads: number of DuckDB's threads.
        memory_limit: DuckDB's memory limit: a size such as ``1GB``, or a part of the machine's
            memory such as ``50%``.
        unstorable_values: reaction to a value that DuckDB cannot store, such as a zero date or
            February 31st: ``error`` stops; ``null`` stores NULL.
    """

    release: bool = True
    wait: Seconds = 10.0
    threads: Count = 1
    memory_limit: str = "1GB"
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
