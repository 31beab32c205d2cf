"""Rules of live streams that need no source: when to try again, where scans begin, what labels mean."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from replica_client.errors import (
    AccessDeniedError,
    BinlogReadError,
    ServerError,
    TlsError,
    TransportError,
)
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.server_errors import UNKNOWABLE_ERRORS
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import LogPosition, SchemaHistory
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.stream.live import binlog_scan
from replica_client.stream.live.live_definitions import _texts
from replica_client.stream.live.live_schema import SchemaProver, _Reading
from replica_client.stream.live.stream_options import ReconnectPolicy, asked
from replica_client.stream.transactions.query_text import _is_before_8
from tests.unit.schema.tables import history_of


def test_the_first_try_is_at_once_and_bounds_double() -> None:
    delays = list(ReconnectPolicy(0.25, 1.0, attempts=6).delays(random.Random(1)))
    assert delays[0] == 0.0
    for delay, bound in zip(delays[1:], (0.25, 0.5, 1.0, 1.0, 1.0), strict=True):
        assert bound / 2 <= delay <= bound


@pytest.mark.parametrize(
    ("flavor", "version", "before"),
    [
        (ServerFlavor.MYSQL, (5, 7, 44), True),
        (ServerFlavor.MYSQL, (8, 0, 0), False),
        (ServerFlavor.MYSQL, (9, 7, 0), False),
        (ServerFlavor.MARIADB, (5, 5, 0), False),
    ],
)
def test_servers_before_mysql_8(flavor: ServerFlavor, version: tuple, before: bool) -> None:
    assert _is_before_8(StatementContext("d", flavor, version)) == before


def test_labels_come_as_hexadecimal_text_of_the_columns_character_set() -> None:
    column = ColumnModel("c", "enum", charset="latin1")
    assert _texts(column, [(1, "e9"), (2, b"61"), (3, "6")]) == {1: "é", 2: "a"}
    utf8 = ColumnModel("c", "enum", charset="utf8mb4")
    assert _texts(utf8, [(1, "c3a9"), (2, "ff")]) == {1: "é"}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1], []), ([2, 2, 2, 2], [3]), ([4, 4, 4, 4], [3, 4]), ([16], [])],
)
async def test_connections_share_a_scan(
    sizes: list[int], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are thirds of a part; each connection begins with a file of its own, and reads about as much."""
    monkeypatch.setattr(binlog_scan, "_CONNECTIONS", 3)
    part = binlog_scan._PART_SIZE
    logs = [(f"b.{number:06}", size * part // 3) for number, size in enumerate(sizes, 1)]

    async def binary_logs() -> list[tuple[str, int]]:
        return logs

    connection = SimpleNamespace(binary_logs=binary_logs)
    begins = await binlog_scan._later_begins(connection, "b.000001", 0)
    assert [int(begin.file.removeprefix("b.")) for begin in begins] == expected


@pytest.mark.parametrize(
    ("create", "expected"),
    [("create table t (a varchar(9)) charset latin1", True), ("create table u (a int)", False)],
)
def test_what_was_read_is_known_afterwards(create: str, expected: bool) -> None:
    """A table that was read need not be asked for again; one that was not there has to be."""
    table = ("d", "t")
    prover = SchemaProver(SimpleNamespace(), DecodeOptions())  # type: ignore[arg-type]
    models = {
        (one.database, one.name): one
        for name in ("t", "u")
        if isinstance(one := history_of(create).table(("d", name)), TableModel)
    }
    reading = _Reading(models, {}, LogPosition.of("b.000001", 4), LogPosition.of("b.000001", 9))
    history = SchemaHistory()
    position = LogPosition.of("b.000001", 4)
    assert prover._adopt(history, table, position, reading) is expected
    assert isinstance(history.table(table), TableModel) is expected


NOW = ReconnectPolicy(first_delay=0.0, max_delay=0.0, attempts=20)
LIMIT, DENIED = ServerError(3024, "HY000", "interrupted"), AccessDeniedError(1142, "42000", "no")


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (LIMIT, 3),
        (ServerError(1969, "70100", "interrupted"), 3),
        (ServerError(1040, "08004", "too many connections"), 3),
        (TransportError("lost"), 3),
        (DENIED, 1),
        (TlsError("no certificate"), 1),
        (BinlogReadError(1236, "HY000", "purged"), 1),
        *(
            (ServerError(errno, "HY000", "cannot be known"), 1)
            for errno in sorted(UNKNOWABLE_ERRORS)
        ),
    ],
    ids=str,
)
async def test_a_question_that_failed_is_no_answer(error: Exception, tries: int) -> None:
    """All but what another try does not change is asked again, and the answer is believed."""
    made = 0

    async def question() -> int:
        nonlocal made
        made += 1
        if made < 3:
            raise error
        return made

    if tries == 1:
        with pytest.raises(type(error)):
            await asked(question, "tables", NOW)
    else:
        assert await asked(question, "tables", NOW) == 3
    assert made == tries


@pytest.mark.parametrize(
    "errno", [1040, 1053, 1203, 1205, 1213, 1226, 1317, 1927, 1969, 3024, 3032, 3169, 4031]
)
async def test_an_error_that_time_overcomes_is_no_refusal(errno: int) -> None:
    """A limit, a full server and a killed session are asked again more often than a refusal."""
    made = 0

    async def question() -> int:
        nonlocal made
        made += 1
        if made < 9:
            raise ServerError(errno, "HY000", "not now")
        return made

    assert await asked(question, "tables", NOW) == 9


async def test_a_question_is_given_up() -> None:
    """Refusals that may last are few tries; an answer that is no longer wanted is none."""
    made = 0

    async def question() -> None:
        nonlocal made
        made += 1
        raise ServerError(9999, "HY000", "unknown")

    with pytest.raises(ServerError):
        await asked(question, "tables", NOW)
    assert made == 5
    made = 0
    with pytest.raises(ServerError):
        await asked(question, "tables", NOW, is_wanted=lambda: False)
    assert made == 1


async def test_an_error_that_passes_here_is_asked_again() -> None:
    made = 0

    async def question() -> int:
        nonlocal made
        made += 1
        if made == 1:
            raise DENIED
        return made

    assert await asked(question, "tables", NOW, goes_on=lambda error: error is DENIED) == 2
