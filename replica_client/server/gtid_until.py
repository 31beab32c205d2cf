"""START SLAVE UNTIL master_gtid_pos: a MariaDB replica names the GTIDs at which its dump ends."""

from __future__ import annotations

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.layout import CLASSES, TYPE_OFFSET, EventClass
from replica_client.gtid import MariadbGtid, MariadbGtidSet
from replica_client.position.groups import STEPS, Ending, State, class_of, step


class GtidUntil:
    """The state of a dump that ends when every domain has reached its last GTID.

    A domain that is not named is complete from the start: none of its groups is sent.

    Args:
        until: the last GTID of each domain.
        have: GTIDs that the replica already has.
        before: end before these GTIDs instead of with them (``SQL_BEFORE_GTIDS``).

    Spec: MariaDB ``is_until_reached`` and ``send_event_to_slave`` (sql_repl.cc).
    """

    def __init__(self, until: MariadbGtidSet, have: MariadbGtidSet, *, before: bool) -> None:
        self.until = until
        self._before = before
        # With ``before``, a domain whose last GTID comes next needs no more groups.
        missing = int(before)
        self._left = {
            gtid.domain_id: gtid
            for gtid in until.positions()
            if have.reached(gtid.domain_id) < gtid.sequence - missing
        }
        self._state = State.BETWEEN
        self.reached = not self._left
        """Whether the dump is to end here."""

    def passes_over(self, gtid: MariadbGtid) -> bool:
        """Return whether to skip the group that a GTID begins; note when its domain is complete."""
        last = self._left.get(gtid.domain_id)
        if last is None:
            return True
        if gtid.server_id != last.server_id or gtid.sequence < last.sequence:
            return False
        del self._left[gtid.domain_id]
        too_much = self._before or gtid.sequence > last.sequence
        self.reached = too_much and not self._left
        return too_much

    def sent(self, event: bytes, decoder: BinlogDecoder, position: int) -> None:
        """Record an event that was sent: the dump ends with the last event of the last group."""
        if self._left or self.reached:
            return
        found = EventClass(CLASSES[event[TYPE_OFFSET]])
        if found is EventClass.ROWS and self._state is State.OPEN:
            return
        found = class_of(decoder.decode(event, position))
        after = step(STEPS, self._state, found)
        self._state = State(after & Ending.STATE)
        self.reached = bool(after & Ending.ENDS)
