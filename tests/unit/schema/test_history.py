"""Versions by place: kept, forgotten, saved, read again."""

from __future__ import annotations

import json

import pytest

from replica_client.errors import SchemaError
from replica_client.schema.catalog import ABSENT
from replica_client.schema.history import LogPosition, SchemaHistory
from replica_client.schema.model import DatabaseModel, TableModel
from tests.unit.schema.tables import MYSQL, columns, history_of

STATEMENTS = (
    "CREATE TABLE t (a INT)",
    "ALTER TABLE t ADD b ENUM('x', 'y')",
    "RENAME TABLE t TO u",
    "CREATE TEMPORARY TABLE tmp (a INT)",
)


def test_positions_are_ordered_by_number() -> None:
    positions = [
        LogPosition.of("b.000009", 9),
        LogPosition.of("b.000010", 4),
        LogPosition.of("b.999999", 4),
    ]
    assert positions[0] < positions[1] < positions[2]
    assert LogPosition.of("b.999999", 4) < LogPosition.of("b.1000000", 4)
    assert LogPosition.parse("b.000009:9") == positions[0]
    with pytest.raises(SchemaError):
        LogPosition.parse("b.000009")


def test_versions_say_since_when() -> None:
    history = history_of(*STATEMENTS)
    versions = history.versions(("d", "t"))
    assert [str(version.since) for version in versions] == [
        "binlog.000001:110",
        "binlog.000001:120",
        "binlog.000001:130",
    ]
    assert versions[-1].state is ABSENT
    assert columns(history, "u") == "a int, b enum('x','y') charset utf8mb4"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (131, None),
        (130, "a int, b enum('x','y') charset utf8mb4"),
        (120, "a int"),
    ],
)
def test_rewind(offset: int, expected: str | None) -> None:
    history = history_of(*STATEMENTS)
    history.rewind("binlog.000001", offset)
    if expected is None:
        assert history.table(("d", "t")) is ABSENT
        return
    assert columns(history) == expected
    assert history.table(("d", "u")) is None
    # Read again, it comes to the same.
    for number, text in enumerate(STATEMENTS, 1):
        if 100 + 10 * number >= offset:
            history.run(text, MYSQL, "binlog.000001", 100 + 10 * number)
    assert history.to_json() == history_of(*STATEMENTS).to_json()


def test_rewind_before_everything_knows_nothing() -> None:
    history = history_of(*STATEMENTS)
    history.rewind("binlog.000001", 4)
    assert not history.tables()
    assert not history.databases()


def test_prune_keeps_what_is_needed_from_a_position_on() -> None:
    alters = [f"ALTER TABLE t ADD c{n} INT" for n in range(10)]
    history = history_of("CREATE TABLE t (a INT)", *alters)
    history.prune("binlog.000001", 165, keep=2)  # after the fifth ALTER
    assert [v.since.offset for v in history.versions(("d", "t"))] == [
        150,
        160,
        170,
        180,
        190,
        200,
        210,
    ]
    history.rewind("binlog.000001", 165)
    assert columns(history) == "a int, c0 int, c1 int, c2 int, c3 int, c4 int"


def test_prune_forgets_tables_that_are_gone() -> None:
    history = history_of("CREATE TABLE t (a INT)", "DROP TABLE t")
    history.prune("binlog.000001", 999)
    assert history.tables() == []


def test_json_and_state() -> None:
    history = history_of(
        *STATEMENTS, "ALTER TABLE u FROB", "CREATE TABLE v (a INT, PRIMARY KEY (a))"
    )
    again = SchemaHistory.from_json(json.loads(json.dumps(history.to_json())))
    assert again.to_json() == history.to_json()
    from_state = SchemaHistory.from_state(history.to_state())
    assert from_state.to_json() == history.to_json()
    # Its temporary tables are still hidden ones.
    from_state.run("ALTER TABLE tmp ADD b INT", MYSQL, "binlog.000001", 900)
    assert from_state.table(("d", "tmp")) is None


def test_state_is_compact() -> None:
    many = [f"CREATE TABLE t{n} ({', '.join(f'c{i} INT' for i in range(20))})" for n in range(500)]
    state = history_of(*many).to_state()
    assert len(state) < 100_000


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"format": "replica-client-schema", "version": 2},
        {"format": "replica-client-schema", "version": 1},
        {
            "format": "replica-client-schema",
            "version": 1,
            "place": "x:1",
            "databases": {},
            "tables": 5,
        },
        {
            "format": "replica-client-schema",
            "version": 1,
            "place": "x:1",
            "databases": {},
            "tables": {"d": {"t": [{"since": "x:1", "table": {"columns": [{"nme": "a"}]}}]}},
        },
    ],
)
def test_damaged_histories_are_refused(value: object) -> None:
    with pytest.raises(SchemaError):
        SchemaHistory.from_json(value)


@pytest.mark.parametrize("text", ["", "x", "AAAA", 5, None])
def test_damaged_states_are_refused(text: object) -> None:
    with pytest.raises(SchemaError):
        SchemaHistory.from_state(text)


def test_cut_state_is_refused() -> None:
    state = history_of(*STATEMENTS).to_state()
    for size in range(0, len(state) - 4, 4):
        with pytest.raises(SchemaError):
            SchemaHistory.from_state(state[:size])


def test_lower_case_names() -> None:
    history = SchemaHistory(lower_case_names=True)
    history.run("CREATE TABLE D.Tab (a INT)", MYSQL, "binlog.000001", 4)
    assert isinstance(history.table(("d", "tab")), TableModel)


def test_moved() -> None:
    history = history_of(*STATEMENTS)
    history.moved(LogPosition.of("binlog.000001", 50)).rewind("binlog.000001", 51)
    moved = history.moved(LogPosition.of("binlog.000001", 50))
    moved.rewind("binlog.000001", 51)
    assert columns(moved, "u") == "a int, b enum('x','y') charset utf8mb4"


@pytest.mark.parametrize("complete", [False, True])
def test_tables_that_come_and_go_leave_little(complete: bool) -> None:
    """Months of tables with names of their own, in a database of which all is known, or not."""
    history = SchemaHistory(lower_case_names=False)
    history.set_database("d", DatabaseModel("utf8mb4", complete))
    history.run("CREATE TABLE stays (a INT)", MYSQL, "binlog.000001", 90)
    sizes = []
    for number in range(4000):
        history.run(f"CREATE TABLE t{number} (a INT)", MYSQL, "binlog.000001", 100 + 10 * number)
        history.run(f"DROP TABLE t{number}", MYSQL, "binlog.000001", 105 + 10 * number)
        history.prune("binlog.000001", 106 + 10 * number)
        sizes.append(sum(map(len, history.to_parts())))
    assert len(history.tables()) <= 1002
    assert max(sizes[3000:]) < 1.5 * max(sizes[1500:2500])
    assert history.known_tables() == [("d", "stays")]
    again = SchemaHistory.from_state(history.to_parts())
    assert again.tables() == history.tables()


def test_beyond_the_limit_of_reports_new_ones_are_reported() -> None:
    history = SchemaHistory()
    texts = [f"d.t: reason {number}" for number in range(1500)]
    assert all(map(history.is_new, texts))
    assert not any(map(history.copy().is_new, texts[-900:]))
    assert history.is_new(texts[0])
