"""Histories from statements, for tests."""

from __future__ import annotations

from typing import Any

from replica_client.errors import EncodeError
from replica_client.protocol.codec.charsets import UndecodableTextError, decode_text, encode_text
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.catalog import Absent, TableState
from replica_client.schema.character_sets import representative_id
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import ColumnModel, TableModel, describe

MOST_LABELS = 70
"""Labels of a column that a server is asked for."""

Answer = dict[str, Any]
"""A table as a server lists it: ``columns``, ``key`` and ``charset``."""

MYSQL = StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0), server_charset="utf8mb4")
MARIADB = StatementContext("d", ServerFlavor.MARIADB, (11, 8, 2), server_charset="latin1")


def history_of(*statements: str, context: StatementContext = MYSQL) -> SchemaHistory:
    """The history that statements make in an empty database ``d``."""
    history = SchemaHistory()
    for number, text in enumerate(("CREATE DATABASE d", *statements)):
        history.run(text, context, "binlog.000001", 100 + 10 * number)
    return history


def columns(history: SchemaHistory, table: str = "t", database: str = "d") -> str:
    """The columns of a table as short text."""
    state = history.table((database, table))
    assert isinstance(state, TableModel), state
    return ", ".join(f"{column.name} {describe(column)}" for column in state.columns)


def after(*statements: str, context: StatementContext = MYSQL, table: str = "t") -> str:
    """The columns of a table after statements."""
    return columns(history_of(*statements, context=context), table)


def compare(state: TableState | None, answer: Answer | None, name: str) -> tuple[list[str], int]:
    """The differences between what is known of a table and the server's answer, and how many labels agreed."""
    if answer is None:
        return (
            ([f"{name} is known and is not there"] if isinstance(state, TableModel) else []),
            0,
        )
    if isinstance(state, Absent):
        return [f"{name} is there and is said to be absent"], 0
    if not isinstance(state, TableModel):
        return [], 0
    found: list[str] = []
    labels = 0
    columns = [column for column in state.columns if not column.hidden]
    names, wanted = [column.name for column in columns], [c["name"] for c in answer["columns"]]
    if names != wanted:
        return [f"{name}: columns {names}, the server has {wanted}"], 0
    stamps = [column.name for column in columns if column.kind == "timestamp"][:1]
    for column, listed in zip(columns, answer["columns"], strict=True):
        differences, agreed = _compare_column(column, listed, first_stamp=column.name in stamps)
        found += [f"{name}.{column.name}: {text}" for text in differences]
        labels += agreed
    key = [list(part) for part in state.primary_key]
    if key != answer["key"]:
        found.append(f"{name}: primary key {key}, the server has {answer['key']}")
    if state.charset not in (None, answer["charset"]):
        found.append(f"{name}: charset {state.charset}, the server has {answer['charset']}")
    return found, labels


def _compare_column(
    column: ColumnModel, listed: Answer, *, first_stamp: bool
) -> tuple[list[str], int]:
    ours = {
        "kind": column.kind,
        "length": column.length,
        "scale": column.scale,
        "fraction": column.fraction_digits,
        "unsigned": column.unsigned,
        "charset": column.charset,
        "nullable": column.nullable,
        "visible": column.visible,
        "auto_increment": column.auto_increment,
        "on_update": column.on_update,
        "generated": column.generated,
    }
    if first_stamp and not column.on_update:
        # The first one of a table may have it unsaid, as explicit_defaults_for_timestamp has it.
        ours["on_update"] = listed["on_update"]
    for unknown in ("charset", "nullable"):
        if ours[unknown] is None and (unknown != "charset" or column.needs_charset):
            ours[unknown] = listed[unknown]
    found = [
        f"{key} {value!r}, the server has {listed[key]!r}"
        for key, value in ours.items()
        if value != listed[key]
    ]
    labels = listed.get("labels")
    if labels is None or column.labels is None or column.charset is None:
        return found, 0
    if len(labels) != len(column.labels) and len(labels) < min(MOST_LABELS, 64):
        return [*found, f"{len(column.labels)} labels, the server has {len(labels)}"], 0
    for at, (label, data) in enumerate(zip(column.labels, labels, strict=False), 1):
        if at not in column.unknown_labels and not is_label(
            label, bytes.fromhex(data), column.charset
        ):
            found.append(f"label {at} is {label!r}, the server has x'{data}' ({column.charset})")
    return found, len(labels)


def is_label(label: str, data: bytes, charset: str) -> bool:
    """Whether a label is what the server's bytes mean."""
    if charset == "binary":
        return label.encode("utf-8", "surrogateescape") == data
    try:
        if decode_text(data, representative_id(charset)) == label:
            return True
        return encode_text(label, representative_id(charset)) == data
    except (UndecodableTextError, EncodeError):
        return False
