"""DuckDB: SQL over the changes of a table, as they are read.

python duckdb_query.py binlog.000024 shop.orders
"""

import sys

import duckdb
import pyarrow as pa

import replica_client as rc

# The last state of each row that the binlog tells of.
QUERY = """
SELECT * EXCLUDE (place) FROM (
    SELECT *, row_number() OVER (
        PARTITION BY id ORDER BY _commit_version DESC, _event_index DESC, _row_index DESC
    ) AS place
    FROM changes WHERE _change_type <> 'update_preimage'
) WHERE place = 1 AND _change_type <> 'delete' ORDER BY id
"""


def latest(source: str, table: str) -> list[tuple[object, ...]]:
    batches = rc.open_binlog(source, tables=[table]).batches()
    first = next(batches)
    # A reader hands batches on one by one: they are not all in memory.
    reader = pa.RecordBatchReader.from_batches(
        first.schema, (b for part in ([first], batches) for b in part)
    )
    connection = duckdb.connect()
    connection.register("changes", reader)
    return connection.sql(QUERY).fetchall()


if __name__ == "__main__":
    for row in latest(sys.argv[1], sys.argv[2]):
        print(row)
