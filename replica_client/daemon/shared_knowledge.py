"""Whether a stream knows all that a sink knew before it takes that stream for its own."""

from __future__ import annotations

from collections.abc import Mapping

from replica_client.errors import ReplicaClientError
from replica_client.position.position import Position
from replica_client.position.prepared import PREPARED_KEY
from replica_client.position.stores.base import Checkpoint
from replica_client.readers.live.source_identity import IDENTITY_KEY, SourceIdentity
from replica_client.schema.catalog import TableState
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.schema.model import TableModel

_State = Mapping[str, object]


def is_continued_by(ours: Checkpoint, position: Position, state: _State) -> bool:
    """Whether a stream that was read up to a position may go on for a sink whose position is the same one.

    It is of the same server, and of the same binlog files; its positions have GTID sets where the sink's have; and what
    the sink knows of definitions, temporary tables and pending XA transactions, the stream knows, too.

    Args:
        ours: the sink's.
        position: the stream's, with no transaction between it and the sink's.
        state: what is saved with that.
    """
    if ours.position.gtid_set != position.gtid_set:
        return False
    try:
        return (
            _is_same_source(ours.state, state)
            and _has_prepared(ours.state, state)
            and _has_definitions(ours, position, state)
        )
    except ReplicaClientError:
        return False  # damaged: the sink's own stream says what and where


def _is_same_source(ours: _State, theirs: _State) -> bool:
    if IDENTITY_KEY not in ours or IDENTITY_KEY not in theirs:
        return False
    one, other = (SourceIdentity.from_state(state[IDENTITY_KEY]) for state in (ours, theirs))
    if (one.server_uuid, one.server_id) != (other.server_uuid, other.server_id):
        return False
    return all(other.files.get(name, mark) == mark for name, mark in one.files.items())


def _has_prepared(ours: _State, theirs: _State) -> bool:
    mine, others = (state.get(PREPARED_KEY, []) for state in (ours, theirs))
    return (
        isinstance(mine, list) and isinstance(others, list) and all(one in others for one in mine)
    )


def _has_definitions(ours: Checkpoint, position: Position, state: _State) -> bool:
    mine, others = ours.state.get(STATE_KEY), state.get(STATE_KEY)
    if mine is None or mine is others:
        return True
    if others is None:
        return False
    known, given = SchemaHistory.from_state(mine), SchemaHistory.from_state(others)
    known.rewind(ours.position.file, ours.position.offset)
    given.rewind(position.file, position.offset)
    return (
        known.lower_case_names in (None, given.lower_case_names)
        and known.temporary_tables <= given.temporary_tables
        and all(
            known.database(name).charset in (None, given.database(name).charset)
            for name in known.databases()
        )
        and all(
            _has_all(given.table(name), model)
            for name in known.tables()
            if isinstance(model := known.table(name), TableModel)
        )
    )


def _has_all(given: TableState | None, known: TableModel) -> bool:
    """Whether a definition is a known one, with a default and a comment where that has them.

    What they say may differ: servers list it otherwise than statements write it.
    """
    return given == known and all(
        (mine.default is None or theirs.default is not None)
        and (not mine.comment or bool(theirs.comment))
        for mine, theirs in zip(known.columns, given.columns, strict=True)
    )
