"""The end of reading, schema files, and losses as users see them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from replica_client.cli.output import Lines, message
from replica_client.errors import ConfigError, SchemaError
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.arguments import micros_of, parse_start, stop_of
from replica_client.stream.transactions.transaction import Transaction


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


def read_schema_file(path: Path) -> SchemaHistory:
    """Read the history in a file.

    Raises:
        SchemaError: the file holds none.
        OSError: it cannot be read.
    """
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path} is not JSON: {error}") from error
    try:
        return SchemaHistory.from_json(document)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from error


def schema_of(path: Path | None, saved: Checkpoint | None) -> SchemaHistory | None:
    """Return the history saved with a position, else the one in a file, else None.

    Raises:
        SchemaError: it is damaged.
    """
    if saved is not None and STATE_KEY in saved.state:
        return SchemaHistory.from_state(saved.state[STATE_KEY])
    return None if path is None else read_schema_file(path)


ALLOW_EMPTY_HINT: Final = "; --allow-empty takes an empty answer"


def tell_losses(losses: LossLedger) -> None:
    """Say on standard error what was lost so far; nothing when nothing was."""
    for count in losses.counts:
        message(f"lost: {count}; {count.reason}")


def tell_unmatched(patterns: Sequence[str]) -> None:
    """Say on standard error which patterns matched no table; nothing when each did."""
    if patterns:
        several = ", ".join(repr(pattern) for pattern in patterns)
        message(
            f"no table was read that matches --table {several}; check the spelling and the letter case"
        )


def print_losses(state: Mapping[str, object], lines: Lines, *, json: bool) -> None:
    """Print the losses that a checkpoint carries: a line for each kind and table.

    Raises:
        PositionStoreError: the checkpoint is damaged.
    """
    for count in LossLedger.from_state(state.get(LOSSES_KEY, [])).counts:
        if json:
            lines.json({"lost": asdict(count)})
        else:
            lines.line(f"lost: {count}")
