"""Positions in a source's binlog, and the difference between two.

Text::

    position = [ place ] [ "@" gtid-set ]          at least one of them
    place    = file ":" offset [ "/" event-index [ "." row-index ] ]

``binlog.000024:1472``, ``binlog.000024:1472/3.7``, ``binlog.000024:1472@3e11fa47-…:1-77``,
``@0-1-100``. In ``file`` the characters ``% : @ /`` and those below 33 are written ``%`` and two
hexadecimal digits. What follows the ``@`` is the set's text on one line; nothing is the empty set
of MySQL, ``-`` the empty one of MariaDB, and no ``@`` means that the set is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Self
from urllib.parse import unquote

from replica_client.errors import GtidFormatError, PositionFormatError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_gtid_set

JSON_VERSION = 1
"""Version of the JSON form that :meth:`Position.to_json` writes."""

_TEXT = re.compile(
    r"(?:(?P<file>[^:@/]*):(?P<offset>[0-9]{1,20})"
    r"(?:/(?P<event>[0-9]{1,10})(?:\.(?P<row>[0-9]{1,10}))?)?)?(?:@(?P<gtids>.*))?",
    re.DOTALL,
)
_ESCAPED = re.compile(r"[%:@/\x00-\x20]")
_INDEX_LIMIT = 10**10
_NUMBERED = re.compile(r"(.*\.)0*([0-9]{1,18})", re.DOTALL)
_EPOCH = re.compile(r"(.+?)-([0-9]{1,9})\.", re.DOTALL)


@lru_cache(maxsize=64)
def split_file_name(file: str) -> tuple[str, int]:
    """Return a binlog file name's base, which rotation keeps, and its number.

    The result for ``binlog.000024`` is ``("binlog.", 24)``; a name without a number has 0.
    """
    match = _NUMBERED.fullmatch(file)
    return (match[1], int(match[2])) if match else (file, 0)


@lru_cache(maxsize=64)
def file_order(file: str) -> tuple[str, int]:
    """Return the text and the number by which the files of one source are ordered.

    A relay names the files of its second source ``binlog-2.000001`` and so on: they come after
    ``binlog.…``, and those of the tenth source after those of the ninth.
    """
    base, number = split_file_name(file)
    match = _EPOCH.fullmatch(base)
    return (base if match is None else f"{match[1]}.~{int(match[2]):09d}.", number)


def _escape(file: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", file)


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a source's binlog, and the transactions that were committed before it.

    Positions of one source are ordered by file (``binlog.999999`` comes before ``binlog.1000000``),
    offset, event and row; the GTID set takes no part in the order, but in equality. The order of
    files of different base names is that of the names; a relay's files of later sources
    (``binlog-2.000001``) come after those of its first. A position does not name its source: the
    order of positions of two sources, or of one without a file, means nothing.

    Attributes:
        file: binlog file name; ``""`` when only the GTID set is known.
        offset: 64-bit offset in the file: of the start of a transaction when an index is not 0.
        gtid_set: all transactions before, None when not known.
        event_index: events of the transaction at ``offset`` that are done; its first one (the GTID
            event where there is one) has index 0.
        row_index: rows of the event with that index that are done.

    Examples:
        >>> position = rc.Position.parse("binlog.000024:1472@0-1-100")
        >>> position.file, position.offset, str(position.gtid_set)
        ('binlog.000024', 1472, '0-1-100')
        >>> rc.Position.from_json(position.to_json()) == position
        True
    """

    file: str
    offset: int
    gtid_set: GtidSet | MariadbGtidSet | None = None
    event_index: int = 0
    row_index: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.file, str) and isinstance(self.offset, int)):
            raise PositionFormatError(
                f"Position({self.file!r}, {self.offset!r}): give the name of a binlog file and an offset, for example"
                ' Position("binlog.000024", 1472)'
            )
        gtids = self.gtid_set
        if gtids is not None and not isinstance(gtids, GtidSet | MariadbGtidSet):
            raise PositionFormatError(
                f"gtid_set of a position: give a GtidSet or a MariadbGtidSet, not {type(gtids).__name__}"
            )
        if not (isinstance(self.event_index, int) and isinstance(self.row_index, int)):
            raise PositionFormatError(
                f"event index {self.event_index!r} or row index {self.row_index!r} is no number"
            )
        if not 0 <= self.offset < 1 << 64:
            raise PositionFormatError(f"offset {self.offset} is out of range")
        if not (0 <= self.event_index < _INDEX_LIMIT and 0 <= self.row_index < _INDEX_LIMIT):
            raise PositionFormatError(
                f"event index {self.event_index} or row index {self.row_index} is out of range"
            )

    @property
    def inside_transaction(self) -> bool:
        """Whether a part of the transaction at ``offset`` is done."""
        return bool(self.event_index or self.row_index)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a position.

        Raises:
            PositionFormatError: the text is no position; the message shows the form.
        """
        if not isinstance(text, str):
            raise PositionFormatError(f"a position is parsed from text, not {type(text).__name__}")
        # Of other blanks a file's name may begin with one; it is not escaped.
        match = _TEXT.fullmatch(text.strip(" \t\r\n"))
        if match is None or not match[0]:
            raise PositionFormatError(
                f"not a position: {text[:120]!r}; expected FILE:OFFSET, e.g. binlog.000024:1472,"
                " or @ and a GTID set"
            )
        gtid_set: GtidSet | MariadbGtidSet | None = None
        if match["gtids"] is not None:
            gtids = match["gtids"].strip()
            try:
                gtid_set = MariadbGtidSet() if gtids == "-" else parse_gtid_set(gtids)
            except GtidFormatError as error:
                raise PositionFormatError(f"position {text[:80]!r}: {error}") from error
        return cls(
            unquote(match["file"] or "", errors="surrogateescape"),
            int(match["offset"] or 0),
            gtid_set,
            int(match["event"] or 0),
            int(match["row"] or 0),
        )

    def __str__(self) -> str:
        text = f"{_escape(self.file)}:{self.offset}"
        if self.row_index:
            text += f"/{self.event_index}.{self.row_index}"
        elif self.event_index:
            text += f"/{self.event_index}"
        if self.gtid_set is None:
            return text
        if text == ":0":
            text = ""
        if not self.gtid_set and isinstance(self.gtid_set, MariadbGtidSet):
            return f"{text}@-"
        return f"{text}@{self.gtid_set.compact()}"

    def to_json(self) -> dict[str, object]:
        """Return the position as a JSON object."""
        flavor = None
        if self.gtid_set is not None:
            flavor = "mysql" if isinstance(self.gtid_set, GtidSet) else "mariadb"
        return {
            "version": JSON_VERSION,
            "file": self.file,
            "offset": self.offset,
            "event_index": self.event_index,
            "row_index": self.row_index,
            "gtid_flavor": flavor,
            "gtid_set": None if self.gtid_set is None else self.gtid_set.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the position that :meth:`to_json` encoded, from an object or JSON text.

        Raises:
            PositionFormatError: a member is missing, has another type or an unknown version.
        """
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise PositionFormatError(f"a position is not JSON: {error}") from error
        if not isinstance(value, Mapping):
            raise PositionFormatError(
                f"a position in JSON is an object, not {type(value).__name__}"
            )
        version = value.get("version")
        if version != JSON_VERSION:
            raise PositionFormatError(
                f"position of JSON version {version!r}; this release reads {JSON_VERSION}"
            )
        file, gtids, flavor = value.get("file"), value.get("gtid_set"), value.get("gtid_flavor")
        if not isinstance(file, str):
            raise PositionFormatError(f"file of a position is {file!r}, not a string")
        numbers: list[int] = []
        for name, default in (("offset", None), ("event_index", 0), ("row_index", 0)):
            number = value.get(name, default)
            if not isinstance(number, int) or isinstance(number, bool):
                raise PositionFormatError(f"{name} of a position is {number!r}, not an integer")
            numbers.append(number)
        gtid_set: GtidSet | MariadbGtidSet | None = None
        if gtids is not None:
            if flavor not in ("mysql", "mariadb"):
                raise PositionFormatError(f"gtid_flavor of a position is {flavor!r}")
            try:
                kind = GtidSet if flavor == "mysql" else MariadbGtidSet
                gtid_set = kind.from_json(gtids)
            except GtidFormatError as error:
                raise PositionFormatError(f"gtid_set of a position: {error}") from error
        return cls(file, numbers[0], gtid_set, numbers[1], numbers[2])

    def sort_key(self) -> str:
        """Return a text that sorts as positions of one source do (``_commit_version`` of a batch).

        The file's base name (``binlog.~000000002.`` for ``binlog-2.``), its number in 20 digits, then
        offset, event and row index in 20, 10 and 10 digits.
        """
        base, number = file_order(self.file)
        return (
            f"{_escape(base)}{number:020d}:{self.offset:020d}"
            f"/{self.event_index:010d}.{self.row_index:010d}"
        )

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        if self.file != other.file:
            return self.sort_key() < other.sort_key()
        mine = (self.offset, self.event_index, self.row_index)
        return mine < (other.offset, other.event_index, other.row_index)

    def __le__(self, other: object) -> bool:
        return not other < self if isinstance(other, Position) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return other < self if isinstance(other, Position) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return not self < other if isinstance(other, Position) else NotImplemented


