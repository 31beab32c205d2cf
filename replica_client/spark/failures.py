"""What went wrong in a query, cut down to our own error's line."""

from __future__ import annotations

import re

from replica_client import errors
from replica_client.errors import ConfigError, ReplicaClientError

_OURS = re.compile(r"replica_client\.errors\.(\w+): (.+)")
_PYTHON = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_MAX_TEXT = 600


class PipelineError(ReplicaClientError):
    """A query failed; the message is that of the error inside it."""


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
        return PipelineError(message)
    python = _PYTHON.findall(text)
    if python:
        return PipelineError(f"{python[-1][0]}: {python[-1][1]}"[:_MAX_TEXT])
    return PipelineError(" ".join(text.split())[:_MAX_TEXT])
