"""The place where a backup continues at a source, and the check that it is the same source."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replica_client.archive.backup.backup_catalog import (
    Catalog,
    SourceIdentity,
    file_number,
    series_of,
)
from replica_client.archive.backup.local_copy import LocalCopy
from replica_client.errors import (
    AccessDeniedError,
    BackupGapError,
    BackupMismatchError,
    ServerError,
)
from replica_client.protocol.binlog.encryption import ENCRYPTION_HEADER_SIZE
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.dump_commands import MAX_POSITION
from replica_client.stream.transport.connection import SourceConnection

_REMEDY: Final = "nothing was overwritten: start over in an empty directory"


@dataclass(frozen=True, slots=True)
class Resume:
    """The place where a backup continues.

    Attributes:
        file: the file to ask for; ``""`` for the source's first.
        position: of the first event to send: the last event of the copy, so that it can be compared.
        behind: bytes that the source has and the backup has not; None when not known.
        cut: where the newest file is to be cut first; None: nowhere.
        gap: what the source has purged before the file; empty: nothing.
    """

    file: str
    position: int
    behind: int | None
    cut: int | None = None
    gap: str = ""


async def find_resume(
    connection: SourceConnection,
    catalog: Catalog,
    copy: LocalCopy | None,
    *,
    max_position: int = MAX_POSITION,
    after_gap: bool = False,
) -> Resume:
    """Compare a backup with the files that a source lists, and return where it continues.

    Beyond ``max_position`` the protocol cannot ask for an event: the file is sent from its start
    and compared with the copy. With ``after_gap``, files that the source has purged are left out.

    Raises:
        BackupGapError: the source no longer has the next events.
        BackupMismatchError: it is another source.
    """
    _check_identity(connection, catalog)
    listed = await _listed(connection)
    if copy is None:
        return Resume("", FIRST_EVENT, None if listed is None else sum(listed.values()))
    record = copy.record
    position = (
        copy.last_position if FIRST_EVENT < copy.last_position <= max_position else FIRST_EVENT
    )
    if listed is None:
        return Resume(record.name, position, None)
    if record.name in listed:
        _check_sizes(catalog, listed)
        size = listed[record.name]
        if size < copy.size and _was_left(connection, listed, record.name, size, copy):
            return Resume(record.name, FIRST_EVENT, _behind(listed, record.name) - size, cut=size)
        if size < copy.size:
            raise BackupMismatchError(
                f"{record.name} has {listed[record.name]} bytes at the source and {copy.size} in the "
                "backup: the source was reset, is another server, or lost its newest events in a crash; "
                f"{_REMEDY}"
            )
        return Resume(record.name, position, _behind(listed, record.name) - copy.size)
    follows = record.next_file
    if record.finished and follows is not None and follows in listed:
        return Resume(follows, FIRST_EVENT, _behind(listed, follows))
    purged = _purged(catalog, copy, listed)
    if purged and after_gap:
        oldest = next(iter(listed))
        return Resume(oldest, FIRST_EVENT, _behind(listed, oldest), gap=purged)
    raise (
        BackupGapError(f"{purged}; {_REMEDY}, or go on after the gap (--after-gap)")
        if purged
        else _gap(catalog, copy, listed)
    )


def unknown_file(error: ServerError, copy: LocalCopy | None) -> BackupGapError:
    """Return the error for a source that does not list its files and lacks the needed one."""
    where = "" if copy is None else f" (the backup ends at {copy.record.name}:{copy.size})"
    return BackupGapError(
        f"the source no longer has the next events{where}: {error.message}; {_REMEDY}"
    )


def _check_identity(connection: SourceConnection, catalog: Catalog) -> None:
    server, known = connection.server, catalog.source
    found = SourceIdentity(
        str(server.flavor), server.version_text, server.server_uuid, server.server_id
    )
    # A relay of a MariaDB source says its own UUID; older ones did not.
    relay = connection.server.is_relay and not known.server_uuid
    other = known.flavor != found.flavor or (known.server_uuid != found.server_uuid and not relay)
    if known.flavor and other:
        raise BackupMismatchError(
            f"the backup in {catalog.directory} is of {known.flavor} {known.server_uuid or known.version}, "
            f"{connection.options.address} is {found.flavor} {found.server_uuid or found.version}; {_REMEDY}"
        )
    catalog.source = replace(found)


async def _listed(connection: SourceConnection) -> dict[str, int] | None:
    try:
        return dict(await connection.binary_logs())
    except AccessDeniedError:
        return None


def _check_sizes(catalog: Catalog, listed: dict[str, int]) -> None:
    """Finished files that both have are of one size, or this is another source."""
    for record in catalog.files:
        size = listed.get(record.name)
        # MySQL's encrypted files have a header that is not sent.
        if record.finished and size not in (
            None,
            record.size,
            record.size + ENCRYPTION_HEADER_SIZE,
        ):
            raise BackupMismatchError(
                f"{record.name} has {size} bytes at the source and {record.size} in the backup in "
                f"{catalog.directory}: the source was reset, or is another server; {_REMEDY}"
            )


def _was_left(
    connection: SourceConnection, listed: dict[str, int], name: str, size: int, copy: LocalCopy
) -> bool:
    """Return whether a relay left a file after its last transaction and continued with another server."""
    names = list(listed)
    newer = names[names.index(name) + 1 :]
    return (
        connection.server.is_relay
        and bool(newer)
        and series_of(newer[0]) > series_of(name)
        and not copy.record.finished
        and size >= FIRST_EVENT
    )


def _behind(listed: dict[str, int], first: str) -> int:
    names = list(listed)
    return sum(listed[name] for name in names[names.index(first) :])


def _purged(catalog: Catalog, copy: LocalCopy, listed: dict[str, int]) -> str:
    """Say which files the source has purged that the backup lacks; empty if it has purged none."""
    record = copy.record
    wanted = record.number + 1 if record.finished else record.number
    oldest = next(iter(listed), "")
    lost = _number(oldest) - wanted if oldest else 0
    if lost <= 0:
        return ""
    first = record.next_file if record.finished else record.name
    return (
        f"the source has purged {lost} {'file' if lost == 1 else 'files'}, from "
        f"{first or f'the one after {record.name}'} up to the one before {oldest}, that the backup "
        f"in {catalog.directory} lacks: it ends at {record.name}:{copy.size}"
    )


def _gap(catalog: Catalog, copy: LocalCopy, listed: dict[str, int]) -> BackupGapError:
    record = copy.record
    reached = f"{record.name}:{copy.size}"
    names = list(listed)
    if not names:
        return BackupGapError(f"the source has no binlog files, the backup ends at {reached}")
    oldest, newest = names[0], names[-1]
    return BackupGapError(
        f"the source has files {oldest} to {newest}, but not {record.name}, at which the backup in "
        f"{catalog.directory} ends ({reached}): the source was reset, or names its files otherwise now; "
        f"{_REMEDY}"
    )


def _number(name: str) -> int:
    try:
        return file_number(name)
    except ValueError:
        return 0
