"""Settings of our sessions: sent at each login, one by one where a server lacks one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_client.errors import ServerError
from replica_client.server.understood_sql import Rows
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.server_statements import SESSION, reading_session
from replica_client.testing import BinlogSource
from tests.source.binlogs import BinlogMaker


class _Refusing(dict[str, Rows]):
    """Answers nothing; refuses statements with a word."""

    def __init__(self, word: str, errno: int) -> None:
        super().__init__()
        self._word, self._errno = word.upper(), errno

    def get(self, sql: str, default: object = None) -> Rows | None:  # type: ignore[override]
        if self._word and self._word in sql:
            raise ServerError(self._errno, "HY000", f"no {self._word}")
        if sql.startswith("SELECT @@VERSION, "):
            # A server that ignores the character set of the login.
            return sql.split()[1:], [
                ("9.7.4", "", 1, 0, "latin1", "6a3f6f56-0000-11ee-be56-0242ac120002")
            ]
        return ((), []) if sql.startswith("SET") else None


async def _statements(tmp_path: Path, word: str = "", errno: int = 1193) -> list[str]:
    source = BinlogSource(BinlogMaker().save(tmp_path / "binlog.000001"))
    source.answers = _Refusing(word, errno)
    async with source:
        async with await SourceConnection.open(parse_url(source.url)):
            pass
        return source.seen_statements


async def test_a_session_is_utf8_and_has_no_limit(tmp_path: Path) -> None:
    seen = await _statements(tmp_path)
    assert seen.count("SET NAMES utf8mb4") == 1
    assert seen.count(reading_session()) == 1


async def test_a_server_without_one_of_the_settings_has_the_others(tmp_path: Path) -> None:
    seen = await _statements(tmp_path, "sql_quote_show_create")
    for assignment in SESSION:
        alone = seen.count(f"SET SESSION {assignment}")
        assert alone == (not assignment.startswith("/*"))


async def test_another_refusal_of_the_settings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no SQL_BIG_SELECTS"):
        await _statements(tmp_path, "sql_big_selects", 1105)


async def test_a_server_without_utf8mb4(tmp_path: Path) -> None:
    seen = await _statements(tmp_path, "SET NAMES utf8mb4", 1115)
    assert seen.count("SET NAMES utf8") == 1
    with pytest.raises(ServerError, match="no SET NAMES UTF8MB4"):
        await _statements(tmp_path, "SET NAMES utf8mb4", 1105)
