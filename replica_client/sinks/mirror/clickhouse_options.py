"""Options of the sink ``clickhouse``; this module needs no HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.sink_options import check_positive, read_options


class ClickhouseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``clickhouse``.

    Attributes:
        url: of the server's HTTP interface: ``http://host:8123`` or ``https://host:8443``.
        user: who writes.
        password: of that user; may be ``file:…``.
        database_prefix: put before the name of each database of the source to make the name of its database.
        missing_rows: what a change does of a row that the mirror does not have, or has already: ``error`` stops, and
            costs a look at the keys of each batch; ``ignore`` goes on, for a mirror that does not begin with all rows.
        unknown_tables: what a row of a table does of which neither CREATE TABLE nor a snapshot was seen: ``error``
            stops; ``create`` takes the table for empty.
        unstorable_values: what a value does that ClickHouse does not have, such as a zero date or February 31st:
            ``error`` stops; ``null`` stores NULL.
        timeout: seconds that an answer may take.
        ca: file with certificates of authorities; ``""``: those of certifi.
    """

    url: str
    user: str = "default"
    password: str = ""
    database_prefix: str = ""
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"
    unstorable_values: Literal["error", "null"] = "error"
    timeout: float = 300.0
    ca: str = ""

    def __repr__(self) -> str:
        return "<ClickHouse>"  # nothing that may hold a password


def read_clickhouse_options(table: Mapping[str, object]) -> ClickhouseOptions:
    """The options of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    options = read_options(ClickhouseOptions, table, "sink clickhouse")
    parts = urlsplit(options.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("sink clickhouse: url: https:// or http:// with a host is wanted")
    if parts.username or parts.password:
        raise ConfigError("sink clickhouse: url: it has a password; give it in user and password")
    if parts.query or parts.fragment:
        raise ConfigError("sink clickhouse: url: it has parameters, which the sink sets itself")
    for name in ("user", "password"):
        text = getattr(options, name)
        if not text.isascii() or not (text.isprintable() or not text):
            raise ConfigError(f"sink clickhouse: {name}: printable ASCII is wanted")
    check_positive(options, "sink clickhouse", "timeout")
    return options
