"""The work for a hostile statement grows with its length, not with its square.

Counted are calls and loops of Python (trace events), and the characters and tokens that are copied in one piece,
which no trace shows: nothing here depends on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.ddl import create, lexer, statements
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import changed_tables, read_statement
from replica_client.schema.model import TableModel
from replica_client.stream.transactions.query_text import first_word
from tests.unit.schema.tables import history_of

SIZE = 150
CONTEXTS = [
    StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0)),
    StatementContext("d", ServerFlavor.MARIADB, (11, 8, 0)),
]
# A beginning, what is repeated, an end.
TEXTS = {
    "adjacent strings": ("CREATE TABLE t (a ENUM(", "'a'\n'a' ", "))"),
    "doubled quotes": ("CREATE TABLE t (a ENUM('", "''", "'))"),
    "escaped quotes": ("CREATE TABLE t (a ENUM('", "\\'", "'))"),
    "labels": ("CREATE TABLE t (a ENUM('x'", ",'y'", "))"),
    "open strings": ("CREATE TABLE t (a INT DEFAULT ", "x'", ""),
    "hexadecimal strings": ("CREATE TABLE t (a INT DEFAULT ", "x'1'", ")"),
    "backquotes": ("CREATE TABLE ", "`", ""),
    "names in backquotes": ("CREATE TABLE ", "`a`", ""),
    "open brackets": ("CREATE TABLE t (", "(", ""),
    "brackets": ("CREATE TABLE t (a INT DEFAULT (1", ")(", "))"),
    "what follows TABLE": ("CREATE TABLE t ? ", "TABLE a ", ""),
    "what follows RENAME": ("ALTER TABLE t ? ", "RENAME TO a,", ""),
    "what follows DATABASE": ("CREATE DATABASE ", "DATABASE ", ""),
    "semicolons": ("DROP TABLE t", ";", ""),
    "comments": ("CREATE TABLE t (a INT", "/* */", ")"),
    "open comments": ("CREATE TABLE t (a INT ", "/*", ""),
    "comments in comments": ("/*!99999 ", "/* */", "*/ CREATE TABLE t (a INT)"),
    "executable comments": ("CREATE TABLE t (a INT ", "/*! */", ")"),
    "line comments": ("CREATE TABLE t (a INT\n", "#\n", ")"),
    "dashes": ("CREATE TABLE t ", "-", ""),
    "digits": ("CREATE TABLE t (a INT DEFAULT ", "1", "x)"),
    "exponents": ("CREATE TABLE t (a INT DEFAULT ", "1e", ")"),
    "dots": ("CREATE TABLE ", ".", ""),
    "spaces": ("CREATE TABLE", " ", "t (a INT)"),
    "columns": ("CREATE TABLE t (a INT", ",b INT", ")"),
    "keys": ("CREATE TABLE t (a INT", ",KEY k (a)", ")"),
    "steps": ("ALTER TABLE t ADD a INT", ",ADD b INT", ""),
    "options": ("CREATE TABLE t (a INT) ", "ENGINE=InnoDB ", ""),
    "dropped tables": ("DROP TABLE a", ",b", ""),
    "renamed tables": ("RENAME TABLE a TO b", ",b TO c", ""),
    "SET STATEMENT": ("SET STATEMENT a=1", ",a=1", " FOR DROP TABLE t"),
    "updated tables": ("UPDATE a", ",b", " SET a=1"),
    "deleted tables": ("DELETE a", ",b", " FROM a,b"),
    "common table expressions": ("WITH a AS (SELECT 1)", ",a AS (SELECT 1)", " DELETE FROM a"),
    "LOAD": ("LOAD DATA ", "INTO ", "TABLE t"),
    "inserted rows": ("INSERT INTO t VALUES (1)", ",(1)", ""),
    "brackets before a query": ("", "(", "SELECT 1"),
}


class Counted(list[lexer.Token]):
    """Tokens that count what is copied of them."""

    copied = 0

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        found = super().__getitem__(key)
        if isinstance(key, slice):
            Counted.copied += len(found)
            return Counted(found)
        return found


def steps(work: Callable[[], object]) -> int:
    count = 0

    def local(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += 1
        return local

    def called(frame: FrameType, event: str, argument: object) -> object:
        return local if "replica_client" in frame.f_code.co_filename else None

    before = Counted.copied
    old = sys.gettrace()
    sys.settrace(called)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(old)
    return count + Counted.copied - before


@pytest.mark.parametrize(
    "step",
    [
        "ADD d{0} INT",
        "ADD d{0} INT FIRST",
        "ADD d{0} INT AFTER c{0}",
        "MODIFY c{0} BIGINT",
        "MODIFY c{0} BIGINT FIRST",
        "CHANGE c{0} d{0} INT",
        "RENAME COLUMN c{0} TO d{0}",
        "ALTER COLUMN c{0} SET INVISIBLE",
        "DROP c{0}",
    ],
)
def test_twice_the_columns_and_steps_are_twice_the_work(step: str) -> None:
    def work(count: int) -> None:
        columns = ",".join(f"c{at} INT" for at in range(count))
        changed = ",".join(step.format(at) for at in range(count))
        history = history_of(f"CREATE TABLE t (x INT,{columns})", f"ALTER TABLE t {changed}")
        assert isinstance(history.table(("d", "t")), TableModel)

    one, two = (steps(partial(work, count)) for count in (SIZE, 2 * SIZE))
    assert two <= 2.2 * one, (one, two)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.flavor.name.lower())
def test_twice_the_text_is_twice_the_work(
    name: str, context: StatementContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, repeated, end = TEXTS[name]
    plain = lexer.Token

    def token(kind: str, text: str, upper: str, start: int, end: int) -> lexer.Token:
        Counted.copied += len(text)
        return plain(kind, text, upper, start, end)

    def tokens(text: str, context: StatementContext) -> Counted:
        return Counted(lexer._tokens(text, context))

    monkeypatch.setattr(lexer, "Token", token)
    monkeypatch.setattr(statements, "tokenize", tokens)
    monkeypatch.setattr(statements, "_kept_meaning", statements._meaning)
    monkeypatch.setattr(create, "tokenize", tokens)
    monkeypatch.setattr(create, "_LONGEST", 1 << 20)
    monkeypatch.setattr(create, "_behind_name", create._behind_name.__wrapped__)

    def work(count: int) -> None:
        text = begin + repeated * count + end
        read_statement(text, context)
        changed_tables(text, context)
        first_word(text.encode())

    one, two = (steps(partial(work, size)) for size in (SIZE, 2 * SIZE))
    assert two <= 2.2 * one, (one, two)
