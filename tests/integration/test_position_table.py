"""Positions in a table of a real server."""

from __future__ import annotations

import pytest

from replica_client.errors import PositionStoreError
from replica_client.protocol.position import Position
from replica_client.service.stores import MysqlDatabase, MysqlPositionStore
from replica_client.stream.transport.connect_options import parse_url
from tests.integration.position_stores import StoreConformance


@pytest.fixture(params=["mysql-9.7", "mysql-5.6", "mariadb-11.8"])
def target(request, server, new_database):
    one = server(request.param)
    return one, new_database(one)


class TestMysql(StoreConformance):
    @pytest.fixture
    def make(self, target):
        one, name = target
        self.server, self.name = one, name
        database = MysqlDatabase(lambda: parse_url(f"{one.url('root')}{name}"))
        yield lambda name="a": MysqlPositionStore(database, name)
        database.close()

    def damage(self, store):
        self.server.execute(f"UPDATE {self.name}.replica_client_positions SET checkpoint = 'x'")


def test_a_session_that_was_ended_is_opened_again(server, new_database):
    one = server("mysql-9.7")
    name = new_database(one)
    store = MysqlPositionStore(
        MysqlDatabase(lambda: parse_url(f"{one.url('root')}{name}?program_name=positions")), "a"
    )
    store.save(Position("binlog.000001", 4))
    (number,) = [row[0] for row in one.query("SHOW PROCESSLIST") if row[3] == name]
    one.execute(f"KILL {number}")
    store.save(Position("binlog.000001", 5))
    assert store.load() == Position("binlog.000001", 5)
    store.close()


def test_a_server_that_refuses(server, new_database):
    one = server("mysql-9.7")
    url = one.url("root").replace("@", "-wrong-password@" if one.password_of("root") else ":wrong@")
    store = MysqlPositionStore(MysqlDatabase(lambda: parse_url(f"{url}{new_database(one)}")), "a")
    with pytest.raises(PositionStoreError, match="position table in .*Access denied"):
        store.load()
    store.close()
