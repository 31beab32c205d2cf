"""Polars: a day's changes of a table, from binlog files; by default yesterday's.

python yesterday.py /var/lib/mysql shop.orders
"""

import sys
from datetime import UTC, datetime, timedelta

import polars as pl

import replica_client as rc


def changes_of(source: str, table: str, day: datetime) -> pl.DataFrame:
    end = day + timedelta(days=1)
    scanned = rc.scan_binlog(source, tables=[table], since=day, until=end, allow_empty=True)
    return pl.DataFrame(scanned[table]) if table in scanned else pl.DataFrame()


if __name__ == "__main__":
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    frame = changes_of(sys.argv[1], sys.argv[2], today - timedelta(days=1))
    if frame.is_empty():
        sys.exit("no changes")
    print(frame.group_by("_change_type").len())
    print(frame)
