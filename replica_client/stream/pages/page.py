"""A page that is served, and the address where."""

from __future__ import annotations

import json
from typing import Any

from replica_client.errors import ConfigError
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str
    status: int = 200


def alive() -> Page:
    """Return the answer of a process that runs (``/healthz``)."""
    return Page(b"ok\n", "text/plain; charset=utf-8")


def json_page(value: Any, status: int = 200) -> Page:
    """Return a page with a value as JSON."""
    return Page(json.dumps(value).encode() + b"\n", "application/json", status)


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:9190``, ``[::1]:9190`` or ``:9190`` (loopback).

    Raises:
        ConfigError: it is neither.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"listen: {text!r} is no address; write 127.0.0.1:9190")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
