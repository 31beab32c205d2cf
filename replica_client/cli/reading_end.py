"""The end of reading: ``--until`` of ``changes`` and ``events``."""

from __future__ import annotations

import datetime

from replica_client.binlog.event import BinlogEvent
from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import ConfigError
from replica_client.gtid import GtidSet, MariadbGtidSet
from replica_client.position.position import Position
from replica_client.readers.start_position import micros_of, parse_start, stop_of
from replica_client.readers.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ReadingEnd:
    """The end of reading, as ``--until`` says.

    Attributes:
        stop: a position, a GTID set (in a position without file) or a time; None: nowhere.
    """

    stop: Position | datetime.datetime | None = None

    @classmethod
    def of(cls, since: str | None, until: str | None) -> ReadingEnd:
        """Return the end that the options say.

        Raises:
            ConfigError: it is not understood, or before the start.
        """
        if until is None:
            return cls()
        begin = parse_start(since, "latest", "since")
        stop = stop_of(begin, parse_start(until, "latest", "until"))
        if isinstance(stop, str):
            raise ConfigError(
                "--until: give FILE:OFFSET, a GTID set or a time; --stop-at-end is now"
            )
        return cls(stop)

    @property
    def is_past(self) -> bool:
        """Return whether the end is a time that is over: what the binlog has now is enough."""
        return isinstance(self.stop, datetime.datetime) and self.seconds_left == 0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end by this machine's clock; None where the end is no time."""
        if not isinstance(self.stop, datetime.datetime):
            return None
        moment = self.stop if self.stop.tzinfo else self.stop.replace(tzinfo=datetime.UTC)
        return max((moment - datetime.datetime.now(datetime.UTC)).total_seconds(), 0)

    def excludes(self, transaction: Transaction) -> bool:
        """Return whether a transaction is at the end or after it."""
        stop = self.stop
        if isinstance(stop, datetime.datetime):
            return not transaction.is_before(micros_of(stop))
        if stop is None:
            return False
        if stop.file:
            return transaction.start >= stop
        return _has(transaction.start, stop)

    def is_reached(self, position: Position) -> bool:
        """Return whether nothing after a position is wanted."""
        stop = self.stop
        if not isinstance(stop, Position):
            return False
        return position >= stop if stop.file else _has(position, stop)

    def check_for_events(self) -> None:
        """Refuse a GTID set: single events are at no end of one.

        Raises:
            ConfigError: the end is one.
        """
        if isinstance(self.stop, Position) and not self.stop.file:
            raise ConfigError("--until of events is FILE:OFFSET or a time")

    def is_excluded_event(self, event: BinlogEvent) -> bool:
        """Return whether an event is at the end or after it; of a GTID set that is not known."""
        if isinstance(self.stop, datetime.datetime):
            return event.header.timestamp >= self.stop.timestamp()
        if not isinstance(self.stop, Position) or not event.header.next_position:
            return False
        return Position(event.file, event.position) >= self.stop


def _has(position: Position, stop: Position) -> bool:
    """Return whether a position is after every transaction of a GTID set."""
    found, wanted = position.gtid_set, stop.gtid_set
    if isinstance(found, GtidSet) and isinstance(wanted, GtidSet):
        return wanted.issubset(found)
    if isinstance(found, MariadbGtidSet) and isinstance(wanted, MariadbGtidSet):
        return wanted.issubset(found)
    return False