@dataclass(frozen=True, slots=True)
class Difference:
    """The transactions and bytes between two positions.

    Attributes:
        only_first: GTIDs of the first alone, as text; None where they cannot be compared. On MariaDB
            the GTIDs of domains in which the first is further.
        only_second: GTIDs of the second alone.
        bytes_ahead: bytes of binlog by which the second is ahead of the first (negative: behind);
            None where that is not known.
    """

    only_first: str | None
    only_second: str | None
    bytes_ahead: int | None

    @property
    def is_none(self) -> bool:
        """Whether both are the same position."""
        if self.only_first is None:
            return self.bytes_ahead == 0
        return not self.only_first and not self.only_second and self.bytes_ahead in (0, None)


def difference(
    first: Position, second: Position, sizes: Mapping[str, int] | None = None
) -> Difference:
    """Compare two positions of one source.

    Args:
        first: one.
        second: the other.
        sizes: bytes of the source's binlog files, oldest first, where they are known.
    """
    only_first, only_second = _gtids(first, second), _gtids(second, first)
    return Difference(only_first, only_second, _bytes(first, second, sizes or {}))


def _gtids(one: Position, other: Position) -> str | None:
    mine, theirs = one.gtid_set, other.gtid_set
    if isinstance(mine, GtidSet) and isinstance(theirs, GtidSet):
        return (mine - theirs).compact()
    if isinstance(mine, MariadbGtidSet) and isinstance(theirs, MariadbGtidSet):
        reached: dict[int, int] = {}
        for gtid in theirs:
            reached[gtid.domain_id] = max(gtid.sequence, reached.get(gtid.domain_id, 0))
        ahead = [gtid for gtid in mine if gtid.sequence > reached.get(gtid.domain_id, 0)]
        return ",".join(str(gtid) for gtid in ahead)
    return None


def _bytes(first: Position, second: Position, sizes: Mapping[str, int]) -> int | None:
    if not first.file or not second.file:
        return None
    if first.file == second.file:
        return second.offset - first.offset
    if second < first:
        behind = _bytes(second, first, sizes)
        return None if behind is None else -behind
    names = list(sizes)
    if first.file not in sizes or second.file not in sizes:
        return None
    between = names[names.index(first.file) + 1 : names.index(second.file)]
    return sizes[first.file] - first.offset + sum(sizes[name] for name in between) + second.offset
