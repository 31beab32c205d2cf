"""Thirteen tables of every type, with rows at the edges: what a lake must have as the source has it."""

from typing import Any

TYPES = {
    "integers": (
        "a tinyint, b smallint unsigned, c mediumint, d int unsigned, e bigint unsigned, f year, g bit(64)",
        "-128, 65535, -8388608, 4294967295, 18446744073709551615, 2155, b'1'",
        "1, 0, 0, 0, 0, 1999, b'1000000000000000000000000000000000000000000000000000000000000001'",
    ),
    "numbers": (
        "a float, b double, c decimal(65,30), d decimal(10,2), e decimal(38,0)",
        "16777217.1, 1e-300, -12345678901234567890123456789012345.000000000000000000000000000001, 0.5, -1",
        "0.1, -0.0, 0, -99999999.99, 99999999999999999999999999999999999999",
    ),
    "times": (
        "a date, b time(6), c datetime(3), d timestamp(6) null, e datetime",
        "'9999-12-31', '-838:59:58.999999', '2026-02-03 04:05:06.789', '2038-01-19 03:14:07.000001', "
        "'2026-01-01 00:00:00'",
        "'0000-00-00', '00:00:00', '0000-00-00 00:00:00', '1970-01-01 00:00:01', '2026-00-10 01:02:03'",
    ),
    "texts": (
        "a char(5), b varchar(20), c varchar(20) character set latin1, d longtext, e enum('a', 'b'), f set('x', 'y')",
        "'ab', 'é ✓😀', 'café', 'long \\\\ \\n', 'b', 'x,y'",
        "'', '', '', '', 'a', ''",
    ),
    "octets": (
        "a binary(4), b varbinary(9), c blob, d point, e json",
        "x'0100', x'', x'00ff', point(1, -2), '{\"b\": [1, null, 2.5]}'",
        "'abcd', 'z', 'b', point(0, 0), '[]'",
    ),
}

KEYS = {
    "pairs": (
        "a varchar(9), b date, v int, primary key (a, b)",
        "'é', '2026-01-01', 1",
        "'', '0000-00-00', null",
    ),
    "days": ("d date primary key, v bit(3)", "'2026-01-01', 5", "'2026-00-00', null"),
    "octet_keys": ("k varbinary(9) primary key, v json", "x'00ff', '[1]'", "x'', 'null'"),
}
"""Tables with keys of other kinds than a number."""

NAMES = (*TYPES, *(f"{name}_twice" for name in TYPES), *KEYS)
"""All of them; those called ``…_twice`` have no key, and equal rows."""


def make_types(server: Any, database: str) -> None:
    """Make the tables, each with its first row."""
    statements = []
    for name, (columns, row, *_) in TYPES.items():
        for table, key in ((name, "id int primary key"), (f"{name}_twice", "id int")):
            statements += [
                f"create table {table} ({key}, {columns}) character set utf8mb4",
                f"insert into {table} values (0, {row})",
            ]
    for name, (columns, row, *_) in KEYS.items():
        statements += [
            f"create table {name} ({columns}) character set utf8mb4",
            f"insert into {name} values ({row})",
        ]
    _execute(server, database, statements)


def change_types(server: Any, database: str) -> None:
    """Give the tables their other rows, and change keys."""
    statements = []
    for name, (_, _, *rows) in TYPES.items():
        for table in (name, f"{name}_twice"):
            statements += [
                f"insert into {table} values ({number}, {row})"
                for number, row in enumerate(rows, 1)
            ]
            statements += [
                f"insert into {table} (id) values (2)",
                f"update {table} set id = id + 10 where id = 0",
            ]
        statements.append(f"insert into {name}_twice select * from {name}")
    for name, (_, _, *rows) in KEYS.items():
        statements += [f"insert into {name} values ({row})" for row in rows]
    _execute(server, database, statements)


def _execute(server: Any, database: str, statements: list[str]) -> None:
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = '', time_zone = '+00:00', names utf8mb4")
        cursor.execute(f"use {database}")
        for statement in statements:
            cursor.execute(statement)
