"""The volume of a part of an archive by table, hour, minute and thread, from the files."""

from __future__ import annotations

from replica_client.archive.archive import Archive
from replica_client.archive.logged_statements import find_statements
from replica_client.archive.question import Question
from replica_client.archive.statistics import (
    ArchiveStatistics,
    LoggedStatement,
    TableVolume,
    TransactionVolume,
    keep_notable,
)
from replica_client.rows.selection import Selection


def statistics_between(archive: Archive, question: Question) -> ArchiveStatistics:
    """Return the statistics of a question's tables and transactions, from its parts of the files.

    Times of rows are commit times here. Gaps are not looked for.

    Raises:
        BinlogDecodeError: a file is damaged.
    """
    found, selection = ArchiveStatistics(), Selection(question.patterns)
    notable: list[TransactionVolume] = []
    files: dict[str, int] = {}
    for transaction in archive.transactions([question]):
        if not question.takes_transaction(transaction):
            continue
        time, start = transaction.commit_us, transaction.start
        thread = "" if transaction.thread_id is None else str(transaction.thread_id)
        whole = TableVolume()
        for rows in transaction.rows:
            table = rows.shape
            if not selection.wants(table.database, table.table):
                continue
            count = rows.count()
            inserted, updated, deleted = (
                count * (rows.kind == kind) for kind in ("insert", "update", "delete")
            )
            size = rows.event.header.event_size
            name = f"{table.database}.{table.table}"
            hours = found.hours.setdefault(time // 3_600_000_000, {})
            minutes = found.minutes.setdefault(time // 60_000_000, {})
            for volumes, key in (
                (found.tables, name),
                (hours, name),
                (minutes, name),
                (found.threads, thread),
            ):
                volumes.setdefault(key, TableVolume()).add(inserted, updated, deleted, size)
            whole.add(inserted, updated, deleted, size)
        if whole.rows:
            files[start.file] = 0
            found.first_time = min(time, found.first_time or time)
            found.last_time = max(time, found.last_time)
            seconds = max(0, time // 1_000_000 - transaction.rows[0].timestamp)
            notable.append(
                TransactionVolume(start.file, start.offset, whole.size, whole.rows, seconds, time)
            )
            if len(notable) > 1000:
                keep_notable(found, notable)
                notable = [*found.largest, *found.most_rows, *found.longest]
    keep_notable(found, notable)
    found.files = len(files)
    found.size = sum(one.size for one in found.tables.values())
    found.tables = dict(sorted(found.tables.items(), key=lambda one: -one[1].size))
    found.threads = dict(sorted(found.threads.items(), key=lambda one: -one[1].size))
    found.statements = [
        LoggedStatement(
            one.transaction.start.file,
            one.position,
            one.transaction.commit_us,
            one.database,
            one.text,
        )
        for one in find_statements(archive, question)
    ]
    return found
