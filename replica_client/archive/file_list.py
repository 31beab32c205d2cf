"""The binlog files that a ``path`` option means, as they are listed now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position, split_file_name
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import Meaning, TableName, tables_touched
from replica_client.storage.files import FileStatus, has_pattern, matching_files
from replica_client.storage.location import Location, ObjectUrl, location
from replica_client.stream.files.file_names import found_files, in_order, index_files, order_of
from replica_client.stream.transactions.query_text import read_query


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A binlog file in a listing.

    Attributes:
        name: the source's name for the file.
        path: path or URL, as text.
        size: its bytes.
        modified: its modification time, in nanoseconds.
        options: options of its object store.
        e_tag: what its object store calls this content; empty elsewhere.
    """

    name: str
    path: str
    size: int
    modified: int = 0
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    e_tag: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it is a kept file (:mod:`~replica_client.storage.kept_file`), which does not change."""
        return self.modified < 0

    @property
    def where(self) -> Location:
        """The location of the file."""
        return location(self.path, dict(self.options))


def list_files(paths: Sequence[str | Location], *, may_be_empty: bool = False) -> list[ListedFile]:
    """Return all files, in the order of a source's binlog.

    Args:
        paths: files, directories and globs.
        may_be_empty: a directory or glob without files is not an error (a stream waits for them).

    Raises:
        ConfigError: there are no files, or two files have the same name.
    """
    found: dict[str, ListedFile] = {}
    for path in paths:
        for one in _expand(path, may_be_empty):
            where = one.where.absolute() if isinstance(one.where, Path) else one.where
            options = where.options if isinstance(where, ObjectUrl) else ()
            listed = ListedFile(one.name, str(where), one.size, one.modified, options, one.e_tag)
            other = found.setdefault(listed.name, listed)
            if (other.is_kept or listed.is_kept) and other.size == listed.size:
                found[listed.name] = listed if other.is_kept else other
            elif other.path != listed.path:
                raise ConfigError(
                    f"{other.path} and {listed.path} have the same name: files of one source differ in name; "
                    "read other sources in queries of their own"
                )
    for name in index_files(found):
        del found[name]
    return in_order(found.values(), attrgetter("name"))


def _expand(path: str | Location, may_be_empty: bool) -> list[FileStatus]:
    where = location(path)
    try:
        if has_pattern(where) and (isinstance(where, ObjectUrl) or not where.exists()):
            matches = [file for file in matching_files(where) if not file.name.endswith(".index")]
            if not matches and not may_be_empty:
                raise ConfigError(f"{path}: no file matches; check the option path")
            return sorted(matches, key=lambda one: order_of(one.name) or (one.name, 0, 0))
        if not may_be_empty or (isinstance(where, Path) and not where.is_dir()):
            return found_files(where)
        try:
            return found_files(where)
        except ConfigError:
            return []
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None


def from_position(files: Sequence[ListedFile], position: Position) -> list[ListedFile]:
    """Return the files from the file of a position on.

    Raises:
        DataLossError: the position's file is missing, or shorter than the position.
    """
    names = [file.name for file in files]
    if position.file in names:
        at = names.index(position.file)
        size = files[at].size
        if position.offset > size:
            raise DataLossError(
                f"{files[at].path} has {size} bytes, but reading goes on at {position.offset}: the file "
                "was cut or replaced; restore it, or start over at another position"
            )
        return list(files[at:])
    if not names:
        raise DataLossError(f"start {position}: no binlog file is there any more; restore it")
    raise DataLossError(
        f"start {position}: {position.file} is not among the files ({names[0]} … {names[-1]}): the "
        "changes in it would be lost; restore it, or start over at another position"
    )


def check_no_gap(files: Sequence[ListedFile]) -> None:
    """Raise an error if the numbers of the files have a gap.

    Raises:
        DataLossError: a file is missing; the message names the gap.
    """
    for before, after in zip(files, files[1:], strict=False):
        base, number = split_file_name(before.name)
        next_base, next_number = split_file_name(after.name)
        if base == next_base and next_number != number + 1:
            raise DataLossError(
                f"between {before.name} and {after.name} files are missing: their changes would be lost; "
                "restore them, or start over after the gap"
            )


PLAIN_CONTROL: Final = (b"BEGIN", b"COMMIT", b"ROLLBACK")
"""Texts of statements that change no table."""


class ReadStatement(NamedTuple):
    """A parsed statement.

    Attributes:
        text: its text.
        context: its session.
        meaning: its effect.
    """

    text: str
    context: StatementContext
    meaning: Meaning

    @classmethod
    def of(cls, event: BinlogEvent, layout: BinlogFormat) -> ReadStatement:
        """Return the statement of a QUERY event."""
        read = read_query(event, layout)
        return cls(read.text, read.context, read.meaning)

    @property
    def touched(self) -> tuple[tuple[TableName, ...], tuple[str, ...], bool]:
        """The tables and databases that the statement may change, and whether it may change any."""
        return tables_touched(self.meaning)
