"""Checks for names, GTIDs, threads and times that an archive does not have, mostly mistyped."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from replica_client.archive.archive import Archive
from replica_client.archive.question import Question, meets_run
from replica_client.errors import ConfigError
from replica_client.options import remedies
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.stream.position.losses import LOSS_KINDS
from replica_client.stream.transactions.arguments import micros_of, time_text
from replica_client.stream.transactions.assembler import AssemblyOptions


def _hint() -> str:
    return f"; {remedies('empty answer')}"


def check_question(archive: Archive, question: Question) -> None:
    """Raise an error if a question names something that an archive does not have.

    That is a range of times or positions without a transaction, a table that no file and no
    statement has, or GTIDs of which the archive has none.

    Raises:
        ConfigError: the message is one line with the nearest name.
        BinlogDecodeError: a file whose index is made is damaged.
    """
    question.check_positions(archive.files.sizes)
    check_names(archive, question)
    _check_range(archive, question)


def check_names(archive: Archive, question: Question) -> None:
    """Raise an error if an archive does not have a question's table or GTIDs; see :func:`check_question`."""
    _check_tables(archive, question)
    _check_gtids(archive, question)


def check_answer(archive: Archive, question: Question) -> None:
    """Raise an error if no transaction of the archive is of the question's thread.

    Raises:
        ConfigError: the message names the nearest thread.
        BinlogDecodeError: a file is damaged.
    """
    if question.thread is None:
        return
    threads: set[str] = set()
    lenient = AssemblyOptions(Selection(), record_losses=tuple(set(LOSS_KINDS) - {"undecodable"}))
    for transaction in archive.transactions([Question()], lenient):
        if transaction.thread_id == question.thread:
            return
        if transaction.thread_id is not None:
            threads.add(str(transaction.thread_id))
    if not threads:
        raise ConfigError(
            f"thread {question.thread}: the binlog does not say which connection made a row change (MariaDB before "
            f"11.5 says it of statements only){_hint()}"
        )
    hint = did_you_mean(str(question.thread), threads)
    raise ConfigError(
        f"thread {question.thread}: no transaction of the archive is of it; {hint}{_hint()}"
    )


def check_table(archive: Archive, table: TableName, hint: str | None = None) -> None:
    """Raise an error if a table is not in an archive; see :func:`check_question`."""
    known = {name for name in known_tables(archive) if name[1]}
    if table not in known:
        name = ".".join(table)
        raise ConfigError(
            f"no table {name} in the archive; {_nearest(name, known)}{_hint() if hint is None else hint}"
        )


def known_tables(archive: Archive) -> Iterator[TableName]:
    """Yield all tables that have rows in an archive, or that its statements or schema name."""
    for file in archive.files:
        for table in file.index.tables:
            yield table.database, table.name
    for change in archive.files.schema_changes():
        yield change.database, change.table
        yield change.name_after
    yield from archive.files.history_now().known_tables()


def _check_tables(archive: Archive, question: Question) -> None:
    if question.patterns is None:
        return
    known = {name for name in known_tables(archive) if name[1]}
    for pattern in question.patterns:
        selection = Selection([pattern])
        if not any(selection.wants(*name) for name in known):
            raise ConfigError(
                f"no table {pattern} in the archive; {_nearest(pattern, known)}{_hint()}"
            )


def _nearest(name: str, known: set[TableName]) -> str:
    return did_you_mean(name, (".".join(one) for one in known)) or "there are none"


def _check_gtids(archive: Archive, question: Question) -> None:
    wanted = question.gtid
    if wanted is None:
        return
    if not wanted:
        raise ConfigError(
            "gtid: a server's UUID alone names no transaction; add its numbers, for example UUID:1-5"
        )
    origins: set[str] = set()
    for file in archive.files:
        for block in file.index.blocks:
            for run in block.gtids:
                if meets_run(wanted, run):
                    return
                sid, low, high = run
                dashed = f"{sid[:8]}-{sid[8:12]}-{sid[12:16]}-{sid[16:20]}-{sid[20:]}:{low}-{high}"
                origins.add(sid if ":" in sid else f"{sid}-{high}" if "-" in sid else dashed)
    hint = did_you_mean(wanted.compact(), origins) or "it has no GTIDs"
    raise ConfigError(
        f"gtid {wanted.compact()[:200]}: no such transaction in the archive; {hint}{_hint()}"
    )


def _check_range(archive: Archive, question: Question) -> None:
    """Raise an error if the archive has no transaction between the times, positions or GTIDs."""
    since, until = question.since, question.until
    first = last = 0
    begin: Position | None = None
    for file in archive.files:
        for block in file.index.blocks:
            begin = begin or Position(file.listed.name, block.start)
            if block.last_time:
                first = min(first or block.first_time, block.first_time)
                last = max(last, block.last_time)
    if isinstance(since, datetime.datetime) and last and micros_of(since) > last:
        raise ConfigError(
            f"since {time_text(micros_of(since))}: the last transaction of the archive is of {time_text(last)}{_hint()}"
        )
    if isinstance(until, datetime.datetime) and first and micros_of(until) <= first:
        raise ConfigError(
            f"until {time_text(micros_of(until))}: the first transaction of the archive is of {time_text(first)}"
            f"{_hint()}"
        )
    if begin and isinstance(until, Position) and until.file and until <= begin:
        raise ConfigError(
            f"until {until}: the first transaction of the archive begins at {begin}{_hint()}"
        )
    for option, one in (("since", since), ("until", until)):
        if isinstance(one, Position) and not one.file and isinstance(one.gtid_set, GtidSet):
            _check_known(archive, one.gtid_set, option)


def _check_known(archive: Archive, wanted: GtidSet, option: str) -> None:
    """Raise an error if the archive does not know the servers of a GTID set."""
    known = GtidSet.parse("")
    for file in archive.files:
        before = file.index.facts.gtids_before(file.listed.name, archive.files.decode)
        if isinstance(before, GtidSet):
            known = known | before
        for block in file.index.blocks:
            if any(meets_run(wanted, run) for run in block.gtids):
                return
    if known.isdisjoint(wanted) and wanted:
        raise ConfigError(
            f"{option} {wanted.compact()[:200]}: the archive has none of these transactions{_hint()}"
        )


__all__ = ["check_answer", "check_names", "check_question", "check_table", "known_tables"]
