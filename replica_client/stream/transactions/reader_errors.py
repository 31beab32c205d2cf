"""Errors of readers, and option names on each surface.

Type checkers do not see these methods, and so report such statements as errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from replica_client.errors import (
    BinlogDecodeError,
    DataLossError,
    PositionFormatError,
    PositionStoreError,
    ReplicaClientError,
    SchemaError,
    UnknownTableError,
)

if TYPE_CHECKING:

    class AsynchronousOnly:
        """Base of :class:`~replica_client.stream.live.source_stream.SourceStream`."""

        __slots__ = ()

    class SynchronousOnly:
        """Base of :class:`~replica_client.stream.live.follow.FollowedSource`."""

        __slots__ = ()

else:

    def _refuse(what: str, instead: str) -> Callable[..., NoReturn]:
        def refuse(self: object, *arguments: object) -> NoReturn:
            raise TypeError(f"{what}: {instead}")

        return refuse

    _ASYNC = (
        "connect() is for asyncio; write `async with rc.connect(…) as stream:` and then"
        " `async for change in stream.changes():`, or, without asyncio, `for change in rc.follow(…):`"
    )
    _PLAIN = (
        "follow() is for code without asyncio; write `with rc.follow(…) as stream:` and then"
        " `for change in stream.changes():`, or, with asyncio, `async with rc.connect(…) as stream:`"
    )

    class AsynchronousOnly:
        """Raises TypeError with the remedy for ``with``, ``for``, ``async for`` and ``await``."""

        __slots__ = ()

        __enter__ = _refuse("`with`", _ASYNC)
        __exit__ = _refuse("`with`", _ASYNC)
        __iter__ = _refuse("`for`", _ASYNC)
        __aiter__ = _refuse("`async for`", _ASYNC)
        __await__ = _refuse("`await`", _ASYNC)

    class SynchronousOnly:
        """Raises TypeError with the remedy for ``async with``, ``async for`` and ``await``."""

        __slots__ = ()

        __aenter__ = _refuse("`async with`", _PLAIN)
        __aexit__ = _refuse("`async with`", _PLAIN)
        __aiter__ = _refuse("`async for`", _PLAIN)
        __await__ = _refuse("`await`", _PLAIN)


WITHHELD: Final = "the text is withheld: a transform hides columns of this source"


def withheld_error(error: ReplicaClientError) -> ReplicaClientError:
    """Return an error of the same kind and place without texts; errors of other kinds unchanged."""
    text = f"{type(error).__name__}: {WITHHELD}"
    if isinstance(error, BinlogDecodeError):
        same = type(error).__init__ is BinlogDecodeError.__init__
        made = type(error)(text) if same else BinlogDecodeError(text)
        return made.at(
            file=error.file,
            position=error.position,
            event_type=error.event_type,
            event_name=error.event_name,
        )
    kinds: tuple[type[ReplicaClientError], ...] = (UnknownTableError, SchemaError, DataLossError)
    for kind in kinds:
        if isinstance(error, kind):
            return kind(text)
    return error


@contextmanager
def reading_state_of(store: object) -> Iterator[None]:
    """Translate errors in a checkpoint's state to one that names its file and the remedy.

    Args:
        store: the store that it was loaded from; the path of a file is named.

    Raises:
        PositionStoreError: instead of the error about the state.
    """
    try:
        yield
    except ReplicaClientError as error:
        path = getattr(store, "path", None)
        where = "the saved position" if path is None else f"position file {path}"
        reason = str(error).partition(";")[0]
        raise PositionStoreError(
            f"{where} is damaged: {reason}; restore it from a copy, or set a new position with "
            "replica-client position set"
        ) from PositionFormatError(reason)  # no retry helps
