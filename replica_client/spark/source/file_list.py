"""The binlog files that a ``path`` option means, at the moment of asking."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replica_client.errors import ConfigError, DataLossError
from replica_client.position.position import Position, split_file_name
from replica_client.readers.file_bytes import binlog_files


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file.

    Attributes:
        name: as the source calls it.
        path: where it is.
        size: its bytes.
        modified: time of its last change, in nanoseconds.
    """

    name: str
    path: str
    size: int
    modified: int = 0


def list_files(paths: Sequence[str], *, may_be_empty: bool = False) -> list[ListedFile]:
    """All files, in the order of a source's binlog.

    Args:
        paths: files, directories and globs.
        may_be_empty: a directory or glob without files is not an error (a stream waits for them).

    Raises:
        ConfigError: nothing is there, or two files have one name.
    """
    found: dict[str, str] = {}
    for path in paths:
        for one in _expand(path, may_be_empty):
            other = found.setdefault(one.name, os.path.abspath(one))
            if other != os.path.abspath(one):
                raise ConfigError(
                    f"{other} and {one} have the same name: files of one source differ in name; "
                    "read other sources in queries of their own"
                )
    listed = []
    for name, full in found.items():
        try:
            found_there = os.stat(full)
            listed.append(ListedFile(name, full, found_there.st_size, found_there.st_mtime_ns))
        except OSError as error:
            raise ConfigError(f"{full}: {error.strerror or error}") from None
    return sorted(listed, key=lambda file: split_file_name(file.name))


def _expand(path: str, may_be_empty: bool) -> list[Path]:
    if glob.has_magic(path) and not os.path.exists(path):
        matches = [Path(match) for match in glob.glob(path) if not match.endswith(".index")]
        matches = [match for match in matches if match.is_file()]
        if not matches and not may_be_empty:
            raise ConfigError(f"{path}: no file matches; check the option path")
        return matches
    if may_be_empty and os.path.isdir(path):
        try:
            files = binlog_files(path)
        except ConfigError:
            return []
    else:
        files = binlog_files(path)
    return [file.path for file in files if file.path is not None]


def from_position(files: Sequence[ListedFile], position: Position) -> list[ListedFile]:
    """The files from a position's on.

    Raises:
        DataLossError: the position's file is gone, and with it changes that were not read.
        ConfigError: no such file, and none after it either.
    """
    names = [file.name for file in files]
    if position.file in names:
        at = names.index(position.file)
        size = files[at].size
        if position.offset > size:
            raise DataLossError(
                f"{files[at].path} has {size} bytes, but reading goes on at {position.offset}: the file "
                "was cut or replaced; restore it, or start anew at another position"
            )
        return list(files[at:])
    if not names:
        raise DataLossError(f"start {position}: no binlog file is there any more; restore it")
    raise DataLossError(
        f"start {position}: {position.file} is not among the files ({names[0]} … {names[-1]}): the "
        "changes in it would be lost; restore it, or start anew at another position"
    )


def check_no_gap(files: Sequence[ListedFile]) -> None:
    """Refuse files whose numbers leave one out.

    Raises:
        DataLossError: naming the gap.
    """
    for before, after in zip(files, files[1:], strict=False):
        base, number = split_file_name(before.name)
        next_base, next_number = split_file_name(after.name)
        if base == next_base and next_number != number + 1:
            raise DataLossError(
                f"between {before.name} and {after.name} files are missing: their changes would be lost; "
                "restore them, or start anew behind the gap"
            )
