"""How far a sink has come in a shared stream, and what is saved with its positions."""

from __future__ import annotations

from collections import deque

from replica_client.daemon.shared_stream import SharedGroup, State, shared_part
from replica_client.position.losses import LOSSES_KEY, LossLedger
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint


class SharedProgress:
    """See the module. All positions are of one server.

    Args:
        since: what the sink has.

    Attributes:
        losses: what could not be delivered to the sink.
    """

    def __init__(self, since: Checkpoint) -> None:
        self.losses = LossLedger()
        if LOSSES_KEY in since.state:
            self.losses = LossLedger.from_state(since.state[LOSSES_KEY])
        # Where each group begins, and what is saved with positions in it and behind it.
        self._states: deque[tuple[Position, State]] = deque()
        self._states.append((since.position, shared_part(since.state)))

    def take(self, item: SharedGroup) -> None:
        """A group is delivered."""
        transactions = item.group.transactions
        self._states.append((transactions[0].start, item.state))
        if not item.group.ordinary:
            for transaction in transactions:
                for loss in transaction.losses:
                    self.losses.add(loss, transaction.start)

    def state(self, position: Position, at_rest: State | None) -> dict[str, object]:
        """What to save with a position.

        Args:
            position: that was delivered.
            at_rest: what the stream saves with a position behind all that was delivered; None: it is none.
        """
        losses = self.losses.to_state(position)
        kept: dict[str, object] = {LOSSES_KEY: losses} if losses else {}
        return {**(self._found(position) if at_rest is None else at_rest), **kept}

    def _found(self, position: Position) -> State:
        for begin, state in reversed(self._states):
            if begin < position:
                return state
        return self._states[0][1]

    def acknowledge(self, position: Position) -> None:
        """Earlier positions are not asked for any more."""
        states = self._states
        while len(states) > 1 and states[1][0] < position:
            states.popleft()
