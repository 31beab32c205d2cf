"""ENUM and SET labels that a live source lists incompletely.

``information_schema`` and SHOW CREATE TABLE use utf8mb3: each character outside the Basic
Multilingual Plane appears as ``?``, like a real ``?`` (seen on MySQL 5.6 and 9.7, MariaDB 10.11 and
11.8). Such labels are found in other ways: a MariaDB variable of the column's type can be set to
any of its values, and rows of the table contain them. Labels that stay in doubt are marked
(``unknown_labels``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from replica_client.codec.charsets import UndecodableTextError, decode_text
from replica_client.errors import ServerError
from replica_client.schema.character_sets import representative_id
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.transport.connection import SourceConnection
from replica_client.wire.server_errors import GONE_ERRORS, PRIVILEGE_ERRORS

_SAMPLE: Final = 10_000
_HAS_VARIABLES: Final = (10, 3, 0)
"""MariaDB versions with ``DECLARE x TYPE OF``."""


async def with_true_labels(connection: SourceConnection, table: TableModel) -> TableModel:
    """Complete the labels of a listed table from variables or rows."""
    if not any(column.doubtful_labels for column in table.columns):
        return table
    # A strict mode refuses variables of a type whose labels look alike in utf8mb3.
    await connection.query("SET @replica_client_mode = @@SESSION.sql_mode, SESSION sql_mode = ''")
    try:
        columns = [
            await _true_column(connection, table, column) if column.doubtful_labels else column
            for column in table.columns
        ]
    finally:
        await connection.query("SET SESSION sql_mode = @replica_client_mode")
    return replace(table, columns=tuple(columns))


async def _true_column(
    connection: SourceConnection, table: TableModel, column: ColumnModel
) -> ColumnModel:
    doubtful = column.doubtful_labels
    found: dict[int, str] = {}
    has_variables = connection.server.is_mariadb and connection.server.version >= _HAS_VARIABLES
    # The account may lack the right to select.
    for ask in (_of_variables, _of_rows) if has_variables else (_of_rows,):
        try:
            found.update(await ask(connection, table, column, doubtful))
        except ServerError as error:
            if error.errno not in PRIVILEGE_ERRORS | GONE_ERRORS:
                raise
        if found.keys() >= set(doubtful):
            break
    labels = list(column.labels or ())
    unknown = []
    for index in doubtful:
        label = found.get(index)
        if label is not None and _listed(label) == labels[index - 1]:
            labels[index - 1] = label
        else:
            unknown.append(index)
    return replace(column, labels=tuple(labels), unknown_labels=tuple(unknown))


def _listed(label: str) -> str:
    return "".join("?" if ord(character) > 0xFFFF else character for character in label)


async def _of_variables(
    connection: SourceConnection, table: TableModel, column: ColumnModel, wanted: Sequence[int]
) -> dict[int, str]:
    """Return labels from MariaDB variables of the column's type."""
    kind = f"{_quoted(table.database)}.{_quoted(table.name)}.{_quoted(column.name)}"
    declared = " ".join(
        f"DECLARE x{index} TYPE OF {kind} DEFAULT {_number(column, index)};" for index in wanted
    )
    selected = ", ".join(f"HEX(x{index})" for index in wanted)
    rows = await connection.query(f"BEGIN NOT ATOMIC {declared} SELECT {selected}; END")
    return _texts(column, zip(wanted, rows[0], strict=True))


async def _of_rows(
    connection: SourceConnection, table: TableModel, column: ColumnModel, wanted: Sequence[int]
) -> dict[int, str]:
    """Return labels from the first rows of the table."""
    name = _quoted(column.name)
    rows = await connection.query(
        f"SELECT DISTINCT x + 0, HEX(x) FROM (SELECT {name} AS x FROM {_quoted(table.database)}."
        f"{_quoted(table.name)} WHERE {name} IS NOT NULL LIMIT {_SAMPLE}) AS y"
    )
    if column.kind == "enum":
        return _texts(column, ((int(float(number)), value) for number, value in rows))
    found: dict[int, str] = {}
    for number, value in rows:
        bits = int(float(number))
        used = [at for at in range(1, 65) if bits >> (at - 1) & 1]
        # The labels of a SET have no commas.
        texts = _texts(column, [(0, value)]).get(0, "").split(",")
        if len(texts) == len(used):
            found.update(zip(used, texts, strict=True))
    return found


def _texts(column: ColumnModel, values: Iterable[tuple[int, Any]]) -> dict[int, str]:
    """Decode values that are hexadecimal digits in the column's character set; skip invalid ones."""
    found: dict[int, str] = {}
    for index, value in values:
        digits = value.decode("ascii") if isinstance(value, bytes) else str(value)
        try:
            found[index] = decode_text(
                bytes.fromhex(digits), representative_id(column.charset or "utf8mb4")
            )
        except (UndecodableTextError, ValueError):
            continue
    return found


def _number(column: ColumnModel, index: int) -> int:
    return index if column.kind == "enum" else 1 << (index - 1)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
