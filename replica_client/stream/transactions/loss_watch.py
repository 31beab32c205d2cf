"""Errors of readers, and losses and notices between rows.

Type checkers do not see these methods, and so report such statements as errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeVar

from replica_client.errors import (
    BinlogDecodeError,
    ColumnDecodeError,
    DataLossError,
    PositionFormatError,
    PositionStoreError,
    ReplicaClientError,
    SchemaError,
    UnknownTableError,
)
from replica_client.options import remedies
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import JsonDiffs
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder, located as error_at
from replica_client.rows.row import Row
from replica_client.rows.row_change import AnyChange
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss, LossKind
from replica_client.stream.transactions.transaction import Transaction, located_changes

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch


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


_USES: Final = {
    "__enter__": "`with`",
    "__exit__": "`with`",
    "__iter__": "`for`",
    "__aenter__": "`async with`",
    "__aexit__": "`async with`",
    "__aiter__": "`async for`",
    "__await__": "`await`",
}

_Class = TypeVar("_Class")


def used_as(instead: str, *but: str) -> Callable[[type[_Class]], type[_Class]]:
    """Make a class raise TypeError with the remedy in statements that it does not support.

    Args:
        instead: what to write.
        but: methods that stay absent, because libraries look for them.
    """

    def refuse_others(cls: type[_Class]) -> type[_Class]:
        for name, what in _USES.items():
            if name not in but and not hasattr(cls, name):

                def refuse(self: object, *arguments: object, what: str = what) -> NoReturn:
                    raise TypeError(f"{what}: {instead}")

                setattr(cls, name, refuse)
        return cls

    return refuse_others


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


_LOG = logging.getLogger("replica_client.stream")
_OF_ROWS: Final = ("undecodable", "incomplete_row", "unknown_table")


class LossWatch:
    """Decision between error and record for a change that cannot be delivered.

    Args:
        recorded: kinds that become a record; others raise.
        resume: where delivery continues inside a transaction: earlier losses were recorded before.
        withholds: whether texts of errors are kept out of records and the log.

    Attributes:
        found: the losses of the transaction that is being read.
    """

    def __init__(
        self, recorded: frozenset[LossKind], resume: Position | None, *, withholds: bool = False
    ) -> None:
        self.found: list[Loss] = []
        self._recorded = recorded
        self._resume = resume
        self._withholds = withholds
        self._seen: dict[tuple[str, str, str], int] = {}

    def records(self, kind: LossKind) -> bool:
        """Return whether losses of a kind become a record."""
        return kind in self._recorded

    def lose(
        self,
        kind: LossKind,
        error: ReplicaClientError,
        event: BinlogEvent,
        event_index: int,
        gtid: str,
        table: tuple[str, str] = ("", ""),
        count: int | None = None,
    ) -> None:
        """Record a loss, or raise its error.

        Raises:
            ReplicaClientError: ``error``, unless the kind is recorded.
        """
        if kind not in self._recorded:
            raise error
        resume = self._resume
        if resume is not None and (event_index, 0) < (resume.event_index, resume.row_index):
            return
        reason = str(withheld_error(error)) if self._withholds else str(error)
        loss = Loss(
            kind,
            *table,
            count,
            reason,
            event.file,
            event.position,
            event_index,
            gtid,
            event.header.timestamp,
        )
        self.found.append(loss)
        key = (kind, *table)
        times = self._seen[key] = self._seen.get(key, 0) + 1
        if times == 10 ** (len(str(times)) - 1):  # the 1st, 10th, 100th … of each
            _LOG.warning("loss recorded (%s, number %d of its table): %s", kind, times, reason)

    def take(self, event_index: int | None = None) -> tuple[Loss, ...]:
        """Remove and return the losses of the transaction, or of its events up to an index."""
        found, self.found = self.found, []
        if event_index is not None:
            self.found = [loss for loss in found if loss.event_index > event_index]
            found = [loss for loss in found if loss.event_index <= event_index]
        return tuple(found)

    def take_back(self, event_index: int) -> None:
        """Drop the losses of rows after an event, as these rows were rolled back."""
        self.found = [
            loss
            for loss in self.found
            if loss.event_index <= event_index or loss.kind not in _OF_ROWS
        ]

    def end_transaction(self) -> None:
        """Note the end of the transaction in which delivery continued."""
        self._resume = None

    # Checks.

    def check_images(self, rows: RowsOfEvent) -> None:
        """Check that the row images have all wanted columns.

        Raises:
            DataLossError: they lack some, and that is not recorded.
        """
        body, shape = rows.event.body, rows.shape
        wanted = frozenset(rows.decoder.column_names)
        lacking: set[str] = set()
        for bitmap in (body.columns_before, body.columns_after):
            if bitmap is None:
                continue
            for at, column in enumerate(shape.columns):
                if not bitmap[at >> 3] >> (at & 7) & 1 and column.name in wanted:
                    lacking.add(column.name)
        if not lacking:
            return
        names = ", ".join(sorted(lacking)[:10]) + (" …" if len(lacking) > 10 else "")
        error = DataLossError(
            f"file {rows.event.file}, position {rows.event.position}: row images of {shape.database}."
            f"{shape.table} lack {names}; set binlog_row_image=FULL on the source, or "
            + remedies("incomplete rows")
        )
        recorded = self.records("incomplete_row")
        self.lose(
            "incomplete_row",
            error,
            rows.event,
            rows.event_index,
            rows.gtid,
            (shape.database, shape.table),
            count_rows(rows) if recorded else None,
        )

    def is_decodable(self, rows: RowsOfEvent) -> bool:
        """Return whether all rows of an event can be decoded; checked only to record failures.

        Consumers decode rows as they iterate them, too late for a record in this transaction.
        """
        if not self.records("undecodable"):
            return True
        try:
            for change in rows:
                for row in (change.before, change.after):
                    if row is not None:
                        _read_documents(rows, row)
        except BinlogDecodeError as error:
            error = error_at(error, rows.event)
            table = (rows.shape.database, rows.shape.table)
            self.lose("undecodable", error, rows.event, rows.event_index, rows.gtid, table)
            return False
        return True

    def check_gtids(
        self, event: BinlogEvent, known: GtidSet | MariadbGtidSet | None
    ) -> GtidSet | MariadbGtidSet | None:
        """Compare the GTIDs that a file lists as earlier with those that came.

        Args:
            event: PREVIOUS_GTIDS or GTID_LIST.
            known: the GTIDs of all transactions that ended; None when they are not known.

        Returns:
            The GTIDs to know from now on; None when nothing is missing.

        Raises:
            DataLossError: transactions never came, and that is not recorded.
        """
        if known is None:
            return None
        stated: GtidSet | MariadbGtidSet
        if event.header.type_code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            stated = event.body.gtid_set
        else:
            if event.body.flags:
                return None  # GTIDs that were skipped for us, not those of earlier files
            gtids = [MariadbGtid(*gtid) for gtid in event.body.gtids]
            if event.header.flags & EventFlag.LOG_EVENT_ARTIFICIAL_F and isinstance(
                known, MariadbGtidSet
            ):
                # GTIDs that the source skips on its way to our position. In domains that we know
                # they are before our position, except for a server of which we have less: those
                # were purged.
                gtids = [gtid for gtid in gtids if known.may_lack(gtid)]
            stated = MariadbGtidSet(gtids)
        missing, count = _missing(stated, known)
        if not missing:
            return None
        error = DataLossError(
            f"file {event.file}, position {event.position}: the files before this one hold transactions "
            f"that were not read: {missing}; read those files too, take a new snapshot, or "
            + remedies("record gtid_gap")
        )
        self.lose("gtid_gap", error, event, 0, missing, count=count)
        if isinstance(known, GtidSet) and isinstance(stated, GtidSet):
            return known | stated
        if isinstance(known, MariadbGtidSet) and isinstance(stated, MariadbGtidSet):
            return known | stated
        return stated


def _missing(stated: GtidSet | MariadbGtidSet, known: GtidSet | MariadbGtidSet) -> tuple[str, int]:
    """Return the GTIDs that are listed and not known: as text, and how many."""
    if isinstance(stated, GtidSet):
        gone = stated - known if isinstance(known, GtidSet) else stated
        return gone.compact(), gone.count
    missing, count = [], 0
    # A domain's position is its last GTID; another server's may have had a greater number before.
    have = known if isinstance(known, MariadbGtidSet) else MariadbGtidSet()
    for domain in stated.domains_beyond(have):
        last, reached = stated.last_of(domain), have.reached(domain)
        if last is not None and last.sequence > reached:
            missing.append(f"domain {domain}: {reached + 1}-{last.sequence}")
            count += last.sequence - reached
        else:
            missing.append(f"domain {domain}: up to {last}")
            count += 1
    return ", ".join(missing), count


def count_rows(rows: RowsOfEvent) -> int | None:
    """Return how many rows an event has; None if its rows cannot be separated."""
    try:
        return sum(1 for _ in rows)
    except BinlogDecodeError:
        return None


def count_unknown(event: BinlogEvent, shape: TableShape) -> int | None:
    """Return how many rows an event has by its table map alone; None if that is impossible."""
    try:
        return sum(1 for _ in RowImageDecoder(shape, columns=()).iter_event(event))
    except BinlogDecodeError:
        return None


Notice: TypeAlias = SchemaChange | Loss
"""A schema change or a loss, which ``notices=True`` delivers between rows."""


def changes_of(
    transaction: Transaction,
    *,
    notices: bool,
    before: Position | Transaction | None = None,
    without_rows: Transaction | None = None,
) -> Iterator[AnyChange | Notice]:
    """Return an iterator over a transaction's row changes, with its notices if requested.

    Args:
        transaction: to be iterated.
        notices: whether schema changes and losses are included.
        before: the resume point before the transaction, or the transaction before it.
        without_rows: the transaction without its rows; None: it is created.
    """
    if without_rows is None:
        without_rows = transaction.with_rows(())
    if notices:
        return _with_notices(transaction, before, without_rows)
    return located_changes(transaction.rows, before, without_rows)


def _with_notices(
    transaction: Transaction, before: Position | Transaction | None, without_rows: Transaction
) -> Iterator[AnyChange | Notice]:
    for item in transaction.items:
        if isinstance(item, RowsOfEvent):
            yield from located_changes((item,), before, without_rows)
        else:
            yield item


def batches_of(
    batches: BatchAssembler, transaction: Transaction, *, notices: bool
) -> Iterator[RecordBatch | Notice]:
    """Yield the batches that a transaction fills; before a notice, all earlier rows."""
    version, stamp = transaction.commit_version, transaction.commit_us
    if not notices or not (transaction.schema_changes or transaction.losses):
        yield from batches.add(transaction.rows, version, stamp)
        return
    for item in transaction.items:
        if isinstance(item, RowsOfEvent):
            yield from batches.add((item,), version, stamp)
        else:
            yield from batches.flush()
            yield item


def _read_documents(rows: RowsOfEvent, row: Row) -> None:
    """Decode the JSON documents of a row, which otherwise happens when somebody reads them."""
    for name, value in zip(row.columns, row, strict=True):
        if isinstance(value, JsonDocument | JsonDiffs):
            try:
                value.text  # noqa: B018
            except BinlogDecodeError as error:
                shape = rows.shape
                raise ColumnDecodeError(
                    f"{shape.database}.{shape.table} column {name}: {error}"
                ) from None
