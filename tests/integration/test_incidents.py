"""Who did it: statements, threads and volumes of an archive, from real servers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from tests.integration.undo_live import command
from tests.servers.local import LocalServer


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_who_dropped_it_and_who_wrote(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    name: str,
) -> None:
    source = server(name)
    source.rotate()
    database = new_database(source)
    with source.connected() as first, source.connected() as second:
        threads = first.thread_id(), second.thread_id()
        one, two = first.cursor(), second.cursor()
        one.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB")
        one.execute(f"CREATE TABLE {database}.u (a INT PRIMARY KEY) ENGINE=InnoDB")
        one.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 2), (3, 3)")
        first.commit()
        two.execute(f"UPDATE {database}.t SET b = 0 WHERE a < 3")
        second.commit()
        time.sleep(1.1)
        one.execute(f"ALTER TABLE {database}.t ADD c INT")
        one.execute(f"TRUNCATE TABLE {database}.t")
        two.execute(f"DROP TABLE {database}.t")
    file = source.binlog_position()[0]
    source.rotate()
    path = tmp_path / file
    path.write_bytes(source.binlog_path(file).read_bytes())
    table = f"{database}.t"

    def found(*options: str) -> list[dict[str, object]]:
        done = command("find", str(path), "--kind", "ddl", "--json", *options)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    mine = found("--table", table)
    words = [str(row["statement"]).split()[0] for row in mine]
    assert words[-3:] == ["ALTER", "TRUNCATE", "DROP"]
    assert all(f"{database}.u" not in str(row["statement"]) for row in mine)
    [drop] = found("--table", table, "--last", "1")
    assert drop == mine[-1]
    assert drop["thread_id"] == threads[1]
    assert drop["tables"] == [table]
    assert drop["gtid"]
    assert str(drop["commit_time"]) > str(mine[-3]["commit_time"])[:10]
    assert found("--table", table, "--gtid", str(drop["gtid"])) == [drop]
    assert found("--limit", "1") == found()[:1]
    assert len(found("--thread", str(threads[1]), "--table", table)) == 1
    refused = command("find", str(path), "--kind", "ddl", "--key", "1", "--table", table)
    assert refused.returncode == 2

    by = command("find", str(path), "--table", table, "--by", "thread")
    rows = [line.split() for line in by.stdout.splitlines()[1:]]
    assert [row[:5] for row in rows] == [
        [str(threads[0]), "1", "3", "0", "0"],
        [str(threads[1]), "1", "0", "2", "0"],
    ]
    done = command("stats", str(path), "--table", table, "--by", "thread", "--json")
    assert done.returncode == 0, done.stderr
    stats = json.loads(done.stdout)
    assert {key: (one["inserted"], one["updated"]) for key, one in stats["threads"].items()} == {
        str(threads[0]): (3, 0),
        str(threads[1]): (0, 2),
    }
    assert list(stats["tables"]) == [table]
    assert sum(one[table]["inserted"] for one in stats["minutes"].values()) == 3
    assert stats["statements"][-1]["text"].startswith("DROP TABLE")
    shown = command("stats", str(path), "--by", "minute")
    assert table in shown.stdout.splitlines()[-1]
    none = command("stats", str(path), "--table", f"{database}.u", "--by", "minute", "--json")
    assert none.returncode == 0, none.stderr
    assert not json.loads(none.stdout)["tables"]


@pytest.mark.parametrize("copy", ["_t_gho", "__t_new", "staging"])
def test_history_goes_through_online_changes(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    copy: str,
) -> None:
    """The rows of a tool's copy are not the row's life; a table of another name is another table."""
    source = server("mysql-9.7")
    source.rotate()
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        for statement in (
            "CREATE TABLE {d}.t (a INT PRIMARY KEY, b INT)",
            "INSERT INTO {d}.t VALUES (1, 1)",
            "UPDATE {d}.t SET b = 2",
            "CREATE TABLE {d}.{c} LIKE {d}.t",
            "INSERT INTO {d}.{c} SELECT * FROM {d}.t",
            "RENAME TABLE {d}.t TO {d}._t_del, {d}.{c} TO {d}.t",
            "DROP TABLE {d}._t_del",
            "UPDATE {d}.t SET b = 3",
        ):
            cursor.execute(statement.format(d=database, c=copy))
            connection.commit()
    file = source.binlog_position()[0]
    source.rotate()
    archive = rc.open_archive(source.binlog_path(file), index_directory=tmp_path)
    found = archive.history(f"{database}.t", 1)
    shown = [(one.change.table, one.change.kind, (one.change.after or {})["b"]) for one in found]
    assert shown == (
        [("staging", "insert", 2), ("t", "update", 3)]
        if copy == "staging"
        else [("t", "insert", 1), ("t", "update", 2), ("t", "update", 3)]
    )
