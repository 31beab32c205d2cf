"""The doctor on real servers: each setting switched, and its finding seen."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.service.doctor.settings import settings
from replica_client.service.doctor.source_facts import (
    Answer,
    Finding,
    Severity,
    SourceFacts,
    to_copy,
)
from replica_client.service.doctor.standing import diagnose
from replica_client.stream.transport.server_statements import ServerInfo
from replica_client.testing import BinlogSource
from tests import processes
from tests.servers.local import NAMES, LocalServer

CHECKS = {
    "version", "tls", "binlog", "binlog_format", "binlog_row_image", "binlog_row_metadata",
    "binlog_checksum", "compression", "partial_json", "encryption", "gtids", "sync_binlog",
    "replica_updates", "clock", "charsets", "primary_keys", "replication_slave",
    "replication_client", "select", "events", "server_id", "retention",
}  # fmt: skip
every_server = pytest.mark.parametrize("name", NAMES)


def look(server: LocalServer, user: str = "repl", **options: object) -> dict[str, Finding]:
    found = asyncio.run(diagnose(server.url(user), **options))
    assert all("\n" not in finding.text + finding.remedy for finding in found)
    assert all(finding.remedy for finding in found if finding.severity in ("warning", "problem"))
    return {finding.check: finding for finding in found}


def severities(found: dict[str, Finding]) -> dict[str, str]:
    return {check: str(finding.severity) for check, finding in found.items()}


def test_generated_columns_that_are_not_logged(server, new_database) -> None:
    source = server("mariadb-11.8")
    table = f"{new_database(source)}.t"
    source.execute(
        f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT GENERATED ALWAYS AS (a + 1) STORED)"
    )
    logs_them = source.version <= (11, 8, 6)
    found = look(source, "root").get("generated_columns")
    assert (found is None) == logs_them
    assert logs_them or f"{table}.b" in found.text


@every_server
@pytest.mark.parametrize("user", ["repl", "root"])
def test_a_server_of_the_tests_can_be_followed(server, name: str, user: str) -> None:
    found = look(server(name), user)
    assert set(found) - {"statements", "primary_keys", "generated_columns"} == CHECKS - {
        "primary_keys"
    }
    assert "problem" not in severities(found).values(), found
    assert server(name).address.version_text.split("-")[0] in found["version"].text
    listed = user == "root" or server(name).flavor == "mysql"
    assert ("cannot be listed" in found["server_id"].text) == (not listed)
    if not listed:
        assert "REPLICATION MASTER ADMIN" in found["server_id"].remedy


@every_server
def test_settings(fresh_server, name: str) -> None:
    server = fresh_server(name)
    is_mysql = server.flavor == "mysql"
    modern = name != "mysql-5.6"
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.k (id INT PRIMARY KEY, t VARCHAR(9) CHARACTER SET cp1251)")
    found = look(server)
    assert found["primary_keys"].severity is Severity.OK
    assert found["charsets"].severity is Severity.OK
    assert "cp1251 (1)" in found["charsets"].text
    assert found["events"].severity is Severity.OK

    changes = {
        "binlog_format": ("STATEMENT", "problem"),
        "binlog_row_image": ("MINIMAL", "warning"),
        "binlog_checksum": ("NONE", "warning"),
        "sync_binlog": ("1", "ok"),
    }
    if modern:
        changes["binlog_row_metadata"] = ("FULL", "ok")
        assert found["binlog_row_metadata"].severity is Severity.WARNING
    else:
        assert found["binlog_row_metadata"].severity is Severity.NOTE
    for check, (value, severity) in changes.items():
        server.execute(f"SET GLOBAL {check} = {value}")
        assert severities(look(server))[check] == severity
    for seconds, severity in ((3600, "warning"), (8 * 86400, "ok"), (0, "note")):
        if modern and "binlog_expire_logs_seconds" in dict(
            server.query("SHOW GLOBAL VARIABLES LIKE 'binlog_expire_logs_seconds'")
        ):
            server.execute(f"SET GLOBAL binlog_expire_logs_seconds = {seconds}")
            assert severities(look(server))["retention"] == severity
        elif seconds != 3600:
            server.execute(f"SET GLOBAL expire_logs_days = {seconds // 86400}")
            assert severities(look(server))["retention"] == severity
    if name == "mysql-9.7":
        server.execute("SET GLOBAL binlog_row_value_options = PARTIAL_JSON")
        server.execute("SET GLOBAL binlog_transaction_compression = ON")
        server.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
        found = look(server)
        assert [str(found[c].severity) for c in ("partial_json", "compression", "gtids")] == [
            "note", "note", "warning",
        ]  # fmt: skip
    if not is_mysql:
        server.execute("SET GLOBAL log_bin_compress = ON")
        assert look(server)["compression"].severity is Severity.NOTE
    server.execute("CREATE TABLE d.nokey (id INT)")
    server.execute("INSERT INTO d.nokey VALUES (1)")
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO d.nokey VALUES (2)")  # logged as a statement
    found = look(server)
    assert found["primary_keys"].severity is Severity.WARNING
    assert "d.nokey" in found["primary_keys"].text
    assert found["statements"].severity is Severity.WARNING
    assert "INSERT INTO d.nokey VALUES" in found["statements"].text


@every_server
def test_options_that_need_a_restart(fresh_server, name: str) -> None:
    server = fresh_server(name, ["binlog-do-db=shop"])
    assert "only of shop" in look(server)["binlog_filters"].text
    off = ["skip-log-bin"]
    if name == "mysql-5.6":
        return  # its log-bin option cannot be taken back
    server.restart(off)
    found = look(server)
    assert found["binlog"].severity is Severity.PROBLEM
    assert not set(found) & {"retention", "server_id", "binlog_format"}


@every_server
def test_privileges(fresh_server, name: str) -> None:
    server = fresh_server(name)
    for user in ("nothing", "bare"):
        server.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'secret'")
    server.execute("GRANT REPLICATION SLAVE ON *.* TO bare@'%'")
    found = look(server, "nothing")
    assert found["replication_slave"].severity is Severity.PROBLEM
    assert "GRANT REPLICATION SLAVE" in found["replication_slave"].remedy
    assert "secret" not in str(found)
    found = look(server, "bare")
    assert found["replication_slave"].severity is Severity.OK
    assert found["replication_client"].severity is Severity.PROBLEM
    wanted = "BINLOG MONITOR" if server.flavor == "mariadb" else "REPLICATION CLIENT"
    assert wanted in found["replication_client"].remedy
    position = Position("binlog.000001", 4)
    found = look(server, "bare", position=position)
    assert "not known" in found["position"].text
    assert found["replication_client"].severity is Severity.WARNING


@every_server
def test_an_account_that_sees_no_table(fresh_server, name: str) -> None:
    """It can be followed where the binlog has the names, else not; each of the remedies makes it so."""
    server = fresh_server(name)
    server.execute("CREATE DATABASE x")
    server.execute("CREATE TABLE x.t (id INT PRIMARY KEY)")
    server.execute("CREATE USER few@'%' IDENTIFIED BY 'secret'")
    server.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO few@'%'")
    has_full = server.version >= ((10, 5) if server.flavor == "mariadb" else (8, 0))
    if has_full:
        server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    found = look(server, "few")["select"]
    assert found.severity is Severity.PROBLEM
    assert "GRANT SELECT" in found.remedy
    assert found.statements
    if has_full:
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
        assert look(server, "few")["select"].severity is Severity.NOTE
        server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    for privilege in ("SELECT ON x.*", "SELECT ON x.t", "SELECT (id) ON x.t", "SELECT ON *.*"):
        server.execute(f"GRANT {privilege} TO few@'%'")
        assert look(server, "few")["select"].severity is Severity.OK, privilege
        assert look(server, "few", tables=["x.t"])["select"].severity is Severity.OK, privilege
        unseen = look(server, "few", tables=["x.t", "x.u", "y.*"])["select"]
        assert unseen.severity is Severity.PROBLEM
        assert "no table x.u, y.*, and" in unseen.text
        server.execute(f"REVOKE {privilege} FROM few@'%'")
        assert look(server, "few")["select"].severity is Severity.PROBLEM, privilege


@every_server
def test_server_id(fresh_server, name: str) -> None:
    server = fresh_server(name)
    [(own,)] = server.query("SELECT @@server_id")
    assert "source's own" in look(server, "root", server_id=int(own))["server_id"].text
    client = processes.Popen(
        [sys.executable, "-c", FOLLOW, server.url(), "424242"], stdout=subprocess.PIPE
    )
    try:
        assert client.stdout is not None
        client.stdout.readline()
        found = look(server, "root", server_id=424242)["server_id"]
        assert (found.severity, "too" in found.text) == (Severity.PROBLEM, True)
        found = look(server, "root", server_id=424243)["server_id"]
        assert (found.severity, "424242" in found.text) == (Severity.OK, True)
        assert client.poll() is None, "looking must not end the other one's dump"
    finally:
        client.kill()
        client.communicate()


FOLLOW = """
import asyncio, sys, replica_client as rc
async def main():
    async with rc.connect(sys.argv[1], server_id=int(sys.argv[2]), start="latest") as stream:
        print("connected", flush=True)
        async for _ in stream.events():
            pass
