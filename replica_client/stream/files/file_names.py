"""Names of binlog files: their order, the files next to them, and which of a directory belong together."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from replica_client.errors import ConfigError
from replica_client.storage.files import (
    FileStatus,
    file_or_none,
    files_in,
    has_pattern,
    matching_files,
)
from replica_client.storage.kept_file import ENCRYPTED_SUFFIX
from replica_client.storage.location import Location

INDEX_SUFFIX = ".rcindex"
"""Suffix of our own index of a binlog file."""
_BESIDE = (
    INDEX_SUFFIX,
    INDEX_SUFFIX + ENCRYPTED_SUFFIX,
    ".idx",
)  # .idx: MariaDB >= 11.4, GTIDs of the file without the suffix
_BINLOG_NAME = re.compile(r"(?P<base>.+?)(?:-(?P<epoch>[0-9]{1,9}))?\.(?P<number>[0-9]{3,18})")
_INNODB_NAME = re.compile(r"(?P<base>.+)-(?P<number>[0-9]{6,18})\.ibb")
T = TypeVar("T")


def order_of(name: str) -> tuple[str, int, int] | None:
    """Return base name, epoch and number of a binlog file; None for another name.

    The relay's files of its second source are ``binlog-2.000001`` …: they come after those of the
    first source.
    """
    match = _BINLOG_NAME.fullmatch(name)
    if match is None:
        innodb = _INNODB_NAME.fullmatch(name)
        return None if innodb is None else (innodb["base"] + ".ibb", 0, int(innodb["number"]))
    return match["base"], int(match["epoch"] or 0), int(match["number"])


def in_order(files: Iterable[T], name_of: Callable[[T], str]) -> list[T]:
    """Sort files by number if their names differ only there; other files keep their places."""
    first_at: dict[str, int] = {}
    keys: list[tuple[int, int, int]] = []
    found = list(files)
    for at, file in enumerate(found):
        order = order_of(name_of(file))
        base, epoch, number = (f"\0{at}", 0, 0) if order is None else order
        keys.append((first_at.setdefault(base, at), epoch, number))
    return [found[at] for at in sorted(range(len(found)), key=keys.__getitem__)]


def index_files(names: Collection[str]) -> set[str]:
    """Return which of these names belong to index files of the others, and are no binlogs."""
    return {
        name
        for name in names
        if (name.endswith(".index") and len(names) > 1)
        or any(name.endswith(end) and name.removesuffix(end) in names for end in _BESIDE)
    }


def found_files(where: Location) -> list[FileStatus]:
    """Return the binlog files of a path or URL by number; see :func:`binlog_files`.

    Raises:
        ConfigError: nothing is found.
        OSError: the files cannot be listed.
        StorageError: an object store refuses, or cannot be reached.
    """
    one = file_or_none(where)
    if one is not None:
        return [one]
    found = files_in(where)
    missing = "in this directory"
    if found is None and has_pattern(where):
        found, missing = matching_files(where), "matches"
    if found is None:
        raise ConfigError(f"{where}: no such file; give the path of a binlog or a directory")
    found = [one for one in of_one_server(found) if order_of(one.name) is not None]
    if not found:
        raise ConfigError(f"{where}: no binlog file (name.NNNNNN) {missing}; name the files")
    return sorted(without_twins(found), key=lambda one: order_of(one.name) or (one.name, 0, 0))


def without_twins(found: Iterable[FileStatus]) -> list[FileStatus]:
    """Return files without kept ones whose plain file is next to them: a backup was about to remove it."""
    files = list(found)
    plain = {(str(one.where), one.size) for one in files if one.modified >= 0}
    return [
        one
        for one in files
        if one.modified >= 0 or (str(one.where.parent / one.name), one.size) not in plain
    ]


def of_one_server(found: Sequence[FileStatus]) -> Sequence[FileStatus]:
    """Return the files of the binlog whose index file (``binlog.index``) is in their directory, if one is.

    A server's data directory has other files of such names: Aria's logs, and logs of a replica.
    """
    bases = {name.removesuffix(".index") for one in found if (name := one.name).endswith(".index")}
    orders = [order_of(one.name) for one in found]
    bases &= {order[0] for order in orders if order is not None}
    bases = {one for one in bases if "relay" not in one} or bases
    if not bases:
        return found
    return [
        one
        for one, order in zip(found, orders, strict=True)
        if order is not None and order[0].removesuffix(".ibb") in bases
    ]
