"""Whether a stream may go on for a sink that has read the same source by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.daemon.shared_knowledge import is_continued_by
from replica_client.gtid import GtidSet
from replica_client.position.position import Position
from replica_client.position.prepared import PREPARED_KEY
from replica_client.position.stores.base import Checkpoint
from replica_client.readers.live.source_identity import IDENTITY_KEY, FileMark, SourceIdentity
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import STATE_KEY, SchemaHistory

GTIDS = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7")
AT = Position("b.000002", 900, GTIDS)
IDENTITY = SourceIdentity("3e11fa47-71ca-11e1-9e33-c80aa9429562", 1, {"b.000002": FileMark(5, 1)})


def history(*statements, at=100):
    made = SchemaHistory(lower_case_names=False)
    for number, text in enumerate(statements):
        context = StatementContext("shop")
        made.run(text, context, "b.000002", at + 10 * number)
    return made


CREATE = "CREATE TABLE t (id INT PRIMARY KEY) CHARSET utf8mb4"
ALTER = "ALTER TABLE t ADD c INT"


def state(history, identity=IDENTITY, **more):
    return {STATE_KEY: history.to_parts(), IDENTITY_KEY: identity.to_state(), **more}


def continued(ours, theirs, position=AT, at=AT):
    return is_continued_by(Checkpoint(at, ours), position, theirs)


def test_the_same_knowledge_in_other_records_is_the_same():
    one = history(CREATE)
    one.to_parts()
    one.run(ALTER, StatementContext("shop"), "b.000002", 300)
    assert continued(state(one), state(history(CREATE, ALTER)))


def test_more_than_the_sink_knows_is_enough_and_less_is_not():
    other = "CREATE TABLE u (id INT) CHARSET utf8mb4"
    assert continued(state(history(CREATE)), state(history(CREATE, other)))
    assert not continued(state(history(CREATE, other)), state(history(CREATE)))


def test_another_definition_is_not_the_same():
    assert not continued(state(history(CREATE)), state(history(CREATE, ALTER)))


def test_defaults_that_the_sink_knows_are_known_to_the_stream():
    """Positions of earlier releases have none; what a default says is not compared."""
    said = history(CREATE, "ALTER TABLE t ADD c INT DEFAULT 5 COMMENT 'x'")
    other = history(CREATE, "ALTER TABLE t ADD c INT DEFAULT 6 COMMENT 'y'")
    ours, older = ({STATE_KEY: said.to_parts(defaults=one)} for one in (True, False))
    identity = {IDENTITY_KEY: IDENTITY.to_state()}
    assert continued({**ours, **identity}, {STATE_KEY: other.to_parts(defaults=True), **identity})
    assert not continued({**ours, **identity}, {**older, **identity})
    assert continued({**older, **identity}, {**ours, **identity})
    assert continued({**older, **identity}, {**older, **identity})


def test_what_was_read_behind_the_position_does_not_count():
    behind = history(CREATE, at=100)
    behind.run(ALTER, StatementContext("shop"), "b.000002", 2000)
    assert continued(state(history(CREATE)), state(behind))
    assert continued(state(behind), state(history(CREATE)))


@pytest.mark.parametrize(
    "identity",
    [
        replace(IDENTITY, server_uuid="4e11fa47-71ca-11e1-9e33-c80aa9429562"),
        replace(IDENTITY, files={"b.000002": FileMark(6, 1)}),
    ],
)
def test_another_server_or_another_file_of_the_same_name_is_none(identity):
    one = state(history(CREATE))
    assert continued(one, state(history(CREATE)))
    assert not continued(one, state(history(CREATE), identity))


def test_positions_have_the_same_gtid_sets():
    one = state(history(CREATE))
    assert not continued(one, one, Position(AT.file, AT.offset))
    assert not continued(one, one, replace(AT, gtid_set=GtidSet()))


def test_pending_transactions_are_known_to_both():
    pending = [{"xid": "X'67',X'',1", "file": "b.000002", "offset": 200, "gtid": ""}]
    one = state(history(CREATE), **{PREPARED_KEY: pending})
    assert continued(one, state(history(CREATE), **{PREPARED_KEY: pending}))
    assert not continued(one, state(history(CREATE)))
    assert continued(state(history(CREATE)), one)


def test_a_damaged_state_is_no_knowledge():
    one = state(history(CREATE))
    assert not continued({**one, STATE_KEY: "?"}, one)
