"""Undo and redo on real servers, and what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path

import pymysql
import pytest

from replica_client.archive import undo
from replica_client.archive.archive import Archive, make_question, open_archive
from replica_client.archive.question import ChangeTest
from replica_client.archive.row_checks import apply, conflicts, side_effects
from replica_client.archive.undo import SESSION, Direction, make_statements
from replica_client.errors import DataLossError
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row_change import Change
from replica_client.rows.selection import Selection
from replica_client.stream.transactions.assembler import AssemblyOptions
from tests.integration import undo_live
from tests.integration.as_of_instants import url_of
from tests.integration.undo_histories import checksums, prove
from tests.servers.local import LocalServer


def test_random_histories(any_server: LocalServer, tmp_path: Path) -> None:
    # Tables with and without a key, and with a FLOAT that finds the row.
    counts = prove(any_server, tmp_path, 35)
    assert not counts["differences"]
    assert counts["changes"]


_LABELS = "','".join(map(str, range(64)))
EDGES = {
    "BIGINT UNSIGNED": ["0", str(2**63 - 1), str(2**63), str(2**64 - 1)],
    "BIGINT": ["-1", str(2**63 - 1), str(-(2**63))],
    "BIT(64)": ["1", str(2**63), str(2**64 - 1)],
    f"SET('{_LABELS}')": ["1", str(2**63), str(2**64 - 1)],
    "DECIMAL(65,30)": ["0." + "0" * 29 + "7", "-" + "9" * 35, "9" * 35 + "." + "9" * 30],
    "DECIMAL(65,0) UNSIGNED": ["0", str(2**64 - 1), str(2**64), "9" * 65],
    "FLOAT": ["0.1", "-1.5e30", "1e-30", "16777216", "-0e0"],
    "DOUBLE": ["0.1", "1e-300", "-1.7976931348623157e308", "9007199254740993", "1e15", "-0e0"],
    "DATETIME(6)": ["'0000-00-00'", "'2026-02-00'", "'2026-11-20 08:00:00.123456'"],
    "TIME(6)": ["'-838:59:59'", "'-00:00:00.5'", "'12:34:56.78'"],
    "YEAR": ["0", "1901", "2155"],
    "CHAR(9) CHARACTER SET utf8mb4": ["''", "'a '", "'A'", "_utf8mb4 x'f09f9880'", "x'0a'"],
    "VARCHAR(9) CHARACTER SET ucs2": ["''", "'a '", "_ucs2 x'00e9'"],
    "VARCHAR(9) CHARACTER SET latin1": ["''", "'a '", "_latin1 x'e9'", "'1'"],
    "BINARY(4)": ["''", "x'00'", "x'20'", "x'ff00ff00'"],
    "BLOB": ["''", "x'00'", "'1'", "x'ff20'"],
}
"""Values of columns, and NULL: each two of them are undone together, in one statement if possible."""


def test_rows_undone_together_get_their_own_values(
    any_server: LocalServer, new_database: Callable[[LocalServer], str], tmp_path: Path
) -> None:
    any_server.rotate()
    first = any_server.binlog_position()[0]
    database = new_database(any_server)
    pairs = {kind: list(combinations((*edges, "NULL"), 2)) for kind, edges in EDGES.items()}
    names = [f"{database}.t{number}" for number in range(len(pairs))]
    with any_server.connected() as connection, connection.cursor() as cursor:
        for setting in SESSION:
            cursor.execute(setting)
        for name, (kind, two) in zip(names, pairs.items(), strict=True):
            cursor.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v {kind}) ENGINE=InnoDB")
            rows = ", ".join(
                f"({at}, {one[0]}), ({-at}, {one[1]})" for at, one in enumerate(two, 1)
            )
            cursor.execute(f"INSERT INTO {name} VALUES {rows}, (0, {EDGES[kind][0]})")
        connection.commit()
        before = checksums(any_server, names)
        any_server.rotate()
        begin = any_server.binlog_position()[0]
        for name, (kind, two) in zip(names, pairs.items(), strict=True):
            for at in range(1, len(two) + 1):
                for value in ("NULL", EDGES[kind][0], EDGES[kind][1]):
                    cursor.execute(f"UPDATE {name} SET v = {value} WHERE k IN ({at}, {-at})")
                    connection.commit()
        after = checksums(any_server, names)
        any_server.rotate()
        files = any_server.binlog_files()
        paths = [any_server.binlog_path(name) for name in files[files.index(first) : -1]]
        archive = open_archive(paths, index_directory=tmp_path)
        question = make_question([f"{database}.*"], since=f"{begin}:4")
        directions: list[tuple[Direction, list[object]]] = [("undo", before), ("redo", after)]
        for direction, expected in directions:
            with make_statements(archive, question, direction) as statements:
                for line in statements.lines():
                    if not line.startswith("--"):
                        cursor.execute(line.removesuffix(";"))
            found = checksums(any_server, names)
            assert [kind for kind, a, b in zip(EDGES, found, expected, strict=True) if a != b] == []


CHANGED_SINCE = [
    ("a INT PRIMARY KEY, b INT", "UPDATE {t} SET a = 7 WHERE a = 1", "UPDATE {t} SET a = 8"),
    ("a INT PRIMARY KEY, b INT", "UPDATE {t} SET b = 2 WHERE a = 1", "UPDATE {t} SET b = 3"),
    (
        "a INT PRIMARY KEY, b INT, c TEXT",
        "UPDATE {t} SET b = 2 WHERE a = 1",
        "UPDATE {t} SET c = 'X' WHERE a = 1",
    ),
    (
        "a INT PRIMARY KEY, b INT, c VARCHAR(9)",
        "INSERT INTO {t} (a, c) VALUES (3, 'x')",
        "UPDATE {t} SET c = 'X' WHERE a = 3",
    ),
    ("a INT PRIMARY KEY, b INT", "INSERT INTO {t} VALUES (3, 3)", "DELETE FROM {t} WHERE a = 3"),
    (
        "a INT PRIMARY KEY, b INT",
        "DELETE FROM {t} WHERE a = 1",
        "INSERT INTO {t} VALUES (1, 5)",
    ),
    ("a INT, b INT", "UPDATE {t} SET b = 2 WHERE a = 1", "UPDATE {t} SET b = 3 WHERE a = 1"),
    ("a INT, b INT", "INSERT INTO {t} VALUES (3, 3)", "UPDATE {t} SET b = 4 WHERE a = 3"),
]
"""The table, what is taken back, and what somebody did since."""


def test_the_script_ends_where_a_row_is_not_as_it_was(
    any_server: LocalServer, new_database: Callable[[LocalServer], str], tmp_path: Path
) -> None:
    """Each change of a row since then stays: nothing is written over."""
    any_server.rotate()
    first = any_server.binlog_position()[0]
    database = new_database(any_server)
    with any_server.connected() as connection, connection.cursor() as cursor:
        for number, (columns, _, _) in enumerate(CHANGED_SINCE):
            table = f"{database}.t{number}"
            cursor.execute(f"CREATE TABLE {table} ({columns}) ENGINE=InnoDB")
            cursor.execute(f"INSERT INTO {table} (a, b) VALUES (1, 1)")
        connection.commit()
        any_server.rotate()
        begin = any_server.binlog_position()[0]
        for number, (_, undone, _) in enumerate(CHANGED_SINCE):
            cursor.execute(undone.format(t=f"{database}.t{number}"))
            connection.commit()
        any_server.rotate()
        names = any_server.binlog_files()
        files = [any_server.binlog_path(name) for name in names[names.index(first) : -1]]
        archive = open_archive(files, index_directory=tmp_path)
        for number, (_, undone, since) in enumerate(CHANGED_SINCE):
            table = f"{database}.t{number}"
            cursor.execute(since.format(t=table))
            connection.commit()
            before = checksums(any_server, [table])
            question = make_question([table], since=f"{begin}:4")
            with make_statements(archive, question, "undo", whole_rows=True) as statements:
                assert statements.changes == 1
                with pytest.raises(pymysql.Error, match="more than 1 row|Duplicate entry"):
                    for line in statements.lines():
                        if not line.startswith("--"):
                            cursor.execute(line.removesuffix(";"))
                    connection.rollback()
                    raise AssertionError(f"{undone}, then {since}: written over")
            connection.rollback()
            assert checksums(any_server, [table]) == before


def test_an_update_is_taken_back_by_column(
    any_server: LocalServer, new_database: Callable[[LocalServer], str], tmp_path: Path
) -> None:
    """Other columns keep what was written since; a changed column that was written since ends the script."""
    any_server.rotate()
    first = any_server.binlog_position()[0]
    table = f"{new_database(any_server)}.o"
    with any_server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, price DECIMAL(8,2), weight FLOAT, e ENUM('a','b'), stock INT, "
            "note TEXT) ENGINE=InnoDB"
        )
        rows = ", ".join(
            f"({n}, {'NULL' if n % 50 == 0 else n / 4}, {n / 3}, 'b', 100, 'n')" for n in range(500)
        )
        cursor.execute(f"INSERT INTO {table} VALUES {rows}")
        connection.commit()

        def shown(columns: str) -> list[tuple[object, ...]]:
            cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id")
            return list(cursor.fetchall())

        def run(*, whole_rows: bool) -> None:
            with make_statements(archive, question, "undo", whole_rows=whole_rows) as statements:
                assert statements.changes == 500
                for line in statements.lines():
                    if not line.startswith("--"):
                        cursor.execute(line.removesuffix(";"))

        prices = shown("id, price, weight, e")
        any_server.rotate()
        begin = any_server.binlog_position()[0]
        cursor.execute(f"UPDATE {table} SET price = 0, weight = -weight - 1, e = 1")
        connection.commit()
        any_server.rotate()
        end = any_server.binlog_position()[0]
        for n in range(0, 500, 3):
            cursor.execute(f"UPDATE {table} SET stock = stock - {n}, note = 'sold' WHERE id = {n}")
            connection.commit()
        any_server.rotate()
        names = any_server.binlog_files()
        files = [any_server.binlog_path(name) for name in names[names.index(first) : -1]]
        archive = open_archive(files, index_directory=tmp_path)
        question = make_question([table], since=f"{begin}:4", until=f"{end}:4")
        stock = shown("id, stock, note")
        cursor.execute(f"UPDATE {table} SET price = 5 WHERE id = 7")
        connection.commit()
        for whole_rows in (False, True):
            before = checksums(any_server, [table])
            with pytest.raises(pymysql.Error, match="more than 1 row"):
                run(whole_rows=whole_rows)
            connection.rollback()
            assert checksums(any_server, [table]) == before
        cursor.execute(f"UPDATE {table} SET price = 0 WHERE id = 7")
        connection.commit()
        run(whole_rows=False)
        assert shown("id, price, weight, e") == prices
        assert shown("id, stock, note") == stock


def test_check_tells_what_changed_since_and_writes_nothing(
    any_server: LocalServer, new_database: Callable[[LocalServer], str], tmp_path: Path
) -> None:
    any_server.rotate()
    first = any_server.binlog_position()[0]
    database = new_database(any_server)
    with any_server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {database}.t (a VARCHAR(9) CHARACTER SET utf8 PRIMARY KEY, b FLOAT, c BLOB) ENGINE=InnoDB"
        )
        cursor.execute(
            f"INSERT INTO {database}.t VALUES ('a', 0.1, 'x'), ('b', 1, 'x'), ('c', 1, 'x')"
        )
        cursor.execute(
            f"INSERT INTO {database}.t VALUES ('d', 0.1, 'x'), ('e', 1, 'x'), ('f', 1, NULL)"
        )
        connection.commit()
        any_server.rotate()
        begin = any_server.binlog_position()[0]
        cursor.execute(f"UPDATE {database}.t SET b = b + 0.7, c = 'y'")
        cursor.execute(f"UPDATE {database}.t SET a = 'g' WHERE a = 'e'")
        cursor.execute(f"DELETE FROM {database}.t WHERE a IN ('c', 'f')")
        connection.commit()
        any_server.rotate()
        names = any_server.binlog_files()
        files = [any_server.binlog_path(name) for name in names[names.index(first) : -1]]
        archive = open_archive(files, index_directory=tmp_path)
        question = make_question([f"{database}.*"], since=f"{begin}:4")

        def found() -> list[tuple[str, str]]:
            with make_statements(archive, question, "undo") as statements:
                looking = conflicts(statements.writes(), url_of(any_server), SESSION)
                return sorted((one.what, one.row[-4:]) for one in asyncio.run(looking))

        assert found() == []
        cursor.execute(f"UPDATE {database}.t SET c = 'Y' WHERE a = 'a'")
        cursor.execute(f"DELETE FROM {database}.t WHERE a = 'b'")
        cursor.execute(f"INSERT INTO {database}.t VALUES ('c', 5, NULL), ('e', 5, NULL)")
        cursor.execute(f"UPDATE {database}.t SET c = NULL WHERE a = 'g'")  # not c is undone there
        connection.commit()
        before = checksums(any_server, [f"{database}.t"])
        assert found() == [
            ("changed", " 'a'"),
            ("changed", " 'g'"),
            ("gone", " 'b'"),
            ("there", " 'c'"),
            ("there", " 'e'"),
        ]
        assert checksums(any_server, [f"{database}.t"]) == before


@pytest.mark.parametrize("skip", [False, True])
def test_it_is_applied_in_one_transaction(
    any_server: LocalServer,
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    skip: bool,
) -> None:
    """Touched rows stay, by the last who touched them; others are as before; or nothing is written."""
    any_server.rotate()
    first = any_server.binlog_position()[0]
    database = new_database(any_server)
    table, url = f"{database}.o", url_of(any_server)
    with any_server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, price DECIMAL(8,2), u INT UNIQUE, s VARCHAR(9)) ENGINE=InnoDB"
        )
        rows = ", ".join(f"({n}, {n / 4}, {n}, 's{n}')" for n in range(600))
        cursor.execute(f"INSERT INTO {table} VALUES {rows}")
        connection.commit()
        before = checksums(any_server, [table])
        any_server.rotate()
        begin = any_server.binlog_position()[0]
        cursor.execute(f"UPDATE {table} SET price = 0")
        cursor.execute(f"UPDATE {table} SET u = u + 1 ORDER BY id DESC")
        cursor.execute(f"DELETE FROM {table} WHERE id > 580")
        cursor.execute(f"INSERT INTO {table} VALUES (1000, 1, 1000, 'new')")
        connection.commit()
        any_server.rotate()
        end = any_server.binlog_position()[0]
        question = make_question([table], since=f"{begin}:4", until=f"{end}:4")

        def archive() -> Archive:
            any_server.rotate()
            names = any_server.binlog_files()
            files = [any_server.binlog_path(name) for name in names[names.index(first) : -1]]
            return open_archive(files, index_directory=tmp_path)

        cursor.execute(f"UPDATE {table} SET price = 7 WHERE id IN (3, 4)")
        cursor.execute(f"UPDATE {table} SET s = 'sold' WHERE id = 5")
        cursor.execute(f"INSERT INTO {table} VALUES (590, 1, 2000, 'other')")
        connection.commit()
        with make_statements(archive(), question, "undo") as statements:
            texts = [line for line in statements.lines() if line.startswith("UPDATE")]
            assert len(texts) < 20
            preview = asyncio.run(conflicts(statements.writes(), url, SESSION))
            assert sorted((one.what, one.row) for one in preview) == [
                ("changed", "`id` = 3"),
                ("changed", "`id` = 4"),
                ("there", "`id` = 590"),
            ]
            done = asyncio.run(apply(statements.writes(), url, SESSION, skip_changed=skip))
            assert {(one.what, one.row) for one in preview} <= {
                (one.what, one.row) for one in done.conflicts
            }
            later = statements.later_changes({(one.write.name, one.row) for one in preview})
        assert {row: one.changes for (_, row), one in later.items()} == {
            "`id` = 3": 1,
            "`id` = 4": 1,
            "`id` = 590": 1,
        }
        assert done.committed is skip
        cursor.execute(
            f"SELECT id, price, u, s FROM {table} WHERE id IN (3, 4, 5, 6, 590, 599, 1000)"
        )
        assert {row[0]: (float(row[1]), *row[2:]) for row in cursor.fetchall()} == (
            {
                3: (7.0, 3, "s3"),
                4: (7.0, 4, "s4"),
                5: (1.25, 5, "sold"),
                6: (1.5, 6, "s6"),
                590: (1.0, 2000, "other"),
                599: (149.75, 599, "s599"),
            }
            if skip
            else {
                3: (7.0, 4, "s3"),
                4: (7.0, 5, "s4"),
                5: (0.0, 6, "sold"),
                6: (0.0, 7, "s6"),
                590: (1.0, 2000, "other"),
                1000: (1.0, 1000, "new"),
            }
        )
        connection.rollback()
        if not skip:
            cursor.execute(f"UPDATE {table} SET price = 0 WHERE id IN (3, 4)")
            cursor.execute(f"UPDATE {table} SET s = 's5' WHERE id = 5")
            cursor.execute(f"DELETE FROM {table} WHERE id = 590")
            connection.commit()
            with make_statements(archive(), question, "undo") as statements:
                done = asyncio.run(apply(statements.writes(), url, SESSION, skip_changed=False))
            assert done.committed
            assert not done.conflicts
            assert checksums(any_server, [table]) == before


def test_triggers_and_cascades_are_named(
    any_server: LocalServer, new_database: Callable[[LocalServer], str]
) -> None:
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE {database}.p (a INT PRIMARY KEY, b INT) ENGINE=InnoDB")
    any_server.execute(
        f"CREATE TABLE {database}.c (a INT, CONSTRAINT fk FOREIGN KEY (a) REFERENCES {database}.p (a) "
        "ON DELETE CASCADE ON UPDATE SET NULL) ENGINE=InnoDB"
    )
    any_server.execute(
        f"CREATE TRIGGER {database}.tr BEFORE UPDATE ON {database}.p FOR EACH ROW SET NEW.b = 1"
    )
    trigger, key = asyncio.run(side_effects([(database, "p")], url_of(any_server)))
    assert f"trigger {database}.tr (BEFORE UPDATE ON {database}.p)" in trigger
    assert f"foreign key fk of {database}.c (ON DELETE CASCADE, ON UPDATE SET NULL)" in key


def test_a_transaction_in_parts_stays_one(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = partial(AssemblyOptions, part_size=1000)
    monkeypatch.setattr(undo, "AssemblyOptions", small)
    source = server("mariadb-11.8")
    source.rotate()
    first = source.binlog_position()[0]
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b BLOB) ENGINE=InnoDB")
        cursor.execute("START TRANSACTION")
        for number in range(12):
            cursor.execute(f"INSERT INTO {database}.t VALUES ({number}, REPEAT('x', 800))")
        connection.commit()
    source.rotate()
    names = source.binlog_files()
    files = [source.binlog_path(name) for name in names[names.index(first) : -1]]
    archive = open_archive(files, index_directory=tmp_path)
    question = make_question([f"{database}.*"])
    parts = [one for one in archive.transactions([question], small(Selection())) if one.rows]
    assert len(parts) > 1
    for direction in ("undo", "redo"):
        with make_statements(archive, question, direction) as statements:
            controls = [
                line for line in statements.lines() if line in ("START TRANSACTION;", "COMMIT;")
            ]
        assert (statements.transactions, statements.changes) == (1, 12)
        assert controls == ["START TRANSACTION;", "COMMIT;"]


CONDITIONS = (
    "a = 3",
    "a IN (2, 5, 11) AND c != 'x3'",
    "b >= 1.25",
    "b < 0",
    "d = '2026-01-04 00:00:00.5'",
    "e = 'two' OR f IS NULL",
    "c = 'é4'",
    "j = 4",
    "NOT (a > 2)",
)


@pytest.mark.parametrize("direction", ["undo", "redo"])
def test_a_condition_takes_the_same_changes_as_a_look_at_all(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    direction: Direction,
) -> None:
    """Rows that do not meet it are not decoded: neither with their texts, nor with their bytes."""
    source = server("mysql-9.7")
    source.rotate()
    first = source.binlog_position()[0]
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b DECIMAL(9,3), c VARCHAR(9) CHARACTER SET latin1, "
            "d DATETIME(1), e ENUM('one', 'two'), f BLOB, j JSON) ENGINE=InnoDB"
        )
        rows = ", ".join(
            f"({at}, {at} - 4.75, '{'é' if at % 2 == 0 else 'x'}{at}', '2026-01-0{at % 9 + 1} 00:00:00.5', "
            f"{at % 2 + 1}, {'NULL' if at % 5 == 0 else 0xFF00 + at}, '{at}')"
            for at in range(12)
        )
        cursor.execute(f"INSERT INTO {database}.t VALUES {rows}")
        cursor.execute(f"UPDATE {database}.t SET b = -b, c = CONCAT('y', c), j = '[1]' WHERE a % 3")
        cursor.execute(f"DELETE FROM {database}.t WHERE a IN (3, 4, 9)")
        connection.commit()
    source.rotate()
    names = source.binlog_files()
    files = [source.binlog_path(name) for name in names[names.index(first) : -1]]
    archive = open_archive(files, index_directory=tmp_path)

    def scripts() -> list[list[str]]:
        found = []
        for condition in CONDITIONS:
            question = make_question([f"{database}.*"], where=condition)
            with make_statements(archive, question, direction) as statements:
                found.append([line for line in statements.lines() if "SELECT" not in line])
        return found

    screened = scripts()
    assert all(any(f"`{database}`" in line for line in script) for script in screened)
    monkeypatch.setattr(ChangeTest, "changes", lambda _, rows: iter(rows))
    # The bytes of every row, or of none: then the row is looked for.
    for changes in (_by_decoder, lambda *_: iter(())):
        monkeypatch.setattr(ChangeTest, "changes_by", changes)
        assert scripts() == screened


def _by_decoder(_: ChangeTest, rows: RowsOfEvent, decoder: RowImageDecoder) -> Iterator[Change]:
    given = (rows.event, rows.shape, decoder, rows.event_index, rows.first_row, rows.gtid)
    return iter(RowsOfEvent(*given))


REFUSED = [
    (
        "images",
        [
            "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE {d}.t SET b = 2",
            "SET SESSION binlog_row_image = FULL",
        ],
        "lacks [ab], ",
    ),
    ("ddl", ["UPDATE {d}.t SET b = 2", "ALTER TABLE {d}.t ADD c INT"], "ALTER TABLE"),
    ("truncate", ["UPDATE {d}.t SET b = 2", "TRUNCATE TABLE {d}.t"], "TRUNCATE"),
    (
        "statement",
        [
            "SET SESSION binlog_format = STATEMENT",
            "UPDATE {d}.t SET b = 2",
            "SET SESSION binlog_format = ROW",
        ],
        "logged as text",
    ),
    (
        "cascade",
        [
            "CREATE TABLE {d}.child (a INT, FOREIGN KEY (a) REFERENCES {d}.t (a) ON DELETE CASCADE)",
            "DELETE FROM {d}.t",
        ],
        "foreign keys",
    ),
]


@pytest.mark.parametrize(("what", "statements", "reason"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_would_not_be_exact_is_refused(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    what: str,
    statements: list[str],
    reason: str,
) -> None:
    source = server("mariadb-11.8")
    source.rotate()
    first = source.binlog_position()[0]
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 1)")
        connection.commit()
        for statement in statements:
            cursor.execute(statement.format(d=database))
            connection.commit()
    source.rotate()
    names = source.binlog_files()
    files = [source.binlog_path(name) for name in names[names.index(first) : -1]]
    archive = open_archive(files, index_directory=tmp_path)
    with pytest.raises(DataLossError, match=reason):
        make_statements(archive, make_question([f"{database}.*"]), "undo")


def test_a_live_table(server: Callable[[str], LocalServer], tmp_path: Path) -> None:
    source = server("mysql-9.7")
    assert not undo_live.prove(source, tmp_path, 3, seconds=1)["wrong"]
