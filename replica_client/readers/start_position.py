"""Where reading starts, in the forms that users give it."""

from __future__ import annotations

import datetime
from typing import Literal

from replica_client.errors import ConfigError, GtidFormatError, PositionFormatError
from replica_client.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.position.position import Position

Start = Position | Literal["earliest", "latest"] | datetime.datetime
"""Where to start: a position (which may hold a GTID set only), an end of the log, or a time."""


def parse_start(
    value: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None,
    default: Literal["earliest", "latest"],
    option: str = "start",
) -> Start:
    """Understand a start.

    Text is ``earliest``, ``latest``, a position (``binlog.000024:1472``), a GTID set
    (``uuid:1-77``, ``0-1-100``) or an ISO time (with its zone, else UTC).

    Raises:
        ConfigError: it is none of them.
    """
    if value is None:
        return default
    if isinstance(value, (GtidSet, MariadbGtidSet)):
        return Position("", 0, value)
    if isinstance(value, (Position, datetime.datetime)):
        return value
    text = value.strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        return Position("", 0, parse_gtid_set(text))
    except GtidFormatError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    except ValueError:
        pass
    try:
        return Position.parse(value)
    except PositionFormatError:
        raise ConfigError(
            f"{option} {text[:120]!r} is not understood; give earliest, latest, FILE:OFFSET, a GTID set "
            "or a time such as 2026-11-20T08:00:00+00:00"
        ) from None


def timestamp_of(moment: datetime.datetime) -> int:
    """Whole seconds since 1970, as events have them; a time without zone is UTC.

    Rounded down: what was committed later in the same second as a start is not before it.
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() // 1)
