"""Defaults of binary columns that are read from a live source are those that its rows get."""

from collections.abc import Callable

import pytest

from replica_client import Position, open_binlog
from replica_client.cli.schema import load
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import TableModel
from replica_client.sinks.formats.debezium_values import default_value
from tests.servers.local import LocalServer

_COLUMNS = {
    "a": "VARBINARY(20) DEFAULT 0x00ff",
    "b": "BINARY(6) DEFAULT x'6162'",
    "c": "VARBINARY(20) DEFAULT 'abc'",
    "d": "VARBINARY(20) DEFAULT ''",
    "e": "BINARY(3) DEFAULT ''",
    "f": "VARBINARY(9) DEFAULT 0xff80",
    "g": "VARBINARY(20) DEFAULT '0x41'",
    "h": "VARBINARY(10) DEFAULT x'610062'",
    "i": "VARBINARY(2) DEFAULT x'6100'",
    "j": "BINARY(4) DEFAULT x'00610062'",
    "k": "VARBINARY(9) DEFAULT 0x5c30",
    "l": "VARBINARY(9) DEFAULT x'0027'",
    "m": "VARBINARY(9) DEFAULT x'000a60'",
}


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
@pytest.mark.parametrize("way", ["read", "by statement"])
def test_they_are_what_rows_get(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    name: str,
    way: str,
) -> None:
    source = server(name)
    database, start = new_database(source), Position(*source.binlog_position())
    columns = ", ".join(f"{column} {kind}" for column, kind in _COLUMNS.items())
    source.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {columns}) COMMENT 'a `b` \\0 c'"
    )
    source.execute(f"INSERT INTO {database}.t (id) VALUES (1)")
    selected = ", ".join(f"HEX({column})" for column in _COLUMNS)
    wanted = source.query(f"SELECT {selected} FROM {database}.t")[0]
    if way == "read":
        history = load([source.url("root")])
    else:
        reader = open_binlog([source.datadir / start.file], start=start)
        assert list(reader.transactions())
        history = reader.history
    model = history.table((database, "t"))
    assert isinstance(model, TableModel)
    flavor = ServerFlavor.MYSQL if name.startswith("mysql") else ServerFlavor.MARIADB
    shown = {one.name: default_value(one) for one in shape_of(model, flavor).columns}
    assert [shown[column].hex().upper() for column in _COLUMNS] == list(wanted)
