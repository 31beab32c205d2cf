"""Moments of an archive: the place of a position, a GTID or a time between two transactions."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Final, Literal
from uuid import UUID

from replica_client.archive.archive import Archive, When
from replica_client.archive.binlog_archive import IndexedFile
from replica_client.archive.index_format import IndexedBlock
from replica_client.archive.question import has_gtid, is_behind
from replica_client.errors import ConfigError
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.stream.files.binlog_file import BinlogFileReader
from replica_client.stream.position.losses import LOSS_KINDS
from replica_client.stream.transactions.arguments import micros_of, parse_start, time_text
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.transaction import Transaction

_ALL: Final = AssemblyOptions(
    Selection(), record_losses=tuple(set(LOSS_KINDS) - {"undecodable", "incomplete_row"})
)

Share = Literal["all", "some", "none"]


def moment_of(archive: Archive, when: When, option: str = "at") -> Position:
    """Return the position between two transactions that a moment stands for.

    A position stands for itself. One GTID is the moment after its transaction. A GTID set is the
    moment at which all of its transactions, and no others of the archive, were committed. A time is
    the moment before the first transaction that was committed then or later. ``latest`` is the end
    of the archive.

    Args:
        archive: the archive.
        when: the moment.
        option: name of the option that has the moment, for messages.

    Raises:
        ConfigError: the moment is not in the archive; the message says why.
    """
    start = parse_start(when, "latest", option)
    if start == "latest":
        return end_of(archive)
    if start == "earliest":
        first = archive.files.listed[0]
        return Position(first.name, 4)
    if isinstance(start, datetime.datetime):
        return _at_time(archive, start, option)
    if start.file:
        return _at_position(archive, start, option)
    assert start.gtid_set is not None
    return _at_gtids(archive, start.gtid_set, option)


def moment_by_reading(
    archive: Archive, when: When, found: Position, option: str = "at"
) -> tuple[Position, bool]:
    """Find a moment by reading every transaction, and without an index.

    Args:
        archive: the archive.
        when: the moment.
        found: the position that :func:`moment_of` returns for it.
        option: name of the option that has the moment, for messages.

    Returns:
        the position, and whether the same transactions are before ``found``.

    Raises:
        ConfigError: the moment is not in the archive.
        BinlogDecodeError: a file is damaged.
    """
    start = parse_start(when, "latest", option)
    files = archive.files.binlog_files
    reader = BinlogFileReader(files, _ALL, archive.files.decode, "earliest", "latest")
    reached = Position(files[0].name, 4)
    count = before = seen = 0
    is_passed = start == "earliest"
    for one in reader.transactions():
        if not one.complete:
            continue
        if isinstance(start, datetime.datetime) and one.commit_us >= micros_of(start):
            is_passed = True
        if isinstance(start, Position) and start.file and one.start >= start:
            is_passed = True
        seen += 1
        before += one.position <= Position(found.file, found.offset)
        if is_passed:
            if before < seen:
                break
            continue
        if isinstance(start, Position) and not start.file:
            wanted = start.gtid_set
            assert wanted is not None
            is_one = (wanted.count if isinstance(wanted, GtidSet) else len(list(wanted))) == 1
            if not (has_gtid(wanted, one.gtid) if is_one else is_behind(wanted, one.gtid)):
                continue
        reached, count = Position(one.position.file, one.position.offset), seen
    return reached, count == before


def end_of(archive: Archive) -> Position:
    """Return the position after the last complete transaction of an archive."""
    last = archive.index()[-1]
    return Position(last.listed.name, archive.files.end_of(last))


def transaction_with(archive: Archive, position: Position) -> tuple[Position, Position]:
    """Return where the transaction of an event begins and ends.

    Args:
        archive: the archive.
        position: the position of the event.

    Raises:
        ConfigError: no transaction of the archive has the event.
    """
    for file in archive.files:
        if file.listed.name != position.file:
            continue
        for block in file.index.blocks:
            if block.start <= position.offset < block.end:
                behind = Position(file.listed.name, block.start)
                for one in _transactions(archive, file, block):
                    end = Position(one.position.file, one.position.offset)
                    if behind.offset <= position.offset < end.offset:
                        return behind, end
                    behind = end
    raise ConfigError(f"{position}: no transaction of the archive has this event")


def _transactions(
    archive: Archive, file: IndexedFile, block: IndexedBlock
) -> Iterator[Transaction]:
    """Yield the transactions of a block; of a transaction that comes in parts, the last part."""
    name = file.listed.name
    found = archive.between(Position(name, block.start), Position(name, block.end), _ALL)
    return (one for one in found if one.complete)


def _at_position(archive: Archive, wanted: Position, option: str) -> Position:
    here = Position(wanted.file, wanted.offset)
    names = [one.name for one in archive.files.listed]
    if here.file not in names:
        raise ConfigError(
            f"{option} {here}: {here.file} is not among the files ({names[0]} … {names[-1]})"
        )
    for file in archive.files:
        if file.listed.name != here.file:
            continue
        reached = archive.files.end_of(file)
        if here.offset > reached:
            raise ConfigError(
                f"{option} {here}: the last whole transaction of {here.file} ends at {reached}"
            )
        for block in file.index.blocks:
            if here.offset in (block.start, block.end):
                return here
            if block.start < here.offset < block.end:
                for one in _transactions(archive, file, block):
                    start, end = one.start.offset, one.position.offset
                    if here.offset <= start:
                        return Position(here.file, start)  # events between belong to no transaction
                    if here.offset < end:
                        raise ConfigError(
                            f"{option} {here} is inside a transaction; give the position before it, {here.file}:{start}"
                            f", or after it, {here.file}:{end}"
                        )
    return here


def _at_time(archive: Archive, wanted: datetime.datetime, option: str) -> Position:
    micros = micros_of(wanted)
    first = last = 0
    for file in archive.files:
        for block in file.index.blocks:
            first = first or block.first_time
            last = max(last, block.last_time)
            if block.last_time and block.last_time < micros:
                continue
            start = Position(file.listed.name, block.start)
            if first > micros:
                break
            for one in _transactions(archive, file, block):
                if one.commit_us >= micros:
                    return start
                start = Position(one.position.file, one.position.offset)
    if first > micros:
        raise ConfigError(f"{option} {time_text(micros)}: the archive begins {time_text(first)}")
    raise ConfigError(
        f"{option} {time_text(micros)}: the last transaction of the archive is of {time_text(last)}; later "
        "transactions are unknown; give latest for its end"
    )


def _at_gtids(archive: Archive, wanted: GtidSet | MariadbGtidSet, option: str) -> Position:
    is_one = (wanted.count if isinstance(wanted, GtidSet) else len(list(wanted))) == 1
    has: Callable[[str], bool]
    if is_one:
        has = lambda gtid: has_gtid(wanted, gtid)  # noqa: E731
    else:
        has = lambda gtid: is_behind(wanted, gtid)  # noqa: E731
    found: Position | None = None
    other: tuple[str, Position] | None = None
    for file in archive.files:
        for block in file.index.blocks:
            shares = {_share(wanted, run, is_one) for run in block.gtids}
            here = Position(file.listed.name, block.end)
            if shares == {"all"} and not is_one:
                _refuse(other, wanted, option)
                found = here
            elif shares - {"none"} or block.must_read:
                for one in _transactions(archive, file, block):
                    if not one.gtid:
                        continue
                    start, end = one.start, Position(one.position.file, one.position.offset)
                    if has(one.gtid):
                        if not is_one:
                            _refuse(other, wanted, option)
                        found = end
                    elif found is None or other is None:
                        other = (one.gtid, start)
            elif block.gtids and other is None:
                sid, low, _ = block.gtids[0]
                other = (f"{sid}:{low}", Position(file.listed.name, block.start))
    if found is None:
        raise ConfigError(f"{option} {wanted.compact()}: no such transaction in the archive")
    return found


def _refuse(
    other: tuple[str, Position] | None, wanted: GtidSet | MariadbGtidSet, option: str
) -> None:
    if other is not None:
        raise ConfigError(
            f"{option} {wanted.compact()}: transaction {other[0]} at {other[1]} was committed before some of these and "
            "is not one of them, so that the server never had this state; give one GTID, or a position"
        )


def _share(wanted: GtidSet | MariadbGtidSet, run: tuple[str, int, int], is_one: bool) -> Share:
    """Return whether all, some or none of the GTIDs of a run are in the wanted set."""
    sid, low, high = run
    if isinstance(wanted, MariadbGtidSet):
        domain, _, server = sid.partition("-")
        if is_one:
            (one,) = wanted
            same = (str(one.domain_id), str(one.server_id)) == (domain, server)
            return "some" if same and low <= one.sequence <= high else "none"
        ends = [is_behind(wanted, f"{sid}-{number}") for number in (low, high)]
        return "all" if all(ends) else "some" if any(ends) else "none"
    if ":" in sid:
        return "all" if Gtid.parse(sid) in wanted else "none"
    if "-" in sid:
        return "none"
    found = parse_gtid_set(f"{UUID(sid)}:{low}-{high}")
    assert isinstance(found, GtidSet)
    if found.isdisjoint(wanted):
        return "none"
    return "all" if found.issubset(wanted) else "some"
