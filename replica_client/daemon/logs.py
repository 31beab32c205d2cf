"""Log output of the daemon: lines of text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from replica_client.codec.printable import escaped_json, printable
from replica_client.errors import without_secrets

LOGGER = "replica_client"
ROUTE: ContextVar[str] = ContextVar("route", default="")
"""The current route, ``source.sink``, which log messages name."""


class _RouteFilter(logging.Filter):
    """A filter that puts the current route before messages that do not begin with it."""

    def filter(self, record: logging.LogRecord) -> bool:
        route = ROUTE.get()
        if route:
            text = record.getMessage()
            if not text.startswith(f"{route}: "):
                record.msg, record.args = f"{route}: {text}", ()
            record.source, _, record.sink = route.partition(".")
        return True


class JsonFormatter(logging.Formatter):
    """A formatter of JSON lines: time, level, logger, message; source, sink, exception if known."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        for name in ("source", "sink"):
            if (value := getattr(record, name, "")) != "":
                entry[name] = value
        if record.exc_info:
            entry["exception"] = without_secrets(self.formatException(record.exc_info))
        return escaped_json(json.dumps(entry, ensure_ascii=False))


class LineFormatter(logging.Formatter):
    """A formatter of text lines without control characters in the message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        record.message = printable(without_secrets(record.message))
        return super().formatMessage(record)

    def formatException(self, given: Any) -> str:
        """Return the traceback without secrets."""
        return without_secrets(super().formatException(given))


def set_up(level: str, layout: Literal["text", "json"]) -> None:
    """Send our messages to standard error; may be called again."""
    handler = logging.StreamHandler()
    handler.addFilter(_RouteFilter())
    if layout == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(
            LineFormatter("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S")
        )
    logger = logging.getLogger(LOGGER)
    for old in logger.handlers[:]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
