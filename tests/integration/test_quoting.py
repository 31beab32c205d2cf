"""What the one quoting function makes, real servers read as it was meant: in every mode and charset."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from replica_client.schema.names import (
    mysql_name,
    mysql_names,
    mysql_table,
    mysql_text,
    mysql_value,
)
from replica_client.stream.snapshot.chunks import key_ranges, read_chunk
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration

MODES = (
    "",
    "NO_BACKSLASH_ESCAPES",
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
    "ANSI,PIPES_AS_CONCAT,IGNORE_SPACE,NO_BACKSLASH_ESCAPES",
    "TRADITIONAL,HIGH_NOT_PRECEDENCE",
)
CHARSETS = ("utf8mb4", "utf8", "latin1", "gbk", "sjis", "big5", "cp932", "gb18030")
PIECES = (
    *("\\", "'", '"', "`", "%", "%s", "%%", "--", "#", "/*", "*/", ";", "\n", "\r", "\x1a", "\t"),
    *(
        "\\'",
        "\\\\",
        "''",
        "', ",
        ")",
        "(",
        "é",
        "日",
        "ｱ",
        "\u00a5",
        "\u20a9",
        "뗏",
        "縗",
        "a",
        " ",
    ),
    *("${x}", "{}", ":1", "?", "@a", "x'41'", "_utf8mb4", "\\0", "\\n", "DROP TABLE t", "0"),
)


def texts(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    made = {"".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(count)}
    return sorted(made)


def as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def test_texts_and_names_in_every_mode(any_server: LocalServer, new_database: Any) -> None:
    database = new_database(any_server)
    with any_server.connected() as connection, connection.cursor() as cursor:
        for number, mode in enumerate(MODES):
            cursor.execute("SET NAMES utf8mb4")
            cursor.execute(f"SET SESSION sql_mode = '{mode}'")
            escapes = "NO_BACKSLASH_ESCAPES" not in mode
            wanted = texts(number, 200)
            quoted = [mysql_text(text, backslash_escapes=escapes) for text in wanted]
            cursor.execute(f"SELECT {', '.join(quoted)}")
            assert [as_text(value) for value in cursor.fetchone()] == wanted
            # Labels, comments and names are what is read back.
            labels = sorted({text.rstrip(" ") for text in wanted if text.rstrip(" ")})[:60]
            labels = list({label.casefold(): label for label in labels}.values())
            names = [text.strip() or "x" for text in texts(100 + number, 40)]
            names = list({name.casefold()[:60]: name[:60] for name in names}.values())
            columns = [f"{mysql_name(name)} INT" for name in names if name.rstrip(" ") == name]
            table = mysql_table(database, f"t{number}`\"'\\%s")
            listed = ", ".join(mysql_text(label, backslash_escapes=escapes) for label in labels)
            comment = "".join(wanted)[:200]
            cursor.execute(
                f"CREATE TABLE {table} ({', '.join(columns)}, e_e ENUM({listed}) CHARACTER SET utf8mb4 "
                f"COLLATE utf8mb4_bin) COMMENT = {mysql_text(comment, backslash_escapes=escapes)}"
            )
            cursor.execute(f"SHOW COLUMNS FROM {table}")
            assert [row[0] for row in cursor.fetchall()][:-1] == [
                name for name in names if name.rstrip(" ") == name
            ]
            for at, label in enumerate(labels, 1):
                cursor.execute(f"INSERT INTO {table} (e_e) VALUES ({at})")
                assert cursor.rowcount == 1, label
            cursor.execute(f"SELECT e_e FROM {table} ORDER BY e_e + 0")
            assert [row[0] for row in cursor.fetchall()] == labels
            cursor.execute(
                "SELECT table_comment FROM information_schema.tables "
                f"WHERE table_schema = {mysql_value(database)} "
                f"AND table_name = {mysql_value(f't{number}`' + chr(34) + chr(39) + chr(92) + '%s')}"
            )
            assert [as_text(row[0]) for row in cursor.fetchall()] == [comment]


def test_values_in_every_mode_and_charset(any_server: LocalServer) -> None:
    with any_server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
        known = {row[0] for row in cursor.fetchall()} | {"utf8"}
        for number, mode in enumerate(MODES):
            for charset in CHARSETS:
                if charset not in known:
                    continue
                cursor.execute("SET NAMES utf8mb4")
                cursor.execute(f"SET SESSION sql_mode = '{mode}'")
                cursor.execute(f"SET NAMES {charset}")
                wanted = [*texts(number, 60), "😀\\'", ""]
                literals = [f"HEX({mysql_value(text)})" for text in wanted]
                cursor.execute(f"SELECT {', '.join(literals)}")
                found = [bytes.fromhex(as_text(one)).decode() for one in cursor.fetchone()]
                assert found == wanted, (mode, charset)
        plain = [0, -5, 2**64 - 1, Decimal("-1.50"), b"\\'\0\xff", None]
        literals = [mysql_value(value) for value in plain]
        literals[4] = f"HEX({literals[4]})"
        cursor.execute(f"SELECT {', '.join(literals)}")
        row = cursor.fetchone()
        assert [*row[:3], row[3], bytes.fromhex(as_text(row[4])), row[5]] == plain
        cursor.execute("SET NAMES utf8mb4, SESSION sql_mode = DEFAULT")


async def test_a_session_talks_utf8_whatever_the_server_makes_of_the_login(
    fresh_server: Any,
) -> None:
    server: LocalServer = fresh_server(
        "mariadb-11.8",
        [
            "character-set-server=gbk",
            "skip-character-set-client-handshake",
            "sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
            "init-connect=SET NAMES gbk",
        ],
    )
    # In GBK the last byte of é and the backtick behind it are one character.
    names = ["é", "縗é`", "a\\", 'b"é', "%s", "50%%"]
    async with await SourceConnection.open(parse_url(server.url("root"))) as connection:
        await connection.query("CREATE DATABASE `é`")
        for name in names:
            table = mysql_table("é", name)
            await connection.query(
                f"CREATE TABLE {table} ({mysql_name(name)} VARCHAR(40) CHARACTER SET utf8mb4 "
                f"COLLATE utf8mb4_bin PRIMARY KEY)"
            )
            values = ", ".join(f"({mysql_value(text)})" for text in texts(3, 50))
            await connection.query(f"INSERT INTO {table} ({mysql_names([name])}) VALUES {values}")
        server.execute("CREATE USER plain@'%' IDENTIFIED BY 'secret'")
        server.execute("GRANT ALL ON *.* TO plain@'%'")  # ALL has no CONNECTION ADMIN check here
    for user in ("root", "repl"):
        async with await SourceConnection.open(parse_url(server.url(user))) as connection:
            found = await connection.query(
                "SELECT @@character_set_client, @@character_set_connection, @@character_set_results"
            )
            assert found == [("utf8mb4", "utf8mb4", "utf8mb4")]
    async with await SourceConnection.open(parse_url(server.url("root"))) as connection:
        definitions = await read_definitions(connection)
        for name in names:
            model = definitions["é", name]
            assert model.column_names == (name,)
            found = []
            async for part in key_ranges(connection, model, 7):
                chunk = await read_chunk(connection, model, part)
                found += [row[0] for row in chunk.rows]
            assert sorted(found) == sorted(texts(3, 50))
