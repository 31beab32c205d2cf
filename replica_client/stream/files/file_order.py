"""The order of a source's binlog files.

A server writes its files one after the other. Each ends with a ROTATE event that names the next
file, and begins with the server's id, its time and the GTIDs of all transactions before it. So
files in a wrong order, a missing file, and files of several servers can be detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice, pairwise
from typing import BinaryIO, Final

from replica_client.errors import BinlogDecodeError, ConfigError, DataLossError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT, MAGIC_SIZE, BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.layout import EVENT_SIZE_OFFSET, HEADER_SIZE, TYPE_OFFSET
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.storage.files import open_file, read_at
from replica_client.stream.files.file_bytes import BinlogFile, open_events
from replica_client.stream.files.file_names import order_of

_HEAD_EVENTS: Final = 8
_TAIL_SIZE: Final = 600
"""Bytes at the end of a file that contain its ROTATE event: a name has 512 at most."""
_ROTATE: Final = int(EventType.ROTATE_EVENT)
_BACK: Final = 3600
"""Seconds that a clock may go back from one file to the next."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """Facts in a binlog file about its place in the order.

    Attributes:
        name: the file's name.
        server_id: id of the server that wrote it; None if unknown.
        begun: seconds since 1970; 0 if unknown.
        previous: GTIDs of the transactions before it; None if the file does not say.
        next_file: name in its ROTATE event; ``""`` if it has none.
    """

    name: str
    server_id: int | None = None
    begun: int = 0
    previous: GtidSet | MariadbGtidSet | None = None
    next_file: str = ""

    @classmethod
    def of_events(cls, name: str, events: Iterable[BinlogEvent], next_file: str = "") -> FileMark:
        """Return the mark of a file from its first events, which include the format description."""
        server_id: int | None = None
        begun = 0
        previous: GtidSet | MariadbGtidSet | None = None
        for event in islice(events, _HEAD_EVENTS):
            code = event.header.type_code
            if server_id is None:
                server_id, begun = event.header.server_id, event.header.timestamp
            if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
                previous = event.body.gtid_set
                break
            if code == EventType.GTID_LIST_EVENT:
                previous = MariadbGtidSet(MariadbGtid(*gtid) for gtid in event.body.gtids)
                break
        return cls(name, server_id, begun, previous, next_file)


def mark_of(file: BinlogFile, options: DecodeOptions) -> FileMark:
    """Return the mark of a file; nearly empty for a damaged file, whose reading reports the fault."""
    assert file.path is not None
    with closing(open_file(file.path)) as stream:
        size = stream.seek(0, 2)
        next_file = _next_file(read_at(stream, max(0, size - _TAIL_SIZE), _TAIL_SIZE), size)
    try:
        with file.open() as stream:
            return FileMark.of_events(file.name, _head(stream, file.name, options), next_file)
    except BinlogDecodeError:
        return FileMark(file.name, next_file=next_file)


def _head(stream: BinaryIO, name: str, options: DecodeOptions) -> Iterable[BinlogEvent]:
    decoder = BinlogDecoder(options, name)
    source = open_events(stream, name, options)
    source.ahead_until = 64 << 10
    while True:
        position = source.position
        data = source.next_event(decoder.format.header_size, options.max_event_size)
        if data is None:
            return
        yield decoder.decode(data, position, name)


def _next_file(tail: bytes, size: int) -> str:
    """Return the name in the ROTATE event that ends a file; ``""`` if another event ends it."""
    for at in range(len(tail) - HEADER_SIZE - 9, -1, -1):
        if tail[at + TYPE_OFFSET] != _ROTATE:
            continue
        stated = int.from_bytes(tail[at + EVENT_SIZE_OFFSET : at + EVENT_SIZE_OFFSET + 4], "little")
        following = int.from_bytes(tail[at + 13 : at + 17], "little")
        if stated == len(tail) - at and following == size & 0xFFFFFFFF:
            return _name_in(tail[at + HEADER_SIZE + 8 :])
    return ""


def _name_in(body: bytes) -> str:
    """Return the name in a ROTATE event's body, which a checksum of 4 bytes may follow."""
    for text in (body[:-4], body):
        name = text.decode("utf-8", "surrogateescape")
        if order_of(name) is not None:
            return name
    return ""


def check_order(marks: Sequence[FileMark]) -> None:
    """Raise unless one server wrote these files, in this order and without a gap.

    Raises:
        DataLossError: a file is missing between two.
        ConfigError: two files contradict each other; says which, in what, and what to do.
    """
    for before, after in pairwise(marks):
        check_pair(before, after)


