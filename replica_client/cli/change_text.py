"""A row change on one line, for people."""

from __future__ import annotations

from replica_client.rows.absent import ABSENT
from replica_client.rows.json_values import value_to_json
from replica_client.rows.row_change import Change


def row_text(change: Change) -> str:
    """The row as ``name=value``; ``name=old→new`` where an update changed the value."""
    before = {} if change.before is None else change.before.as_dict()
    after = {} if change.after is None else change.after.as_dict()
    parts = []
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name, ABSENT), after.get(name, ABSENT)
        # The JSON document null equals None, but is not SQL NULL.
        same = (was is None) == (now is None) and was == now
        if was is ABSENT or now is ABSENT or same:
            parts.append(f"{name}={value_to_json(was if now is ABSENT else now)}")
        else:
            parts.append(f"{name}={value_to_json(was)}→{value_to_json(now)}")
    return ", ".join(parts)
