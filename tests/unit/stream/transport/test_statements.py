"""SQL by flavor and version."""

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.stream.transport import server_statements
from replica_client.stream.transport.server_statements import (
    ServerInfo,
    SessionSettings,
    parse_version,
)

SETTINGS = SessionSettings(10_000_000_000, "6a3f6f56-0000-4000-8000-000000000001", 3600)


def server(text: str) -> ServerInfo:
    return ServerInfo(ServerFlavor.of_version(text), parse_version(text), text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("9.7.4-2", (9, 7, 4)),
        ("26.7.0", (26, 7, 0)),
        ("5.6.24-log", (5, 6, 24)),
        ("5.5.5-10.11.18-MariaDB-0+deb12u1-log", (10, 11, 18)),
        ("11.8.6-MariaDB-0+deb13u1 from Debian-log", (11, 8, 6)),
        ("8.0.mysql_aurora.3.05.2", (8, 0, 0)),
        ("8.4", (8, 4, 0)),
        ("unknown", (0, 0, 0)),
    ],
)
def test_versions(text, version) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("text", "status", "replicas"),
    [
        ("5.6.24", "SHOW MASTER STATUS", "SHOW SLAVE HOSTS"),
        ("8.0.36", "SHOW MASTER STATUS", "SHOW REPLICAS"),
        ("8.2.0", "SHOW BINARY LOG STATUS", "SHOW REPLICAS"),
        ("9.7.4", "SHOW BINARY LOG STATUS", "SHOW REPLICAS"),
        ("26.7.0", "SHOW BINARY LOG STATUS", "SHOW REPLICAS"),
        ("10.4.1-MariaDB", "SHOW MASTER STATUS", "SHOW SLAVE HOSTS"),
        ("11.8.6-MariaDB", "SHOW MASTER STATUS", "SHOW REPLICA HOSTS"),
    ],
)
def test_spellings(text, status, replicas) -> None:
    assert server_statements.binlog_status(server(text)) == status
    assert server_statements.replicas(server(text)) == replicas


def test_session_of_an_old_and_a_new_mysql() -> None:
    old = server_statements.session_setup(server("5.6.24"), SETTINGS)
    new = server_statements.session_setup(server("9.7.4"), SETTINGS)
    for name in ("@master_heartbeat_period = 10000000000", "@slave_uuid = '6a3f6f56"):
        assert name in old
        assert name in new
    for name in ("@source_heartbeat_period", "@replica_uuid", "@source_binlog_checksum"):
        assert name not in old
        assert name in new
    assert "net_write_timeout = 3600" in old
    assert "semi_sync" not in new
    assert "checksum" not in server_statements.session_setup(server("5.5.62"), SETTINGS)


def test_session_of_mariadb() -> None:
    settings = SessionSettings(1, "u", 60, semi_sync=True, slave_connect_state="0-1-2")
    sql = server_statements.session_setup(server("11.8.6-MariaDB"), settings)
    assert "@mariadb_slave_capability = 4" in sql
    assert "@slave_connect_state = '0-1-2'" in sql
    assert "@slave_gtid_strict_mode = @@global.gtid_strict_mode" in sql
    assert "@rpl_semi_sync_slave = 1" in sql
    assert "uuid" not in sql
    by_file = server_statements.session_setup(server("11.8.6-MariaDB"), SETTINGS)
    assert "slave_connect_state" not in by_file


def test_sessions_set_what_a_global_setting_may_not_cut_or_change() -> None:
    statement = server_statements.reading_session()
    for setting in (
        "sql_select_limit = 18446744073709551615",
        "max_join_size = 18446744073709551615",
        "sql_big_selects = 1",
        "sql_quote_show_create = 1",
        "sql_mode = 'STRICT_ALL_TABLES'",
    ):
        assert setting in statement
    # Each flavor takes its own limit of time, with the comma before it.
    assert "/*!50708 , max_execution_time = 0 */" in statement
    assert "/*M!100101 , max_statement_time = 0 */" in statement
