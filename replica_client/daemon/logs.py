"""Messages of the daemon: lines of text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

LOGGER = "replica_client"


class JsonFormatter(logging.Formatter):
    """``{"time": …, "level": …, "logger": …, "message": …}``, and ``exception`` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up(level: str, layout: Literal["text", "json"]) -> None:
    """Send our messages to standard error; may be called again."""
    handler = logging.StreamHandler()
    if layout == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S")
        )
    logger = logging.getLogger(LOGGER)
    for old in logger.handlers[:]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
