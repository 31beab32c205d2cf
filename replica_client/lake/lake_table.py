"""The shape of a state table: the source table's columns and key, and how rows are decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SchemaError, SchemaMismatchError
from replica_client.lake.lake_columns import (
    LOSSLESS,
    LOSSLESS_TYPE,
    LakeColumn,
    Lossless,
    lake_column,
)
from replica_client.schema.model import TableModel
from replica_client.schema.names import taken_names

COPY_KEY: Final = "_row_key"
"""Key of a row in a table without a primary key: its digest, and the number of the copy."""

DELETED: Final = "_deleted"
"""Column of a table that keeps deleted rows: whether the row was deleted."""

_DIGEST_SIZE: Final = 16
# Hidden columns of MariaDB's unique keys on long columns, which row images have (MariaDB 11.8.9:
# those of INSERTs).
_HASHES: Final = tuple(f"DB_ROW_HASH_{number}" for number in range(1, 9))


@dataclass(frozen=True)
class LakeTable:
    """The shape of a state table.

    Attributes:
        model: the source's definition.
        soft_deletes: whether deleted rows stay, marked (:data:`DELETED`), where the table has a
            primary key.
    """

    model: TableModel
    soft_deletes: bool = False

    @cached_property
    def columns(self) -> tuple[LakeColumn, ...]:
        """The visible columns, which have values of the source."""
        return tuple(lake_column(column) for column in self.model.columns if not column.hidden)

    @cached_property
    def source_key(self) -> tuple[str, ...]:
        """Names of the primary key's columns; empty where the table has none."""
        return tuple(name for name, _ in self.model.primary_key)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Names of the columns that identify rows of the state table."""
        return self.source_key or (COPY_KEY,)

    @property
    def keeps_deleted(self) -> bool:
        """Whether rows that were deleted on the source stay."""
        return self.soft_deletes and bool(self.source_key)

    @cached_property
    def is_ordered(self) -> bool:
        """Whether bounds of the first key column say which keys a file may hold."""
        if not self.source_key:
            return True
        return next(c for c in self.columns if c.name == self.key[0]).is_ordered

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the state table."""
        fields = [pa.field(column.name, column.type) for column in self.columns]
        if any(pa.types.is_temporal(column.type) for column in self.columns):
            fields.append(pa.field(LOSSLESS, LOSSLESS_TYPE))
        if not self.source_key:
            fields.append(pa.field(COPY_KEY, pa.string()))
        if self.keeps_deleted:
            fields.append(pa.field(DELETED, pa.bool_()))
        return pa.schema(fields)

    @cached_property
    def _row_type(self) -> type[msgspec.Struct]:
        hidden = [column.name for column in self.model.columns if column.hidden]
        return _struct(self.columns, is_row=True, passed_over=(*hidden, *_HASHES))

    @cached_property
    def _key_type(self) -> type[msgspec.Struct]:
        by_name = {column.name: column for column in self.columns}
        return _struct(tuple(by_name[name] for name in self.source_key))

    def decode(self, texts: Sequence[str]) -> list[msgspec.Struct]:
        """Decode rows from JSON objects; members are ``c0``, ``c1`` … in the order of the columns.

        Raises:
            SchemaMismatchError: a row lacks columns, or a value has another type.
        """
        return self._decoded(texts, list[self._row_type])  # type: ignore[name-defined]

    def keys(self, texts: Sequence[str]) -> list[Any]:
        """Return the primary keys in JSON objects of rows: the value, or a tuple of several."""
        rows = self._decoded(texts, list[self._key_type])  # type: ignore[name-defined]
        return keys_of(rows, range(len(self.source_key)))

    def _decoded(self, texts: Sequence[str], kind: Any) -> list[msgspec.Struct]:
        try:
            rows: list[msgspec.Struct] = msgspec.json.decode(f"[{','.join(texts)}]", type=kind)
        except msgspec.ValidationError as error:
            raise SchemaMismatchError(
                f"{self.model.database}.{self.model.name}: a row image is not of the table that is "
                f"known ({error}); columns are {', '.join(c.name for c in self.columns)}. Set "
                "binlog_row_image=FULL on the source where images lack columns"
            ) from None
        return rows

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Indexes of the key's columns among the columns."""
        names = [column.name for column in self.columns]
        return tuple(names.index(name) for name in self.source_key)

    def to_arrow(
        self,
        rows: Sequence[msgspec.Struct],
        row_keys: Sequence[str] | None = None,
        *,
        deleted: int = 0,
    ) -> pa.Table:
        """Return the Arrow table of decoded rows.

        ``row_keys`` are the keys of a table without a primary key. The last ``deleted`` rows are
        marked as deleted.
        """
        lossless: Lossless = {}
        arrays: list[pa.Array] = []
        for at, column in enumerate(self.columns):
            member = f"c{at}"
            values = [getattr(row, member) for row in rows]
            if column.decoded is msgspec.Raw:
                values = _without_sql_nulls(column.name, values, rows)
            arrays.append(column.to_arrow(values, lossless))
        if not self.source_key:
            return self.of_arrays(
                arrays, lossless, len(rows), pa.array(row_keys or [], pa.string())
            )
        return self.of_arrays(arrays, lossless, len(rows), deleted=deleted)

    def of_arrays(
        self,
        arrays: Sequence[pa.Array],
        lossless: Lossless,
        count: int,
        *row_keys: pa.Array,
        deleted: int = 0,
    ) -> pa.Table:
        """Return the Arrow table of columns that have their types; see :meth:`to_arrow`."""
        kept = [_lossless_array(lossless, count)] if LOSSLESS in self.schema.names else []
        marks = []
        if self.keeps_deleted:
            marks.append(pa.array([False] * (count - deleted) + [True] * deleted, pa.bool_()))
        return pa.Table.from_arrays([*arrays, *kept, *row_keys, *marks], schema=self.schema)

    def key_table(self, keys: Sequence[Any]) -> pa.Table:
        """Return the key columns of keys of :meth:`keys`, with ``_lossless`` if a date needs it."""
        if not self.source_key:
            return pa.table({COPY_KEY: pa.array(keys, pa.string())})
        by_name = {column.name: column for column in self.columns}
        several = len(self.source_key) > 1
        lossless: Lossless = {}
        arrays = []
        for at, name in enumerate(self.source_key):
            values = [key[at] for key in keys] if several else list(keys)
            if values and isinstance(values[0], bytes):  # a column of bytes, in its base64
                values = [{"$binary": value.decode()} for value in values]
            arrays.append(by_name[name].to_arrow(values, lossless))
        names = list(self.source_key)
        if lossless:
            arrays.append(_lossless_array(lossless, len(keys)))
            names.append(LOSSLESS)
        return pa.Table.from_arrays(arrays, names=names)

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the primary key of a row of the state table.

        For a date that Arrow cannot hold, the key has its text.
        """
        kept = dict(row.get(LOSSLESS) or ())
        return tuple(kept.get(name, row[name]) for name in self.source_key)


def _lossless_array(lossless: Lossless, count: int) -> pa.Array:
    if not lossless:
        return pa.nulls(count, LOSSLESS_TYPE)
    texts = [list(found.items()) if (found := lossless.get(at)) else None for at in range(count)]
    return pa.array(texts, LOSSLESS_TYPE)


def cannot_hold(model: TableModel, *, soft_deletes: bool = False) -> str:
    """Return why the lake cannot hold a table's current rows; ``""`` when it can."""
    if model.untracked:
        return model.untracked
    table = LakeTable(model, soft_deletes)
    try:
        names = table.schema.names
    except SchemaError as error:
        return str(error)
    if not table.columns:
        return "it has no columns"
    own, added = names[: len(table.columns)], names[len(table.columns) :]
    if table.keeps_deleted:
        for name in taken_names("lake soft deletes", own).values():
            return f"it has a column {name}; leave it out of soft_deletes in [lake]"
    for ours, name in taken_names("lake", own).items():
        if ours in added:
            return f"it has a column {name}, and the lake adds one of this name"
    return ""


