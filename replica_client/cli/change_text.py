"""A row change on one line, for people."""

from __future__ import annotations

from collections.abc import Iterator

from replica_client.rows.absent import ABSENT
from replica_client.rows.json_values import value_to_json
from replica_client.rows.row_change import Change


def row_text(change: Change) -> str:
    """Return the row as ``name=value``; ``name=old→new`` where an update changed the value."""
    return ", ".join(text for _, text, _ in row_parts(change))


def row_parts(change: Change) -> Iterator[tuple[str, str, bool]]:
    """Yield name, text and whether an update changed the value, of each column in order."""
    before = {} if change.before is None else change.before.as_dict()
    after = {} if change.after is None else change.after.as_dict()
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name, ABSENT), after.get(name, ABSENT)
        # The JSON document null equals None, but is not SQL NULL.
        same = (was is None) == (now is None) and was == now
        if was is ABSENT or now is ABSENT or same:
            yield name, f"{name}={value_to_json(was if now is ABSENT else now)}", False
        else:
            yield name, f"{name}={value_to_json(was)}→{value_to_json(now)}", True
