"""A file that was shortened between two events, with another one behind it: an error, whatever reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import BinlogDecodeError
from tests.header_scan import HeaderScan
from tests.servers.local import LocalServer


def _events(reader: Any) -> Iterator[Any]:
    return iter(reader.events())


def _transactions(reader: Any) -> Iterator[Any]:
    return iter(reader.transactions())


def _batches(reader: Any) -> Iterator[Any]:
    return iter(reader.batches())


READERS: list[Callable[[Any], Iterator[Any]]] = [_events, _transactions, _batches]


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_was_shortened_between_events(
    any_server: LocalServer,
    new_database: Callable[[Any], str],
    tmp_path: Path,
    read: Callable[[Any], Iterator[Any]],
) -> None:
    server, database = any_server, new_database(any_server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.rotate()
    first = server.binlog_files()[-1]
    for number in range(3):
        server.execute(f"INSERT INTO {database}.t VALUES ({number})")
    server.rotate()
    second = server.binlog_files()[-1]
    server.execute(f"INSERT INTO {database}.t VALUES (9)")
    data = server.binlog_path(first).read_bytes()
    paths = [tmp_path / first, tmp_path / second]
    paths[1].write_bytes(server.binlog_path(second).read_bytes())
    positions = [position for position, _ in HeaderScan(data)]
    assert len(positions) > 12
    for end in [*positions[1:], len(data)]:
        paths[0].write_bytes(data[:end])
        start = rc.Position(first, 4) if end % 2 else None
        items = read(rc.open_binlog(paths, start=start, tables=f"{database}.*"))
        if end == len(data):
            assert list(items)
            continue
        with pytest.raises((BinlogDecodeError, rc.DataLossError)):
            list(items)
    # From its end on there is nothing of it to miss.
    paths[0].write_bytes(data)
    whole = rc.open_binlog(paths, start=rc.Position(first, len(data)), tables=f"{database}.*")
    assert list(read(whole))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", ["mysql-9.7", "mysql-5.6", "mariadb-11.8"])
def test_a_source_that_crashed_ends_no_file(
    fresh_server: Callable[[str], LocalServer], name: str, read: Callable[[Any], Iterator[Any]]
) -> None:
    server = fresh_server(name)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO d.t VALUES (1)")
    for crashed in (True, False):
        if crashed:
            server.kill()
        server.restart()
        server.execute(f"INSERT INTO d.t VALUES ({2 + crashed})")
    paths = [server.binlog_path(one) for one in server.binlog_files()]
    assert len(paths) >= 3
    assert list(read(rc.open_binlog(paths, tables="d.*")))
