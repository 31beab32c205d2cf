"""Tokens of statements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.schema.ddl.lexer import LexerError, tokenize
from replica_client.schema.ddl.statement_context import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    StatementContext,
)
from tests.unit.schema.tables import MARIADB, MYSQL


def texts(sql: str, context: StatementContext = MYSQL) -> list[str]:
    return [f"{token.kind[0]}:{token.text}" for token in tokenize(sql, context)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a `b c` 'd' 1 ,", ["w:a", "n:b c", "s:d", "n:1", "o:,"]),
        ("`a``b` 'c''d' \"e\"\"f\"", ["n:a`b", "s:c'd" + 'e"f']),
        (r"'a\'b\n\\\%'", ["s:a'b\n\\\\%"]),
        ("-- c\na # x\nb /* y; ' */ c", ["w:a", "w:b", "w:c"]),
        ("a--1", ["w:a", "o:-", "o:-", "n:1"]),
        ("1a 2 0x1F 1.5e3 b'01' x'1f'", ["w:1a", "n:2", "n:0x1F", "n:1.5e3", "n:b'01'", "n:x'1f'"]),
        (
            "123test `123` 12é 0xAZ 0b12 1.5 1.",
            ["w:123test", "n:123", "w:12é", "w:0xAZ", "w:0b12", "n:1.5", "n:1."],
        ),
        ("d.1t d.12t3", ["w:d", "o:.", "w:1t", "w:d", "o:.", "w:12t3"]),
        ("/*!50100 a */ b", ["w:a", "w:b"]),
        ("/*!999999 a /* c */ d */ b", ["w:b"]),
        ("/*! a */ /*M! b */ c", ["w:a", "w:c"]),
        ("größe", ["w:größe"]),
        ("a.`b`", ["w:a", "o:.", "n:b"]),
    ],
)
def test_tokens(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_executable_comments_of_mariadb() -> None:
    assert texts("/*M!100100 a */ b", MARIADB) == ["w:a", "w:b"]
    assert texts("/*M!120000 a */ b", MARIADB) == ["w:b"]
    # MariaDB leaves out what MySQL 5.7 and later added.
    assert texts("/*!80023 INVISIBLE */ b", MARIADB) == ["w:b"]
    assert texts("/*!80023 INVISIBLE */ b", MYSQL) == ["w:INVISIBLE", "w:b"]
    assert texts("/*!80023 INVISIBLE */ b", replace(MYSQL, version=(5, 7, 44))) == ["w:b"]


def test_sql_modes() -> None:
    assert texts('"a"', replace(MYSQL, sql_mode=MODE_ANSI_QUOTES)) == ["n:a"]
    assert texts(r"'a\' b", replace(MYSQL, sql_mode=MODE_NO_BACKSLASH_ESCAPES)) == ["s:a\\", "w:b"]


@pytest.mark.parametrize("sql", ["'a", "`a", "/* a", '"a', "/*!999999 a"])
def test_what_is_not_closed_is_refused(sql: str) -> None:
    with pytest.raises(LexerError):
        tokenize(sql, MYSQL)
