"""The failures of a query, cut down to the line of this package's error."""

from __future__ import annotations

import re

from replica_client import errors
from replica_client.errors import (
    BinlogPurgedError,
    ConfigError,
    ReplicaClientError,
    TlsError,
    TransportError,
)

_OURS = re.compile(r"replica_client\.errors\.(\w+): (.+)")
_PYTHON = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_MAX_TEXT = 600


class PipelineError(ReplicaClientError):
    """A query failed; the message is that of the error inside it."""


class PurgedRangeError(PipelineError):
    """The source purged changes that were not read: only a new snapshot can go on from here.

    The message names the gap.
    """


def cause_of(error: BaseException) -> ReplicaClientError:
    """Our own error inside one of Spark's, by its line; else Spark's message on one line."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        message = message.strip()
        if kind is ConfigError:
            return ConfigError(message)
        if kind is BinlogPurgedError:
            return PurgedRangeError(message)
        return PipelineError(message)
    python = _PYTHON.findall(text)
    if python:
        return PipelineError(f"{python[-1][0]}: {python[-1][1]}"[:_MAX_TEXT])
    return PipelineError(" ".join(text.split())[:_MAX_TEXT])


_TRANSIENT = frozenset(
    ("ConnectError", "ConnectionLostError", "StreamEndedError", "TransportTimeoutError")
)
_SERVER_GOES = re.compile(r"\b(1053|1317|1927|2006|2013|3169)\b")


def is_transient(error: BaseException) -> bool:
    """Return whether a query failed because of a lost connection or worker, so that a retry may succeed."""
    if isinstance(error, TransportError):
        return not isinstance(error, TlsError)
    ours = _OURS.findall(str(error))
    if not ours:
        return "Python worker failed to connect back" in str(error)  # a machine that is too busy
    name, message = ours[-1]
    # A server that shuts down, or whose session was killed, says so in an error of its own.
    return name in _TRANSIENT or (name == "ServerError" and bool(_SERVER_GOES.search(message)))
