"""Reading options: keywords, their names on each surface, and the start."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from replica_client.errors import ConfigError, GtidFormatError, PositionFormatError, SchemaError
from replica_client.options import fields_of
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.transaction import Transaction


def assembly_of(given: Mapping[str, Any]) -> AssemblyOptions:
    """Return the assembly options: the given object, or one made from the single keywords.

    Args:
        given: the keywords of a public function.

    Raises:
        ConfigError: both are given, or a keyword is wrong.
    """
    selected, fields = fields_of(given, "selection"), fields_of(given, "assembly")
    if "tables" in selected and not selected["tables"]:
        raise ConfigError(
            f"tables={selected['tables']!r} selects no table: give patterns, or None for all"
        )
    assembly: AssemblyOptions | None = given.get("assembly")
    if assembly is None:
        return AssemblyOptions(Selection(**selected), **fields)
    if both := [
        f"{name}=" for name, value in given.items() if value and {name} & {*selected, *fields}
    ]:
        raise ConfigError(
            f"assembly= is given, and {', '.join(both)} too: give one of both, or"
            " rc.AssemblyOptions(rc.Selection(tables), …) with all of them"
        )
    return assembly


def decode_of(given: Mapping[str, Any]) -> DecodeOptions:
    """Return the decoding options: the object of ``options``, with the single keywords replaced."""
    decode: DecodeOptions = given.get("options") or DecodeOptions()
    return replace(decode, **fields_of(given, "decode"))


Start = Position | Literal["earliest", "latest"] | datetime.datetime
"""A start: a position (which may hold only a GTID set), an end of the log, or a time."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
# A date also has the form of a MariaDB GTID, but no server has domain 2020 and pads numbers to two
# digits.
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
# Output for programs has commit times as numbers: microseconds since 1970, of 2001 or later.
_MICROS = re.compile(r"[1-9]\d{15}")


def parse_start(
    value: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None,
    default: Literal["earliest", "latest"],
    option: str = "start",
) -> Start:
    """Parse a start.

    Text is ``earliest``, ``latest``, a position (``binlog.000024:1472``), a GTID set
    (``uuid:1-77``, ``0-1-100``), an ISO time (with its zone, else UTC) or microseconds since 1970 (16
    digits). ``2020-10-10`` is a date; that MariaDB GTID is written ``02020-10-10``.

    Raises:
        ConfigError: it is none of them.
    """
    if value is None:
        return default
    if isinstance(value, (GtidSet, MariadbGtidSet)):
        return Position("", 0, value)
    if isinstance(value, (Position, datetime.datetime)):
        return value
    if not isinstance(value, str):
        raise ConfigError(
            f"{option}={value!r}: give a position (rc.Position), a GTID set, a datetime, or text such as"
            ' "binlog.000024:1472"'
        )
    text = value.strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if _MICROS.fullmatch(text):
        return _EPOCH + int(text) * _MICROSECOND
    if not _DATE.fullmatch(text):
        try:
            return Position("", 0, parse_gtid_set(text))
        except GtidFormatError:
            pass
    try:
        moment = datetime.datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    except ValueError:
        pass
    try:
        return Position.parse(value)
    except PositionFormatError:
        raise ConfigError(
            f"{option} {text[:120]!r} is not understood; give earliest, latest, FILE:OFFSET, a GTID set "
            "or a time such as 2026-11-20T08:00:00+00:00"
        ) from None


def micros_of(moment: datetime.datetime) -> int:
    """Convert a time to microseconds since 1970, exactly; a time without zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // _MICROSECOND


def time_text(micros: int) -> str:
    """Format microseconds since 1970 as ISO time in UTC, which :func:`parse_start` reads exactly."""
    return (_EPOCH + micros * _MICROSECOND).isoformat()


def stop_of(start: Start, stop: Start) -> Start:
    """Return the end of a range, which excludes ``stop``.

    A range from a time to the same time is that moment: it ends one microsecond later.

    Raises:
        ConfigError: the range ends before it begins.
    """
    if isinstance(start, datetime.datetime) and isinstance(stop, datetime.datetime):
        begin, end = micros_of(start), micros_of(stop)
        if end < begin:
            raise ConfigError(
                f"the range is empty: it ends {time_text(end)}, and begins {time_text(begin)}"
            )
        if begin == end:
            return _EPOCH + (end + 1) * _MICROSECOND
    elif isinstance(start, Position) and isinstance(stop, Position) and start.file and stop.file:
        if stop < start:
            raise ConfigError(f"the range is empty: it ends at {stop}, and begins at {start}")
    return stop


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