def live_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of a table that keeps deleted rows, without these."""
    return rows.filter(pc.invert(rows[DELETED]))


def keys_of(rows: Sequence[msgspec.Struct], positions: Sequence[int]) -> list[Any]:
    """Return hashable keys of decoded rows: the value of one column, or a tuple of several."""
    members = [f"c{at}" for at in positions]
    if len(members) == 1:
        member = members[0]
        return [_hashable(getattr(row, member)) for row in rows]
    return [tuple(_hashable(getattr(row, member)) for member in members) for row in rows]


def _hashable(value: Any) -> Any:
    # {"$binary": base64} of a key in bytes.
    return value["$binary"].encode() if isinstance(value, dict) else value


def _without_sql_nulls(name: str, documents: list[Any], rows: Sequence[Any]) -> list[Any]:
    """Return the documents of a JSON column, with None for SQL NULL.

    The text of SQL NULL is that of the document null; rows name the columns with the document.
    """
    return [
        None if bytes(one) == b"null" and name not in row.json_nulls else one
        for one, row in zip(documents, rows, strict=True)
    ]


def row_digest(text: str) -> str:
    """Return a digest that is the same for equal rows."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_SIZE).hexdigest()


def _struct(
    columns: Sequence[LakeColumn], *, is_row: bool = False, passed_over: Sequence[str] = ()
) -> type[msgspec.Struct]:
    fields: list[Any] = [(f"c{at}", column.decoded) for at, column in enumerate(columns)]
    names = {f"c{at}": column.name for at, column in enumerate(columns)}
    for at, name in enumerate(passed_over):
        fields.append((f"h{at}", msgspec.Raw, msgspec.Raw(b"null")))
        names[f"h{at}"] = name
    if is_row:  # see rows.json_nulls.with_json_nulls
        fields.append(("json_nulls", tuple[str, ...], ()))
        names["json_nulls"] = ""
    return msgspec.defstruct("Row", fields, rename=names, gc=False, forbid_unknown_fields=is_row)
