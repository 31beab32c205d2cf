"""Conversion of the Redis client's errors to errors of a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions

from replica_client.errors import SinkError

_MAY_PASS = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.WatchError,
    exceptions.TryAgainError,
    exceptions.ExecAbortError,
)
_NEVER_PASS = (exceptions.AuthenticationError, exceptions.NoPermissionError)
_PASSING_WORDS = (
    "OOM ",
    "LOADING ",
    "READONLY ",
    "MASTERDOWN ",
    "NOREPLICAS ",
    "MISCONF ",
    "BUSY ",
)


@contextmanager
def redis_errors(where: str) -> Iterator[None]:
    """Raise errors of Redis in the block as ``SinkError``.

    Args:
        where: the server, without credentials.
    """
    try:
        yield
    except exceptions.RedisError as error:
        text = str(error)
        passing = not isinstance(error, _NEVER_PASS) and (
            isinstance(error, _MAY_PASS) or text.startswith(_PASSING_WORDS)
        )
        raise SinkError(f"Redis at {where}: {text[:300]}", retriable=passing) from error
    except OSError as error:
        raise SinkError(f"Redis at {where}: {error}", retriable=True) from error
