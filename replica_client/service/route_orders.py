"""Orders to one sink that outlive the process: a pause, transactions to skip, snapshots to cancel.

They are a file in the state directory. A skipped transaction reaches the sink without rows, as a loss that is saved
with the position; its order is removed once that position is committed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from replica_client.errors import BinlogDecodeError, ConfigError, DataLossError, GtidFormatError
from replica_client.protocol.gtid import GtidSet, parse_gtid_set
from replica_client.protocol.position import Position
from replica_client.service.table_checker import RowCounter
from replica_client.storage.durable import replace_file
from replica_client.stream.position.losses import Loss, LossKind, LossLedger
from replica_client.stream.transactions.arguments import ReadingEnd
from replica_client.stream.transactions.transaction import Transaction

_LOG = logging.getLogger("replica_client.service")
_MAX_SKIPS: Final = 100


def one_transaction(text: str) -> str:
    """Return the name of one transaction in its normal form: a GTID, or ``FILE:OFFSET``.

    Raises:
        ConfigError: the text names none, or several.
    """
    end = ReadingEnd.of(None, text).stop
    if isinstance(end, Position) and end.file and not end.inside_transaction:
        return f"{end.file}:{end.offset}"
    try:
        found = parse_gtid_set(text)
    except GtidFormatError:
        found = None
    count = found.count if isinstance(found, GtidSet) else len(list(found or ()))
    if count != 1:
        raise ConfigError(
            f"{text!r:.80} names no single transaction: give its GTID, or FILE:OFFSET of its begin or of its event"
        )
    return str(found)


class RouteOrders:
    """The orders of one sink.

    Args:
        path: the file.
        route: its name, for messages.
        tell: called with each thing done: a command, and what it was done to.
        fail: called with the text of each order that cannot be carried out.
        end_run: called when the sink is to close.

    Attributes:
        is_paused: whether the sink is to stay closed.
        pause_at: where it is to pause: a position, a GTID or a time; empty: nowhere.
        skips: transactions to skip.
        cancelled: snapshots that are not to go on.

    Raises:
        ConfigError: the file is damaged, or cannot be read.
    """

    def __init__(
        self,
        path: Path,
        route: str,
        tell: Callable[[str, str], None],
        fail: Callable[[str], None],
        end_run: Callable[[], None],
    ) -> None:
        self._path, self._route, self._tell, self._fail = path, route, tell, fail
        self._end_run = end_run
        self.is_paused = False
        self.pause_at = ""
        self.skips: list[str] = []
        self.cancelled: list[str] = []
        self._end = ReadingEnd()
        self._skipping = ""
        self._number = 0
        self._recorded: frozenset[LossKind] = frozenset()
        self._ledger = LossLedger()
        self._tells = True
        self._done: dict[str, Position] = {}
        self._counter = RowCounter()
        try:
            self._read(json.loads(path.read_bytes()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is damaged: {error}; restore or delete it") from error

    def _read(self, saved: Any) -> None:
        self.is_paused = bool(saved["paused"])
        self.skips = [str(one) for one in saved["skips"]]
        self.cancelled = [str(one) for one in saved["cancelled"]]
        self._set_end(str(saved["pause_at"]))

    @property
    def is_empty(self) -> bool:
        """Whether transactions pass unseen."""
        return not (self.skips or self.pause_at or self._skipping or self._done)

    @property
    def end(self) -> ReadingEnd:
        """Where the sink is to pause."""
        return self._end

    async def pause(self, at: str = "") -> None:
        """Pause now, or before the first transaction at a place; a later order replaces an earlier one.

        Args:
            at: a position, a GTID set or a time; empty: now.

        Raises:
            ConfigError: it is none of these.
        """
        self._set_end(at)
        self.is_paused = not at
        await self._save()

    async def resume(self) -> None:
        """Go on, and forget where to pause."""
        self._set_end("")
        self.is_paused = False
        await self._save()

    async def skip(self, transaction: str, committed: Position | None) -> None:
        """Skip a transaction when it comes.

        Args:
            transaction: see :func:`one_transaction`.
            committed: position of the sink; None: not known.

        Raises:
            ConfigError: it was delivered already, or too many are to be skipped.
        """
        if committed is not None and _is_before(transaction, committed):
            raise ConfigError(f"{transaction} was delivered already: the sink is at {committed}")
        if len(self.skips) >= _MAX_SKIPS:
            raise ConfigError(f"at most {_MAX_SKIPS} transactions can wait to be skipped")
        if transaction not in self.skips:
            self.skips.append(transaction)
            await self._save()

    async def cancel(self) -> None:
        """Forget transactions to skip, and where to pause."""
        self.skips = []
        self._set_end("")
        await self._save()

    async def keep_cancelled(self, names: Iterable[str]) -> None:
        """Set :attr:`cancelled`."""
        kept = list(names)
        if kept != self.cancelled:
            self.cancelled = kept
            await self._save()

    # Called by the delivery.

    def begin(
        self, recorded: frozenset[LossKind], ledger: LossLedger, *, tells: bool = True
    ) -> None:
        """Begin a run of the sink, and forget what the last one did not commit.

        Args:
            recorded: the kinds of losses that the configuration accepts.
            ledger: of the stream; it takes the losses.
            tells: whether the sink learns of losses.
        """
        self._recorded, self._ledger, self._tells = recorded, ledger, tells
        self._skipping = ""
        self._done.clear()

    async def stop(self) -> None:
        """Pause now, as the place to pause at is reached."""
        self._tell("pause", f"at {self.pause_at}")
        await self.pause()
        self._end_run()

    def stops_before(self, transaction: Transaction, before: Position | None) -> bool:
        """Return whether the sink is to pause before a transaction.

        Args:
            transaction: the next one.
            before: the position after the one before it; None: not known.
        """
        reached = before is not None and self._end.is_reached(before)
        return reached or self._end.excludes(transaction)

    def admit(self, transaction: Transaction) -> Transaction:
        """Return a transaction, or what is left of it when it is skipped.

        While a transaction is to be skipped, the stream records every loss, so that one that it cannot read reaches
        this method. A loss of another transaction is an error as ever.

        Raises:
            DataLossError: another transaction has a loss that is not accepted.
        """
        if not transaction.part:
            self._skipping = next(filter(lambda one: _names(one, transaction), self.skips), "")
            self._number = 0
        if not self._skipping:
            for loss in transaction.losses:
                if loss.kind not in self._recorded:
                    raise DataLossError(loss.reason)
            return transaction
        losses = tuple(self._losses(transaction))
        for loss in losses:
            self._ledger.add(loss, transaction.start)
        if transaction.complete:
            _LOG.warning(
                "%s: transaction %s is skipped: %d rows", self._route, self._skipping, self._number
            )
            self._done[self._skipping] = transaction.position
            self._skipping = ""
        shown = (*transaction.losses, *losses) if self._tells else ()
        return transaction.__replace__(rows=(), schema_changes=(), losses=shown)

    def _losses(self, transaction: Transaction) -> Iterable[Loss]:
        """Yield a loss for each table of a transaction, or a part of one."""
        found: dict[tuple[str, str], list[int | None]] = {}
        for rows in transaction.rows:
            try:
                count: int | None = self._counter.count(rows)
            except BinlogDecodeError:
                count = None
            found.setdefault((rows.shape.database, rows.shape.table), []).append(count)
        for change in transaction.schema_changes:
            found.setdefault((change.database, change.table), []).append(0)
        for table, counts in found.items() or [(("", ""), [0])]:
            total = None if None in counts else sum(one or 0 for one in counts)
            self._number += total or 0
            start = transaction.start
            yield Loss(
                "skipped",
                *table,
                total,
                f"an operator skipped the transaction {self._skipping}",
                start.file,
                start.offset,
                0,
                transaction.gtid,
                transaction.timestamp,
            )

    async def committed(self, position: Position) -> None:
        """Remove the orders that a committed position settles."""
        done = [one for one in self._done if not position < self._done[one]]
        passed = [one for one in self.skips if one in done or _is_before(one, position)]
        if not passed:
            return
        for one in passed:
            self._tell("skipped" if one in done else "passed", one)
            self._done.pop(one, None)
            if one not in done:
                self._fail(
                    f"skip {one}: the sink is past it; its losses say whether it was skipped"
                )
        self.skips = [one for one in self.skips if one not in passed]
        await self._save()

    def _set_end(self, at: str) -> None:
        self._end = ReadingEnd.of(None, at or None)
        if isinstance(self._end.stop, datetime) and self._end.stop.tzinfo is None:
            raise ConfigError(f"{at}: give the zone of the time, such as {at}Z")
        self.pause_at = at

    async def _save(self) -> None:
        saved = {
            "paused": self.is_paused,
            "pause_at": self.pause_at,
            "skips": self.skips,
            "cancelled": self.cancelled,
        }
        text = json.dumps(saved).encode()
        try:
            await asyncio.to_thread(replace_file, self._path, text)
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from error


def _names(name: str, transaction: Transaction) -> bool:
    """Return whether a name is that of a transaction, or of an event in it."""
    if _is_gtid(name):
        return name == transaction.gtid
    at, start, end = Position.parse(name), transaction.start, transaction.position
    if at.file != start.file:
        return False
    return start.offset == at.offset or (
        transaction.complete and start.offset < at.offset < end.offset and end.file == at.file
    )


def _is_before(name: str, position: Position) -> bool:
    """Return whether a transaction lies before a position, as far as that is known."""
    if _is_gtid(name):
        return ReadingEnd(Position("", 0, parse_gtid_set(name))).is_reached(position)
    return bool(position.file) and Position.parse(name) < Position(position.file, position.offset)


def _is_gtid(name: str) -> bool:
    try:
        parse_gtid_set(name)
    except GtidFormatError:
        return False
    return True
