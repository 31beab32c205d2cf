"""XA transactions that are prepared and not yet committed or rolled back; a position carries them.

An XA transaction stands in the binlog in two places: its rows up to the XA PREPARE, and later, perhaps in
another file, the XA COMMIT or XA ROLLBACK that decides them. A position between the two lies after the
rows, so the checkpoint keeps where each pending XA PREPARE is, and its rows can be read again::

    "xa_prepared": [{"xid": "X'6774',X'6271',1", "file": "binlog.000003", "offset": 1472,
                     "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Self

from replica_client.errors import DataLossError, PositionStoreError
from replica_client.protocol.binlog.events.gtids import XaPrepareEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position

PREPARED_KEY: Final = "xa_prepared"
"""Name of a checkpoint's state that holds the pending XA transactions; absent when there are none."""

MAX_PENDING: Final = 100_000
"""XA transactions that may be pending at a time."""

_KEPT_ENDED: Final = 100_000
_MAX_PART: Final = 64
_FORMAT_MODULUS: Final = 1 << 32
_XID: Final = re.compile(
    rb"\s*X'([0-9A-F]*)'\s*,\s*X'([0-9A-F]*)'\s*,\s*(-?[0-9]{1,20})\s*", re.IGNORECASE
)
_END: Final = re.compile(rb"\s*XA\s+(COMMIT|ROLLBACK)\s+(.*?)\s*(ONE\s+PHASE)?\s*", re.I | re.S)


@dataclass(frozen=True, slots=True)
class XaId:
    """The xid of an XA transaction.

    Attributes:
        format_id: as 32 bits, unsigned: events and statements have the same number with and without a sign.
        gtrid: the global part, at most 64 bytes of any value.
        bqual: the branch qualifier, likewise.
    """

    format_id: int
    gtrid: bytes
    bqual: bytes

    @classmethod
    def of(cls, format_id: int, gtrid: bytes, bqual: bytes) -> Self:
        """Return the xid of an event's fields."""
        return cls(format_id % _FORMAT_MODULUS, gtrid, bqual)

    @classmethod
    def of_event(cls, body: XaPrepareEvent) -> Self:
        """Return the xid of an XA PREPARE."""
        return cls.of(body.format_id, body.gtrid, body.bqual)

    @classmethod
    def parse(cls, text: bytes) -> Self | None:
        """Parse an xid in the server's spelling, ``X'6774',X'6271',1``; return None if it is not one."""
        match = _XID.fullmatch(text)
        if match is None or any(len(match[part]) % 2 for part in (1, 2)):
            return None
        gtrid, bqual = (bytes.fromhex(match[part].decode("ascii")) for part in (1, 2))
        if len(gtrid) > _MAX_PART or len(bqual) > _MAX_PART:
            return None
        return cls.of(int(match[3]), gtrid, bqual)

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class XaEnd:
    """An XA COMMIT or XA ROLLBACK of a prepared transaction.

    Attributes:
        xid: of the transaction; None when the statement's text does not tell it.
        commits: whether it commits.
    """

    xid: XaId | None
    commits: bool


