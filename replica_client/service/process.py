"""The service as a process: its lock, systemd notifications, logs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from replica_client.errors import ConfigError, without_secrets
from replica_client.protocol.codec.printable import escaped_json, printable
from replica_client.storage.durable import open_locked


class StateLock:
    """A lock of a directory for this process; the kernel releases it when the process ends.

    Args:
        directory: made when it is not there.

    Raises:
        ConfigError: another daemon has it, or it cannot be made or written.
    """

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = open_locked(directory / "daemon.lock", 0o600)
        except BlockingIOError:
            raise ConfigError(
                f"state directory {directory}: another daemon uses it; stop that one, or give each its "
                "own: state in [daemon]"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"state directory {directory}: {error.strerror}; make it writable for this user, or "
                "name another one: state in [daemon]"
            ) from error

    def release(self) -> None:
        """Release the directory."""
        os.close(self._descriptor)


class Notifier:
    """A sender of datagrams to the socket that systemd names; does nothing without one.

    Args:
        environment: holds ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` under systemd; None: the
            process's.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_seconds = int(microseconds) / 1e6 if microseconds.isdigit() and own else None

    def send(self, text: str) -> None:
        """Send assignments, one a line; ignore a socket that nobody reads."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            with contextlib.suppress(OSError):
                sender.sendto(text.encode(), address)


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
