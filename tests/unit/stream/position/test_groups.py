"""The grammar of event groups: what ends, and what begins."""

import pytest

from replica_client.protocol.binlog.layout import EventClass, query_text
from replica_client.stream.position.groups import (
    STEPS,
    Ending,
    State,
    _table,
    control_of,
    is_plain_statement,
    query_class,
    step,
)

# Classes one after the other; | where a group ends, ! where the one before was never finished, & where the
# one before, in a payload, was complete.
GROUPS = """
GTID BEGIN TABLE_MAP ROWS COMMIT |
GTID BEGIN ANNOTATION TABLE_MAP ROWS ROWS TABLE_MAP ROWS ROLLBACK | GTID
GTID BEGIN PART STATEMENT STATEMENT PREPARE |
GTID STATEMENT |
GTID PART PART STATEMENT |
GTID PAYLOAD BEGIN TABLE_MAP ROWS COMMIT |
GTID PAYLOAD GTID & STATEMENT |
GTID PAYLOAD BEGIN GTID_BEGIN & COMMIT |
GTID_BEGIN ANNOTATION TABLE_MAP ROWS COMMIT |
GTID_BEGIN BEGIN STATEMENT COMMIT |
GTID_BEGIN TABLE_MAP GTID_BEGIN ! COMMIT |
GTID GTID ! STATEMENT |
GTID BEGIN GTID ! BEGIN COMMIT |
BEGIN ROWS COMMIT | BEGIN BEGIN ! COMMIT |
STATEMENT | PART STATEMENT | PART GTID ! STATEMENT |
LOAD_PART STATEMENT | LOAD_PART LOAD_END |
BEGIN LOAD_PART LOAD_END COMMIT |
GTID OUTSIDE BEGIN OUTSIDE COMMIT | OUTSIDE
UNKNOWN COMMIT |
TABLE_MAP STATEMENT |
"""
MARKS = {"|": Ending.ENDS, "!": Ending.ABANDONED, "&": Ending.COMPLETE}


@pytest.mark.parametrize("line", GROUPS.split("\n")[1:-1])
def test_groups_end_where_they_should(line: str) -> None:
    state, ending = int(State.BETWEEN), 0
    words = line.split()
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in MARKS:
            continue
        found = step(STEPS, state, EventClass[word])
        assert not found & Ending.UNCERTAIN
        ending = found & ~Ending.STATE
        assert ending == MARKS.get(following, 0), word
        state = found & Ending.STATE
        assert (state == State.BETWEEN) == (following == "|" or (word == "OUTSIDE" and not state))


@pytest.mark.parametrize("event_class", EventClass)
@pytest.mark.parametrize("state", State)
def test_every_class_has_a_step_from_every_state(state: State, event_class: EventClass) -> None:
    found = step(STEPS, state, event_class)
    State(found & Ending.STATE)
    uncertain = event_class >= EventClass.ROWS
    if event_class is EventClass.ROWS:
        # Where a commit ends the group, the flag of the last rows says nothing.
        uncertain = step(STEPS, state, EventClass.STATEMENT) != state
    assert bool(found & Ending.UNCERTAIN) == uncertain
    if found & Ending.ENDS:
        assert found == Ending.ENDS
    if found & (Ending.ABANDONED | Ending.COMPLETE):
        assert state is not State.BETWEEN
    if event_class is EventClass.OUTSIDE:
        assert found == state


def body_of(text: bytes, database: bytes = b"d", status: bytes = b"\0\0\0\0\0") -> bytes:
    head = bytes(8) + bytes((len(database), 0, 0)) + len(status).to_bytes(2, "little")
    return head + status + database + b"\0" + text


