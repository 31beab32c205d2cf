"""Values of query results as texts, in the forms of :mod:`replica_client.rows.json_values`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from replica_client.rows.json_values import quote, value_to_json


def json_text(value: Any) -> str:
    """Return the JSON text of a value, as ``changes --json`` writes numbers, texts and times.

    Lists are arrays; maps and structs are objects.
    """
    if isinstance(value, (date, timedelta)):
        return quote(plain_text(value))
    if isinstance(value, (list, tuple)):
        pairs = isinstance(value, list) and value and all(isinstance(one, tuple) for one in value)
        if pairs:
            return json_text(dict(value))  # PyArrow's form of a map
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{quote(str(k))}: {json_text(one)}" for k, one in value.items()) + "}"
        )
    try:
        return value_to_json(value)
    except TypeError:
        return quote(str(value))


def plain_text(value: Any) -> str:
    """Return the text of a value that is not None; dates and times in MySQL's form, in UTC."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return f"{moment:%Y-%m-%d %H:%M:%S.%f}" if value.year >= 1000 else _early(moment)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _time(value)
    if isinstance(value, (bytes, list, tuple, dict)):
        return json_text(value)
    return str(value)


def _early(moment: datetime) -> str:
    # The platform's %Y may not pad a year before 1000.
    return f"{moment.year:04d}{moment:-%m-%d %H:%M:%S.%f}"


def _time(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    hours, rest = divmod(seconds, 3600)
    return f"{sign}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{fraction:06d}"
