"""Whether a change log equals the binlog, and its outcome the server's own SELECT."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_client.rows.json_values import row_to_json
from replica_client.rows.row_change import Change

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class TableProof:
    """One table: its changes by kind, its rows in the end, and whether SELECT gave the same."""

    table: str
    inserts: int
    updates: int
    deletes: int
    rows: int
    expected_rows: int
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """The verdict.

    Attributes:
        changes: in the binlog.
        missing: of them not in the change log.
        repeated: in the change log more than once.
        strange: in the change log and not in the binlog, or other than there.
        tables: by table.
    """

    changes: int
    missing: int
    repeated: int
    strange: int
    tables: tuple[TableProof, ...]

    @property
    def holds(self) -> bool:
        """Whether all is equal."""
        faults = self.missing or self.repeated or self.strange
        return not faults and not any(table.differences for table in self.tables)


def prove(log: Rows, changes: Sequence[Change], expected: Mapping[str, Rows]) -> Proof:
    """Compare a change log with the binlog's changes and the tables' rows.

    Args:
        log: of the change log.
        changes: of the binlog, decoded from its files.
        expected: rows by table as the server's SELECT printed them, first column the key.
    """
    wanted = {(c.file, c.offset, c.row_index): _content(c) for c in changes}
    found: dict[Any, Any] = {}
    repeated = strange = 0
    for row in log:
        position = (row["_file"], row["_offset"], row["_row_index"])
        if position in found:
            repeated += 1
        found[position] = (
            row["database"],
            row["table"],
            row["operation"],
            row["before"],
            row["after"],
        )
        if wanted.get(position) != found[position]:
            strange += 1
    return Proof(
        len(wanted),
        sum(position not in found for position in wanted),
        repeated,
        strange,
        tuple(_table(name, log, rows) for name, rows in expected.items()),
    )


def _content(change: Change) -> tuple[Any, ...]:
    before = None if change.before is None else row_to_json(change.before)
    after = None if change.after is None else row_to_json(change.after)
    return change.database, change.table, change.kind, before, after


def _table(name: str, log: Rows, expected: Rows) -> TableProof:
    key = next(iter(expected[0]))
    mine = [row for row in log if row["table"] == name]
    counts = {kind: sum(row["operation"] == kind for row in mine) for kind in _KINDS}
    state: dict[str, dict[str, Any]] = {}
    for row in mine:
        if row["before"] is not None:
            state.pop(str(json.loads(row["before"])[key]), None)
        if row["after"] is not None:
            after = json.loads(row["after"])
            state[str(after[key])] = after
    differences = list(_differences(name, key, state, expected))
    return TableProof(
        name,
        counts["insert"],
        counts["update"],
        counts["delete"],
        len(state),
        len(expected),
        tuple(differences),
    )


_KINDS = ("insert", "update", "delete")


def _differences(
    name: str, key: str, state: Mapping[str, dict[str, Any]], expected: Rows
) -> Iterable[str]:
    keys = {row[key] for row in expected}
    for extra in sorted(set(state) - keys):
        yield f"{name} {key}={extra} should not be there"
    for row in expected:
        mine = state.get(row[key])
        if mine is None:
            yield f"{name} {key}={row[key]} is missing"
            continue
        for column, text in row.items():
            if column not in mine or not _same(mine[column], text):
                value = json.dumps(mine.get(column), ensure_ascii=False)
                yield f"{name} {key}={row[key]}: {column} is {value}, SELECT gave {text!r}"


def _same(value: Any, text: str | None) -> bool:
    """Whether a value of a JSON row is what SELECT printed."""
    if value is None or text is None:
        return value is None and text is None
    if isinstance(value, dict) and list(value) == ["$binary"]:
        return b64decode(value["$binary"]).hex().upper() == text
    if isinstance(value, dict | list | bool):
        return bool(json.loads(text) == value)
    return str(value) == text
