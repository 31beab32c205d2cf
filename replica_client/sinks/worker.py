"""A thread for a sink's blocking work, and batches of transactions for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from replica_client.stream.transactions.transaction import Transaction

Given = ParamSpec("Given")
Result = TypeVar("Result")

DEFAULT_BATCH_SIZE = 1 << 20
"""Bytes of rows events that are collected before they are given to the thread."""


class Worker:
    """Runs calls one after the other in a thread of its own, which is started on demand."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    async def run(
        self, call: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        """Run a call after all earlier ones, and return its result.

        A call that has started is not cancelled.
        """
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "replica-client-sink")
        future = self._executor.submit(call, *args, **kwargs)
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """Stop the thread once all its calls are done."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


def in_thread(
    worker: Worker, take: Callable[[list[Transaction]], None]
) -> Callable[[list[Transaction]], Awaitable[None]]:
    """Return a handler for :class:`Batches` that runs a blocking function in the worker."""

    async def handle(transactions: list[Transaction]) -> None:
        await worker.run(take, transactions)

    return handle


class Batches:
    """Collects transactions, so that small ones are not handled one by one.

    Args:
        handle: called with the collected transactions.
        limit: bytes of rows events after which the transactions are handled.
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
        """Add a transaction; handle all collected ones if they reach the limit."""
        self._waiting.append(transaction)
        self._size += 64 + sum(rows.event_size for rows in transaction.rows)
        if self._size >= self._limit:
            await self.flush()

    async def add_some(self, transactions: Sequence[Transaction], size: int) -> None:
        """Add transactions with a known total size of rows events; see :meth:`add`."""
        self._waiting += transactions
        self._size += 64 * len(transactions) + size
        if self._size >= self._limit:
            await self.flush()

    async def flush(self) -> None:
        """Handle all collected transactions."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            await self._handle(waiting)

    def clear(self) -> None:
        """Drop all collected transactions."""
        self._waiting, self._size = [], 0
