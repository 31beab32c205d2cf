"""Grouped transactions of a stream, and iterators that survive a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from replica_client.errors import ConfigError, ReplicaClientError, cut_traceback
from replica_client.stream.transactions.transaction import Transaction

_Group = TypeVar("_Group")
_Item = TypeVar("_Item")


def check_timeout(timeout: float | None) -> None:
    """Raise unless a timeout is a number of seconds or None.

    Raises:
        ConfigError: it is neither.
    """
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 <= timeout < float("inf")):
        raise ConfigError(
            f"timeout={timeout!r}: give seconds, 0 or more, or None to wait without end"
        )


class GroupedItems(AsyncGenerator[_Item, None], Generic[_Group, _Item]):
    """Iterator over the items of groups that come from a source.

    Each group is awaited in a task of its own. If the consumer is cancelled meanwhile, by
    ``asyncio.timeout`` or ``asyncio.wait_for``, the task goes on and the next step takes its group;
    an asynchronous generator would end.

    Args:
        groups: yields groups; it is closed with this iterator.
        items_of: returns the items of a group.
        timeout: seconds without a group after which ``idle`` is called. None: no limit.
        idle: returns the item for that case.
    """

    def __init__(
        self,
        groups: AsyncGenerator[_Group, None],
        items_of: Callable[[_Group], Iterator[_Item]],
        timeout: float | None = None,
        idle: Callable[[], _Item] | None = None,
    ) -> None:
        self._groups, self._items_of = groups, items_of
        self._timeout, self._idle = timeout, idle
        self._items: Iterator[_Item] | None = None
        self._pending: asyncio.Task[_Group] | None = None
        self._closed = False

    def __aiter__(self) -> GroupedItems[_Group, _Item]:
        return self

    if not TYPE_CHECKING:  # type checkers report such a loop on their own

        def __iter__(self) -> NoReturn:
            raise TypeError("`for`: a stream of connect() needs `async for`")

    async def __anext__(self) -> _Item:
        while not self._closed:
            if self._items is not None:
                try:
                    for item in self._items:
                        return item
                except ReplicaClientError as error:
                    cut_traceback(error)
                    raise
                self._items = None
            if self._pending is None:
                self._pending = asyncio.ensure_future(anext(self._groups))
            await asyncio.wait((self._pending,), timeout=self._timeout)
            if not self._pending.done():
                if self._idle is not None:
                    return self._idle()
                continue
            pending, self._pending = self._pending, None
            try:
                self._items = self._items_of(pending.result())
            except StopAsyncIteration:
                self._closed = True
            except BaseException as error:
                self._closed = True
                if isinstance(error, ReplicaClientError):
                    cut_traceback(error)
                raise
        raise StopAsyncIteration

    async def asend(self, value: None) -> _Item:
        """Return the next item, like ``anext``."""
        return await self.__anext__()

    async def athrow(self, *error: Any) -> _Item:
        """Close the iterator, and raise the error."""
        await self.aclose()
        raise error[0]

    async def aclose(self) -> None:
        """End the iterator and the task that waits for a group."""
        self._closed, self._items = True, None
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await self._groups.aclose()


class TransactionGroup:
    """Transactions that came together, in order; several consumers may share one group.

    Args:
        transactions: at least one.
        size: bytes of memory that they need, roughly.
        ordinary: whether each is whole, and has rows and nothing else.

    Attributes:
        transactions: see above.
        size: see above.
        ordinary: see above.
        known: results that one consumer stores for the next ones.
    """

    __slots__ = ("known", "ordinary", "size", "transactions")

    def __init__(self, transactions: list[Transaction], size: int, *, ordinary: bool) -> None:
        self.transactions = transactions
        self.size = size
        self.ordinary = ordinary
        self.known: object = None

    @classmethod
    def of_one(cls, transaction: Transaction) -> TransactionGroup:
        """Create a group of one transaction, or of a part of one."""
        size = OVERHEAD + sum(rows.event_size + OVERHEAD for rows in transaction.rows)
        size += sum(len(statement.text) for statement in transaction.statements)
        return cls([transaction], size, ordinary=False)


OVERHEAD = 512
"""Bytes that the objects of a transaction or of a rows event need apart from the event, roughly."""