def check_pair(before: FileMark, after: FileMark) -> None:
    """Raise unless the second file follows the first; errors as in :func:`check_order`."""
    pair = f"{before.name} and {after.name}"
    if before.name == after.name:
        raise ConfigError(f"{before.name} was given twice; files of one source differ in name")
    mine, other = order_of(before.name), order_of(after.name)
    renamed = mine is not None and other is not None and mine[:2] != other[:2]
    if mine and other and not renamed and other[2] != mine[2] + 1:
        raise DataLossError(
            f"between {pair} files are missing: their changes would be lost; restore them, or start over after the gap"
        )
    lost = _lost(before.previous, after.previous)
    if lost:
        raise ConfigError(
            f"{pair} are not of one server in this order: {after.name} begins without {lost}, which was before "
            f"{before.name}; give the files of one server, each once"
        )
    named = order_of(before.next_file) if before.next_file else None
    if named and other and not renamed and (named[0], named[2]) != (other[0], other[2]):
        raise ConfigError(
            f"{pair} do not follow each other: {before.name} ends with a ROTATE to {before.next_file}; give the files "
            "of one server in their order"
        )
    is_proved = bool(before.previous) and after.previous is not None
    if is_proved:
        return
    if None not in (before.server_id, after.server_id) and before.server_id != after.server_id:
        raise ConfigError(
            f"{pair} are of two servers ({before.server_id} and {after.server_id}), and no GTIDs say that the second "
            "went on after the first; read the files of each server alone"
        )
    if before.begun and after.begun and after.begun < before.begun - _BACK:
        raise ConfigError(
            f"{pair} are not in order: {after.name} was begun {before.begun - after.begun} s before {before.name}; "
            "give the files of one server in their order"
        )


def _lost(before: GtidSet | MariadbGtidSet | None, after: GtidSet | MariadbGtidSet | None) -> str:
    """Return the GTIDs before a file that are not before the next file, as text; ``""`` for none."""
    if isinstance(before, GtidSet) and isinstance(after, GtidSet):
        return (before - after).compact()[:200] if before - after else ""
    if isinstance(before, MariadbGtidSet) and isinstance(after, MariadbGtidSet):
        # With gtid_strict_mode=OFF a number may be smaller than an earlier one; a domain never
        # disappears.
        domains = {one.domain_id for one in after}
        return ", ".join(str(one) for one in before if one.domain_id not in domains)[:200]
    return ""


def check_files(files: Sequence[BinlogFile], options: DecodeOptions, *, gaps: bool = False) -> None:
    """Raise unless files are in the one order; streams and bytes in memory are ignored.

    Args:
        files: in order.
        options: how they are decoded.
        gaps: whether transactions that are missing between two files are recorded as a loss.

    Raises:
        DataLossError: a file is missing between two.
        ConfigError: two files contradict each other.
    """
    paths = [file for file in files if file.path is not None]
    if len(paths) > 1:
        for before, after in pairwise([mark_of(file, options) for file in paths]):
            try:
                check_pair(before, after)
            except DataLossError:
                if not gaps:
                    raise


def check_position(
    position: Position, files: Sequence[BinlogFile], option: str, options: DecodeOptions
) -> None:
    """Raise unless the file of a position is among files.

    The beginning of the file that the last file names is the end of these files.

    Args:
        position: a position with a file.
        files: the source's files.
        option: name of the option with the position, for the message.
        options: how the files are decoded.

    Raises:
        ConfigError: no such file.
    """
    if position.file in [file.name for file in files]:
        return
    if position.offset <= MAGIC_SIZE and mark_of(files[-1], options).next_file == position.file:
        return
    raise no_such_file(position, [file.name for file in files], option)


def no_such_file(position: Position, names: Sequence[str], option: str) -> ConfigError:
    """Return the error for a position in a file that is missing among files."""
    shown = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    return ConfigError(
        f"{option} {position}: no such file among {shown}; give a position of these files"
    )


__all__ = ["FileMark", "check_files", "check_order", "check_pair", "check_position", "no_such_file"]


def files_between(
    files: Sequence[BinlogFile], begin: Position | None, end: Position | None
) -> Iterator[tuple[Position, BinlogFile]]:
    """Yield the files between two positions, each with the position where its reading begins.

    Raises:
        ConfigError: the file of the first position is not among them.
    """
    names = [file.name for file in files]
    if begin is not None and begin.file not in names:
        raise ConfigError(
            f"since {begin}: no such file among {', '.join(names[:5])}{' …' if names[5:] else ''}"
        )
    for file in files[names.index(begin.file) if begin is not None else 0 :]:
        start = Position(file.name, FIRST_EVENT)
        if begin is not None and begin.file == file.name and begin.offset > FIRST_EVENT:
            start = Position(file.name, begin.offset)
        if end is not None and start >= end:
            return
        yield start, file
