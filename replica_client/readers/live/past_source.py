"""State of positions on the previous server, after another host took over.

Files, offsets, the schema history and pending XA transactions are valid on one server only.
Positions that were delivered before a failover may be acknowledged after it; each is saved with its
own server's state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.position.losses import LOSSES_KEY, LossLedger
from replica_client.position.position import Position
from replica_client.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.readers.live.source_identity import IDENTITY_KEY, SourceIdentity, missing_gtids
from replica_client.schema.history import STATE_KEY, SchemaHistory


@dataclass(frozen=True, slots=True)
class ReadingState:
    """The state that is saved with the positions of one server.

    Attributes:
        identity: the server's identity.
        history: definitions of its tables.
        losses: changes that could not be delivered.
        prepared: XA transactions that are pending.
        defaults: whether column defaults and comments are saved.
    """

    identity: SourceIdentity
    history: SchemaHistory
    losses: LossLedger
    prepared: PreparedLedger
    defaults: bool

    def copy(self) -> Self:
        """Return an independent copy."""
        identity = replace(self.identity, files=dict(self.identity.files))
        parts = (self.history.copy(), self.losses.copy(), self.prepared.copy())
        return type(self)(identity, *parts, self.defaults)

    def to_state(self, position: Position) -> dict[str, object]:
        """Return the state for the checkpoint of a position."""
        if position.file:
            self.history.prune(position.file, position.offset)
        state: dict[str, object] = {
            STATE_KEY: self.history.to_parts(defaults=self.defaults),
            IDENTITY_KEY: self.identity.to_state(),
        }
        kept = {
            LOSSES_KEY: self.losses.to_state(position),
            PREPARED_KEY: self.prepared.to_state(position),
        }
        return state | {key: value for key, value in kept.items() if value}


@dataclass(frozen=True, slots=True)
class PastSource:
    """A server that the stream has left.

    Attributes:
        delivered: the position after everything delivered from it.
        reached: start of the transaction that was read last.
        state: the state that is saved with its positions.
    """

    delivered: Position
    reached: Position
    state: ReadingState

    def has(self, position: Position) -> bool:
        """Return whether a position of this stream belongs to this server, or to one before it."""
        ours, theirs = self.reached.gtid_set, position.gtid_set
        if ours is None or theirs is None or missing_gtids(theirs, ours):
            return False
        if theirs != ours:
            return True
        # A position after the last transaction here, or before the first of the next server.
        at = Position(position.file, position.offset)
        begin, end = (Position(one.file, one.offset) for one in (self.delivered, self.reached))
        return not position.inside_transaction and begin <= at <= end
