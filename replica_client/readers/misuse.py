"""Errors with a remedy for the asyncio stream without asyncio, and the other way round.

Type checkers do not see these methods, and so report such statements as errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:

    class AsynchronousOnly:
        """Base of :class:`~replica_client.readers.live.source_stream.SourceStream`."""

        __slots__ = ()

    class SynchronousOnly:
        """Base of :class:`~replica_client.readers.live.follow.FollowedSource`."""

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
