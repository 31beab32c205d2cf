"""Changes that cannot be delivered as rows: an error, or a loss record where the user chose so."""

from __future__ import annotations

import logging
from typing import Final

from replica_client.binlog.event import BinlogEvent
from replica_client.constants.event_types import EventFlag, EventType
from replica_client.errors import BinlogDecodeError, DataLossError, ReplicaClientError
from replica_client.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.position.losses import Loss, LossKind
from replica_client.position.position import Position
from replica_client.readers.surface import remedies
from replica_client.readers.withheld_errors import withheld_error
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import TableShape

_LOG = logging.getLogger("replica_client")
_OF_ROWS: Final = ("undecodable", "incomplete_row", "unknown_table")


class LossWatch:
    """Decides what becomes of a change that cannot be delivered.

    Args:
        recorded: kinds that become a record; others raise.
        resume: where delivery goes on inside a transaction: what lies before was recorded then.
        withholds: the text of an error is kept from records and the log.

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
        """Whether losses of a kind become a record."""
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
        """Something is lost.

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
        """The losses of the transaction, or of its events up to an index; none of them are left."""
        found, self.found = self.found, []
        if event_index is not None:
            self.found = [loss for loss in found if loss.event_index > event_index]
            found = [loss for loss in found if loss.event_index <= event_index]
        return tuple(found)

    def take_back(self, event_index: int) -> None:
        """Rows behind an event were rolled back: what was lost of them was never there."""
        self.found = [
            loss
            for loss in self.found
            if loss.event_index <= event_index or loss.kind not in _OF_ROWS
        ]

    def end_transaction(self) -> None:
        """The transaction in which delivery went on is over."""
        self._resume = None

    # Finding.

    def check_images(self, rows: RowsOfEvent) -> None:
        """Look whether the row images have all wanted columns.

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
        """Whether all rows of an event can be decoded; looked at only where failures are recorded.

        Consumers decode rows when they iterate them, too late for a record in this transaction.
        """
        if not self.records("undecodable"):
            return True
        try:
            for _ in rows:
                pass
        except BinlogDecodeError as error:
            table = (rows.shape.database, rows.shape.table)
            self.lose("undecodable", error, rows.event, rows.event_index, rows.gtid, table)
            return False
        return True

    def check_gtids(
        self, event: BinlogEvent, known: GtidSet | MariadbGtidSet | None
    ) -> GtidSet | MariadbGtidSet | None:
        """Compare what a file says of the files before it with what came.

        Args:
            event: PREVIOUS_GTIDS or GTID_LIST.
            known: the GTIDs of all transactions that ended; None when they are not known.

        Returns:
            what must be known from now on, None when nothing is missing.

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
                return None  # GTIDs that were passed over for us, not those of the files before
            gtids = [MariadbGtid(*gtid) for gtid in event.body.gtids]
            if event.header.flags & EventFlag.LOG_EVENT_ARTIFICIAL_F and isinstance(
                known, MariadbGtidSet
            ):
                # What the source passes over on its way to our position: of domains that we know it is before that,
                # but for a server of which we have less: those were purged.
                gtids = [gtid for gtid in gtids if known.may_lack(gtid)]
            stated = MariadbGtidSet(gtids)
        missing, count = _missing(stated, known)
        if not missing:
            return None
        error = DataLossError(
            f"file {event.file}, position {event.position}: the files before this one hold transactions "
            f"that never came: {missing}; read those files too, take a new snapshot, or "
            + remedies("record gtid_gap")
        )
        self.lose("gtid_gap", error, event, 0, missing, count=count)
        if isinstance(known, GtidSet) and isinstance(stated, GtidSet):
            return known | stated
        if isinstance(known, MariadbGtidSet) and isinstance(stated, MariadbGtidSet):
            return known | stated
        return stated


def _missing(stated: GtidSet | MariadbGtidSet, known: GtidSet | MariadbGtidSet) -> tuple[str, int]:
    """The GTIDs that are told and not known: as text, and how many."""
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
    """How many rows an event has; None when they cannot be told apart."""
    try:
        return sum(1 for _ in rows)
    except BinlogDecodeError:
        return None


def count_unknown(event: BinlogEvent, shape: TableShape) -> int | None:
    """How many rows an event of a table has of which only the table map is known."""
    try:
        return sum(1 for _ in RowImageDecoder(shape, columns=()).iter_event(event))
    except BinlogDecodeError:
        return None