asyncio.run(main())
"""


@every_server
def test_position(fresh_server, name: str) -> None:
    server = fresh_server(name)
    file, offset = server.binlog_position()
    assert look(server, position=Position(file, offset))["position"].severity is Severity.OK
    gone = Position(file, offset + 100_000)
    assert "was the source reset" in look(server, position=gone)["position"].text
    server.execute("CREATE DATABASE d")
    if server.flavor == "mysql":
        early = GtidSet()
        [(executed,)] = server.query("SELECT @@global.gtid_executed")
        late = GtidSet.parse(executed)
    else:
        [(text,)] = server.query("SELECT @@gtid_binlog_pos")
        late = MariadbGtidSet.parse(text)
        server.execute("CREATE DATABASE d2")
        early = late
        [(text,)] = server.query("SELECT @@gtid_binlog_pos")
        late = MariadbGtidSet.parse(text)
    before = Position(file, offset, early)
    assert look(server, position=before)["position"].severity is Severity.OK
    server.rotate()
    server.execute("CREATE DATABASE e")
    newest = server.binlog_files()[-1]
    deadline = time.monotonic() + 60
    while len(server.binlog_files()) > 1 and time.monotonic() < deadline:
        server.execute(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(0.1)
    for position in (before, Position(file, offset)):
        found = look(server, position=position)["position"]
        assert found.severity is Severity.PROBLEM, found
        assert "no longer has" in found.text
    if server.flavor == "mysql":
        assert f"{late} were purged" in look(server, position=before)["position"].text
    assert look(server, position=Position(newest, 4, late))["position"].severity is Severity.OK


def test_a_login_that_only_the_servers_cache_lets_in(server) -> None:
    one = server("mysql-9.7")
    look(one)  # the cache has the account now
    plain = f"{one.url('repl')}?tls=disabled"

    def tls(url: str) -> Finding:
        found = asyncio.run(diagnose(url))
        return next(finding for finding in found if finding.check == "tls")

    assert tls(plain).severity is Severity.WARNING
    assert "after its restart" in tls(plain).text
    assert tls(f"{plain}&allow_public_key_retrieval=1").severity is Severity.NOTE
    key = one.datadir / "public_key.pem"
    assert tls(f"{plain}&server_public_key={key}").severity is Severity.NOTE


def facts(**changes: object) -> SourceFacts:
    values: dict[str, object] = {
        "server": ServerInfo(ServerFlavor.MYSQL, (9, 7, 4), "9.7.4"),
        "variables": {"log_bin": "ON", "binlog_format": "ROW", **dict(changes.pop("variables", {}))},
        "files": Answer(), "status": Answer(), "replicas": Answer(), "purged": "",
        "tables": Answer([(9,)]), "keyless": Answer(), "charsets": Answer(), "clock_skew": 0.0, "clock_error": 0.01,
    }  # fmt: skip
    return SourceFacts(**{**values, **changes})


def test_what_no_server_of_the_tests_can_be_set_to() -> None:
    def of(check: str, **changes: object) -> Finding:
        return next(finding for finding in settings(facts(**changes)) if finding.check == check)

    assert "encrypts its files" in of("encryption", variables={"binlog_encryption": "ON"}).text
    assert of("tls").severity is Severity.WARNING
    assert of("tls", is_local=True).severity is Severity.NOTE
    encrypted = ServerInfo(ServerFlavor.MYSQL, (9, 7, 4), "9.7.4", tls="TLSv1.3")
    assert of("tls", server=encrypted).severity is Severity.NOTE
    showing = replace(encrypted, auth_plugin="caching_sha2_password", fingerprint="sha256:ab")
    assert of("tls", server=showing).severity is Severity.WARNING
    assert "tls_fingerprint=sha256:ab" in of("tls", server=showing).remedy
    assert of("tls", server=showing, is_local=True).severity is Severity.NOTE
    verified = replace(showing, verified_by="its fingerprint")
    assert of("tls", server=verified).severity is Severity.OK
    blind = of("primary_keys", tables=Answer([(0,)]))
    assert (blind.severity, "GRANT SELECT" in blind.remedy) == (Severity.NOTE, True)
    assert "agrees with ours" in of("clock", clock_skew=0.01).text
    assert of("clock", clock_skew=-7.25).severity is Severity.WARNING
    assert "7.2 s behind ours" in of("clock", clock_skew=-7.25).text
    assert of("clock", clock_skew=7.0, clock_error=6.0).severity is Severity.OK
    assert of("binlog", variables={"server_id": "0"}).severity is Severity.PROBLEM
    innodb = {"binlog_storage_engine": "innodb"}
    assert of("binlog", variables=innodb).severity is Severity.PROBLEM
    assert of("charsets", charsets=Answer([("klingon", 3)])).severity is Severity.PROBLEM
    many = Answer([("d", f"t{number}") for number in range(9)])
    assert of("primary_keys", keyless=many).text.endswith("d.t4 and 4 more")
    hidden = Answer(refusal="SELECT denied")
    assert of("primary_keys", keyless=hidden).severity is Severity.NOTE


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return processes.run(
        [sys.executable, "-m", "replica_client", "doctor", *words],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip


def test_the_command(fresh_server, tmp_path: Path) -> None:
    server = fresh_server("mysql-9.7")
    done = run(server.url())
    assert done.returncode == 0
    [line] = done.stderr.splitlines()  # the server's cache of passwords is empty
    assert "caching_sha2_password sent the password inside TLSv1.3" in line
    done = run(server.url())
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok       binlog_format        ROW" in done.stdout
    assert "→ SET GLOBAL binlog_row_metadata = FULL" in done.stdout
    assert "This source can be followed: 1 warning, " in done.stdout.splitlines()[-1]
    server.execute("SET GLOBAL binlog_format = MIXED")
    done = run(server.url(), "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert {tuple(record) for record in records} == {
        ("check", "severity", "text", "remedy", "statements", "settings")
    }
    assert [r["check"] for r in records if r["severity"] == "problem"] == ["binlog_format"]
    assert done.stderr.count("\n") == 1
    assert "1 problem prevents following this source" in done.stderr
    missing = tmp_path / "no.position"
    done = run(server.url(), "--position-file", str(missing))
    assert (done.returncode, "no position file" in done.stderr) == (2, True)
    assert run("binlog.000001").returncode == 2
    assert run(server.url().replace("secret", "WRONG-pw")).returncode == 1


async def test_a_source_that_understands_little_sql() -> None:
    data = Path(sys.modules["replica_client"].__file__ or "").parent / "testing" / "data"
    async with BinlogSource(data) as source:
        found = {finding.check: finding for finding in await diagnose(source.url)}
    assert found["primary_keys"].severity is Severity.NOTE
    assert "does not understand" in found["primary_keys"].text
    assert found["replication_slave"].severity is Severity.OK


def copied(findings: list[Finding]) -> tuple[list[str], list[str]]:
    """What the doctor gives to copy: statements, and options of the configuration file."""
    lines = list(to_copy(findings))
    settings = lines[lines.index("[mysqld]") + 1 :] if "[mysqld]" in lines else []
    statements = lines[: len(lines) - len(settings)]
    found = [line for line in statements if line[:2] != "--" and line[0] not in "#["]
    return found, [line for line in settings if line[0] != "#"]


@every_server
def test_what_is_copied_mends_it(fresh_server, name: str) -> None:
    """Its statements run as they are, its lines are options of the server, and the findings are gone."""
    server = fresh_server(name)
    server.execute("CREATE USER 'o''neil`'@'%' IDENTIFIED BY 'secret'")
    for setting in (
        "binlog_format = STATEMENT",
        "binlog_checksum = NONE",
        "binlog_row_image = MINIMAL",
    ):
        server.execute(f"SET GLOBAL {setting}")
    url = server.url("root").replace("root", "o'neil`", 1)
    url = url.replace(url.split("://")[1].split("@")[0], "o%27neil%60:secret")
    before = asyncio.run(diagnose(url))
    statements, settings = copied(before)
    assert any(line.startswith("GRANT REPLICATION SLAVE ON *.* TO") for line in statements)
    for statement in statements:
        server.execute(statement)
    mended = {
        one.check for one in before if one.severity in ("problem", "warning") and one.statements
    }
    assert mended >= {"replication_slave", "replication_client", "binlog_format", "binlog_checksum"}
    after = {one.check: one for one in asyncio.run(diagnose(url))}
    assert not mended & {
        check for check, one in after.items() if one.severity in ("problem", "warning")
    }
    assert not [
        line
        for line in copied(list(after.values()))[0]
        if line.startswith("GRANT REPLICATION SLAVE")
    ]
    # And from the configuration file, after a restart.
    server.restart([line.replace(" = ", "=") for line in settings])
    again = {one.check: one for one in asyncio.run(diagnose(url))}
    wanted = {
        one.check for one in before if one.severity in ("problem", "warning") and one.settings
    }
    assert not wanted & {
        check for check, one in again.items() if one.severity in ("problem", "warning")
    }


def test_nothing_is_copied_where_nothing_is_missing() -> None:
    assert (
        list(to_copy([Finding("a", Severity.OK, "fine"), Finding("b", Severity.NOTE, "x")])) == []
    )
    note = Finding("c", Severity.NOTE, "x", "y", ("SET a",), ("a = 1",))
    same = Finding("d", Severity.PROBLEM, "x", "y", ("SET a",), ("a = 1",))
    for both in ([note, same], [same, note]):
        assert {"SET a;", "a = 1"} <= set(to_copy(both))
    assert list(to_copy([note, note])) == [
        "-- On the source, as an administrator:",
        "-- SET a;",
        "# In the source's my.cnf, read at its next start:",
        "[mysqld]",
        "# a = 1",
    ]