@pytest.mark.parametrize(
    "text", [b"BEGIN", b"COMMIT", b"begin", b"XA START", b"ROLLBACK", b"BEGI", b"COMMIT;;", b""]
)
def test_control_statements_are_those_of_the_full_text(text: bytes) -> None:
    body = body_of(text)
    found = control_of(body, 0, len(body))
    if found != EventClass.QUERY:
        assert found is query_class(text)
    assert (found != EventClass.QUERY) == (text in (b"BEGIN", b"COMMIT"))
    for end in range(len(body) - 2):
        assert control_of(body, 0, end) == EventClass.QUERY
    wrong = bytearray(body)
    wrong[-len(text) - 1] = 1  # behind the database
    assert control_of(wrong, 0, len(wrong)) == EventClass.QUERY


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        (b"CREATE TABLE t (id INT)", True),
        (b"savepoint a1", True),
        (b"ROLLBACK TO a", False),
        (b"XA COMMIT 'a'", False),
        (b"rollback /* a */", False),
        (b"xa end 'a'", False),
        (b"BEGIN", False),
        (b"INSERT I", False),
        (b"", False),
    ],
)
def test_plain_statements_are_statements(text: bytes, is_plain: bool) -> None:
    body = body_of(text)
    at = query_text(body, 0)
    assert is_plain_statement(body, at, len(body)) is is_plain
    if is_plain:
        assert query_class(text) is EventClass.STATEMENT
    assert not is_plain_statement(body, at, at + 8)
    wrong = bytearray(body)
    wrong[at - 1] = 1  # behind the database
    assert not is_plain_statement(wrong, at, len(wrong))


def test_the_steps_are_those_of_the_grammar() -> None:
    """The table is made once, when the module is imported; made again it is the same, and of full size."""
    assert _table() == STEPS
    expected = {
        (State.BETWEEN, EventClass.GTID): State.NAMED,
        (State.BETWEEN, EventClass.GTID_BEGIN): State.OPEN,
        (State.PAYLOAD, EventClass.GTID): State.NAMED | Ending.COMPLETE,
        (State.OPEN, EventClass.GTID): State.NAMED | Ending.ABANDONED,
        (State.OPEN, EventClass.COMMIT): State.BETWEEN | Ending.ENDS,
        (State.OPEN, EventClass.STATEMENT): State.OPEN,
        (State.NAMED, EventClass.STATEMENT): State.BETWEEN | Ending.ENDS,
        (State.BETWEEN, EventClass.PART): State.PARTS,
        (State.NAMED, EventClass.TABLE_MAP): State.NAMED_PARTS,
        (State.OPEN, EventClass.OUTSIDE): State.OPEN,
        (State.BEGUN, EventClass.BEGIN): State.BEGUN | Ending.ABANDONED,
        (State.PAYLOAD, EventClass.BEGIN): State.PAYLOAD_OPEN,
        (State.BEGUN, EventClass.PAYLOAD): State.PAYLOAD_OPEN,
        (State.NAMED, EventClass.PAYLOAD): State.PAYLOAD,
        (State.OPEN, EventClass.ROWS): State.OPEN,
        (State.NAMED, EventClass.ROWS): Ending.UNCERTAIN,
    }
    assert {key: _table()[key[0] << 5 | key[1]] for key in expected} == expected


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (b"", b"BEGIN", "BEGIN"),
        (b"shop", b"BEGIN", "BEGIN"),
        (b"shop", b"COMMIT", "COMMIT"),
        (b"", b"begin", "QUERY"),
        (b"", b"BEGIN ", "QUERY"),
        (b"", b"COMMI", "QUERY"),
        (b"", b"BEGI", "QUERY"),
        (b"", b"COMMITS", "QUERY"),
        (b"", b"", "QUERY"),
    ],
)
def test_only_the_plain_texts_begin_and_commit(schema: bytes, text: bytes, expected: str) -> None:
    """The body of a QUERY event: thread, seconds, size of the schema, error code, size of the variables."""
    for variables in (b"", b"\0\1\2\3\4"):
        head = bytes(8) + bytes((len(schema), 0, 0, len(variables), 0))
        body = head + variables + schema + b"\0" + text
        for before in (0, 19):
            data = bytes(before) + body
            assert control_of(data, before, len(data)) == EventClass[expected]
        assert control_of(body[:12], 0, 12) == EventClass.QUERY