def xa_end(query: bytes) -> XaEnd | None:
    """Return what a statement decides of a prepared XA transaction, or None for other statements.

    XA COMMIT … ONE PHASE gives None: it commits the statements before it, as COMMIT does.
    """
    if query[:2].upper() != b"XA":
        return None
    match = _END.fullmatch(query)
    if match is None or match[3] is not None:
        return None
    return XaEnd(XaId.parse(match[2]), match[1].upper() == b"COMMIT")


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """The place of a prepared XA transaction.

    Attributes:
        xid: its xid.
        start: file and offset of its first event; file ``""`` when they are of another server.
        gtid: its GTID as text, ``""`` when it has none.
    """

    xid: XaId
    start: Position
    gtid: str

    def to_json(self) -> dict[str, object]:
        """Return the transaction as a JSON object."""
        return {
            "xid": str(self.xid),
            "file": self.start.file,
            "offset": self.start.offset,
            "gtid": self.gtid,
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the transaction that :meth:`to_json` encoded.

        Raises:
            ValueError: the value does not encode one.
        """
        if not isinstance(value, Mapping):
            raise ValueError("not an object")
        xid, file, offset, gtid = (value.get(name) for name in ("xid", "file", "offset", "gtid"))
        found = XaId.parse(xid.encode()) if isinstance(xid, str) else None
        if found is None or not isinstance(file, str) or not isinstance(gtid, str):
            raise ValueError("a member is missing")
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise ValueError("offset is not a number")
        return cls(found, Position(file, offset), gtid)


class PreparedLedger:
    """Knows which XA transactions were pending at any position that may still be acknowledged.

    Prepares and ends are reported in the order of reading, and positions requested in the order of
    acknowledgement.

    Attributes:
        revision: counts prepares and ends.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._pending: dict[XaId, PreparedTransaction] = {}
        # Transactions that ended after the last saved position, and where they ended.
        self._ended: list[tuple[PreparedTransaction, Position]] = []

    def __len__(self) -> int:
        return len(self._pending)

    def has_all_of(self, earlier: PreparedLedger) -> bool:
        """Return whether all that was pending in an earlier copy still is."""
        return earlier._pending.items() <= self._pending.items()

    def prepare(self, one: PreparedTransaction) -> None:
        """Add a transaction whose XA PREPARE was read.

        Raises:
            DataLossError: more are pending than any real source can have.
        """
        if len(self._pending) >= MAX_PENDING and one.xid not in self._pending:
            raise DataLossError(
                f"more than {MAX_PENDING} XA transactions are prepared and not ended at "
                f"{one.start.file}:{one.start.offset}; end them on the source (XA RECOVER lists them)"
            )
        self._pending[one.xid] = one
        self.revision += 1

    def find(self, xid: XaId) -> PreparedTransaction | None:
        """Return the pending transaction with an xid, or None."""
        return self._pending.get(xid)

    def end(self, xid: XaId, start: Position) -> None:
        """Remove a transaction whose XA COMMIT or XA ROLLBACK was read.

        Args:
            xid: of the prepared transaction.
            start: where the transaction of the XA COMMIT or XA ROLLBACK begins.
        """
        one = self._pending.pop(xid, None)
        if one is not None:
            self.revision += 1
            self._ended.append((one, Position(start.file, start.offset)))
            if len(self._ended) > _KEPT_ENDED:
                # Nobody asks: after a resume this far back the XA PREPARE is looked for.
                del self._ended[: _KEPT_ENDED // 2]

    def forget_positions(self) -> None:
        """Another server's binlog follows, in which the files and offsets so far have no meaning."""
        nowhere = Position("", 0)
        self._pending = {xid: replace(one, start=nowhere) for xid, one in self._pending.items()}
        self._ended = [(replace(one, start=nowhere), nowhere) for one, _ in self._ended]

    def copy(self) -> PreparedLedger:
        """Return an independent copy."""
        other = PreparedLedger()
        other._pending = dict(self._pending)
        other._ended = list(self._ended)
        return other

    def to_state(self, position: Position) -> list[dict[str, object]]:
        """Return the state that the checkpoint of a position keeps, as a JSON value; ``[]`` if nothing is pending."""
        reached = Position(position.file, position.offset)
        self._ended = [one for one in self._ended if not _is_before(one[1], reached)]
        found = [one for one, _ in self._ended if _is_before(one.start, reached)]
        found += [one for one in self._pending.values() if _is_before(one.start, reached)]
        return [one.to_json() for one in found]

    @classmethod
    def from_state(cls, value: object) -> Self:
        """Return the ledger of a state that :meth:`to_state` returned.

        Raises:
            PositionStoreError: the value is not such a state.
        """
        self = cls()
        try:
            if not isinstance(value, list):
                raise ValueError("not a list")
            for one in value:
                self.prepare(PreparedTransaction.from_json(one))
        except (ValueError, OverflowError) as error:
            raise PositionStoreError(
                f"the saved position has a damaged entry about XA transactions ({error}); restore it "
                "from a copy"
            ) from None
        return self


def _is_before(position: Position, reached: Position) -> bool:
    # A position by GTID alone is after all that was read, and all positions are after another server's.
    return not position.file or not reached.file or position < reached
