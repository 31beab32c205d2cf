"""Audit a directory of binlog files: who changed which rows of a table, and with which statement.

    python audit.py /backup/db1 shop.orders 2026-11-20

The statement is there if the source has binlog_rows_query_log_events = ON (MariaDB: binlog_annotate_row_events).
"""

import csv
import sys

import replica_client as rc


def audit(source: str, table: str, since: str | None = None) -> list[list[object]]:
    archive = rc.open_archive(source)
    rows: list[list[object]] = []
    for found in archive.find(table, since=since):
        change = found.change
        who = [found.commit_time, found.thread_id, change.gtid, found.statement]
        rows.append([*who, change.kind, change.key, change.before, change.after])
    return rows


if __name__ == "__main__":
    writer = csv.writer(sys.stdout)
    writer.writerow(["time", "thread", "gtid", "statement", "kind", "key", "before", "after"])
    writer.writerows(audit(*sys.argv[1:]))
