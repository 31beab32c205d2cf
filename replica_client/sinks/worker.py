"""The one thread that a sink's blocking work is done in, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from replica_client.readers.transaction import Transaction

Given = ParamSpec("Given")
Result = TypeVar("Result")

DEFAULT_BATCH_SIZE = 1 << 20
"""Bytes of rows events that are collected before they are handed to the thread."""


class Worker:
    """Does calls one after the other in a thread of its own, which is made when needed."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    async def run(
        self, call: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        """Do a call when those before it are done. One that was begun is not cancelled."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "replica-client-sink")
        future = self._executor.submit(call, *args, **kwargs)
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """Let the thread end when it has nothing more to do."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


def in_thread(
    worker: Worker, take: Callable[[list[Transaction]], None]
) -> Callable[[list[Transaction]], Awaitable[None]]:
    """What :class:`Batches` wants, of a function that blocks."""

    async def handle(transactions: list[Transaction]) -> None:
        await worker.run(take, transactions)

    return handle


class Batches:
    """Collects transactions, so that small ones are not handed on one by one.

    Args:
        handle: what is done with them.
        limit: bytes of rows events that are collected.
    """

    def __init__(
        self,
        handle: Callable[[list[Transaction]], Awaitable[None]],
        limit: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        self._handle = handle
        self._limit = limit
        self._waiting: list[Transaction] = []
        self._size = 0

    async def add(self, transaction: Transaction) -> None:
        """Collect a transaction; hand all on when they are enough."""
        self._waiting.append(transaction)
        self._size += 64 + sum(rows.event_size for rows in transaction.rows)
        if self._size >= self._limit:
            await self.flush()

    async def add_some(self, transactions: Sequence[Transaction], size: int) -> None:
        """Collect some transactions, of whose rows events the size is known."""
        self._waiting += transactions
        self._size += 64 * len(transactions) + size
        if self._size >= self._limit:
            await self.flush()

    async def flush(self) -> None:
        """Hand on what is collected."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            await self._handle(waiting)

    def clear(self) -> None:
        """Forget what is collected."""
        self._waiting, self._size = [], 0
