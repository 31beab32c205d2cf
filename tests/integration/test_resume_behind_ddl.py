"""A resume inside a transaction that began with a schema change: it is delivered once, as its rows are."""

from __future__ import annotations

import pytest

from replica_client import AssemblyOptions, Position, SchemaChange, Selection, open_binlog
from replica_client.schema.history import STATE_KEY, SchemaHistory


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_create_of_select_in_parts(server, new_database, name: str) -> None:
    source = server(name)
    database = new_database(source)
    session = source.connect()
    session.query(f"CREATE TABLE {database}.s (a INT, t VARCHAR(200)) CHARSET latin1")
    rows = ", ".join(f"({number}, '{'x' * 200}')" for number in range(200))
    session.query(f"INSERT INTO {database}.s VALUES {rows}")
    start = Position(*source.binlog_position())
    session.query(f"CREATE TABLE {database}.t SELECT * FROM {database}.s")
    files = [source.binlog_path(one) for one in source.binlog_files()]
    options = AssemblyOptions(Selection(f"{database}.t"), part_size=1)
    kinds: list[str] = []
    numbers: list[int] = []
    position, state, parts = start, None, 0
    while True:
        history = SchemaHistory(lower_case_names=False)
        reader = open_binlog(
            files,
            start=position,
            schema=history if state is None else SchemaHistory.from_state(state),
            assembly=options,
        )
        part = next(iter(reader.transactions()), None)
        if part is None:
            break
        parts += 1
        for item in part.items:
            if isinstance(item, SchemaChange):
                kinds.append(item.kind)
            else:
                numbers += [change.after["a"] for change in item]
        assert len(part.statements) == (1 if parts == 1 else 0)
        position, state = part.position, reader.state()[STATE_KEY]
    assert parts > 2
    assert kinds == ["create_table"]
    assert numbers == list(range(200))
