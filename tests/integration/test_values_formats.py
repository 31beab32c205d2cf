"""Values that a server writes only when it is told to at its start."""

from collections.abc import Callable

import pytest

from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import ColumnDefinition, TableShape
from tests.integration.values_log import logged_events
from tests.servers.server import Server

OLD = ("time", "time(3)", "time(6)", "datetime", "datetime(1)", "datetime(6)")
OLD += ("timestamp", "timestamp(2)", "timestamp(6)")
ROWS = (
    ("-01:02:03.456789",) * 3 + ("2024-02-29 01:02:03.456789",) * 6,
    ("838:59:59.999999",) * 3 + ("9999-12-31 23:59:59.999999",) * 3 + ("2038-01-19 03:14:07",) * 3,
    ("-838:59:59.999999",) * 3 + ("2024-00-00 00:00:00",) * 3 + ("0000-00-00 00:00:00",) * 3,
    ("00:00:00.000001",) * 3 + ("0000-00-00 00:00:00",) * 3 + ("1970-01-01 00:00:01",) * 3,
    (None,) * 9,
)


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_mariadb_before_10_1_temporals(name: str, fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(name, ["mysql56-temporal-format=OFF"])
    database = server.create_database("old_temporals")
    columns = ", ".join(f"c{at} {kind} NULL" for at, kind in enumerate(OLD))
    with server.connected(conv={}) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00', binlog_format = ROW")
        cursor.execute(f"CREATE TABLE {database}.t ({columns})")
        start = server.binlog_position()
        for row in ROWS:
            values = ", ".join("NULL" if value is None else f"'{value}'" for value in row)
            cursor.execute(f"INSERT INTO {database}.t VALUES ({values})")
        cursor.execute(f"SELECT * FROM {database}.t")
        expected = [tuple(row) for row in cursor.fetchall()]
    digits = [int(kind[-2]) if kind.endswith(")") else 0 for kind in OLD]
    definitions = [ColumnDefinition(f"c{at}", fraction_digits=n) for at, n in enumerate(digits)]
    decoded = []
    for event, decoder in logged_events(server, start):
        if isinstance(event.body, RowsEvent):
            shape = TableShape.from_table_map(decoder.table_map(event.body.table_id))
            shape = shape.resolved_with(definitions)
            decoded += [row for _, row in RowImageDecoder(shape).iter_event(event)]
    assert [tuple(None if v is None else str(v) for v in row) for row in decoded] == expected
    assert len(decoded) == len(ROWS)
