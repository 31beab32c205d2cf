"""What readers know of tables, against the server's own word: forms of DDL and session settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import ReplicaClientError
from replica_client.rows.selection import Selection
from replica_client.schema.history import LogPosition, SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.definition_forms import (
    Form,
    Probe,
    Row,
    compare,
    forms_of,
    make,
    probes,
    tables_of,
)
from tests.integration.definition_list import FORMS
from tests.servers.local import LocalServer

_QUICK = ("sync-binlog=0", "innodb-flush-log-at-trx-commit=0")
_OPTIONS = {
    # Of old sources, and those whose CREATE TABLE … SELECT is no transaction.
    "mysql-9.7": ("binlog-row-metadata=MINIMAL", "gtid-mode=OFF", "enforce-gtid-consistency=OFF"),
    "mysql-5.6": ("gtid-mode=OFF", "enforce-gtid-consistency=OFF"),
    "mariadb-10.11": ("binlog-row-metadata=MINIMAL",),
    "mariadb-11.8": ("binlog-row-metadata=NO_LOG",),
}


def _inserted(
    paths: list[Path], start: rc.Position, database: str, history: SchemaHistory | None
) -> tuple[list[Row], SchemaHistory]:
    selection = AssemblyOptions(Selection(f"{database}.*"), on_unknown_table="error")
    reader = rc.open_binlog(paths, start=start, schema=history, assembly=selection)
    rows = [
        Row(change.table, change.after.as_dict())
        for transaction in reader.transactions()
        for change in transaction.changes
        if change.kind == "insert"
    ]
    return rows, reader.history


def _definitions(
    stated: SchemaHistory, made: SchemaHistory, database: str, tables: list[str]
) -> list[str]:
    """What the live source tells otherwise than the DDL of the file."""
    found = []
    for name in tables:
        live, file = stated.table((database, name)), made.table((database, name))
        if not isinstance(live, TableModel) or not isinstance(file, TableModel):
            found.append(f"{name}: {live} live, {file} in the file")
            continue
        columns = [
            replace(one, nullable=None) if other.nullable is None else one
            for one, other in zip(live.columns, file.columns, strict=False)
        ]
        if (
            tuple(columns) != file.columns
            or len(live.columns) != len(file.columns)
            or live.primary_key != file.primary_key
        ):
            found.append(f"{live} {live.primary_key} live, {file} {file.primary_key} in the file")
    return found


async def _problems(server: LocalServer, form: Form, database: str) -> list[str]:
    server.rotate()
    start = rc.Position(*server.binlog_position())
    server.execute(f"CREATE DATABASE `{database}` CHARACTER SET utf8mb4")
    make(server, database, form)
    middle = rc.Position(*server.binlog_position())
    wanted: list[Probe] = probes(server, database, form)
    files = server.binlog_files()
    paths = [server.binlog_path(name) for name in files[files.index(start.file) :]]
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        stated, _ = await read_source(
            connection.options, rc.DecodeOptions(), Selection(f"{database}.*")
        )
    found, made = [], None
    try:
        rows, made = _inserted(paths, start, database, None)
        found += [f"file: {text}" for text in compare(rows, wanted)]
    except ReplicaClientError as error:
        if form.in_files or "not known" not in str(error):
            found.append(f"file: {type(error).__name__}: {error}")
    try:
        known = stated.moved(LogPosition.of(middle.file, middle.offset - 1))
        rows, _ = _inserted(paths, middle, database, known)
        found += [f"live: {text}" for text in compare(rows, wanted)]
    except ReplicaClientError as error:
        # Labels that no listing has: MariaDB tells them otherwise.
        may_refuse = not form.in_listings and server.flavor == "mysql"
        if not (may_refuse and "not known" in str(error)):
            found.append(f"live: {type(error).__name__}: {error}")
    if made is not None and form.in_files and (form.in_listings or server.flavor == "mariadb"):
        found += _definitions(stated, made, database, tables_of(server, database))
    server.execute(f"DROP DATABASE `{database}`")
    return [f"{form.name}: {text}" for text in found]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", list(_OPTIONS))
async def test_readers_know_what_the_server_knows(fresh_server, name: str) -> None:
    server = fresh_server(name, [*_QUICK, *_OPTIONS[name]])
    forms = forms_of(server, FORMS)
    found = []
    for number, form in enumerate(forms):
        found += await _problems(server, form, f"f{number}")
    assert found == []
    assert len(forms) > 120
