"""Compute the shape of a table's rows in the binlog from its definition alone."""

from __future__ import annotations

from replica_client.errors import SchemaError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.character_sets import BINARY, representative_id
from replica_client.schema.kinds import KINDS, SIGNED, TEXT_KINDS, TYPE_CODES
from replica_client.schema.left_out import TEXT_CODES
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, TableShape


def shape_of(model: TableModel, flavor: ServerFlavor) -> TableShape:
    """Return a table's columns as a current server writes them, without hidden columns.

    Sizes in bytes are left out: only reading row images needs them.

    Raises:
        SchemaError: a column's type has no form in the binlog.
    """
    names = [name for name, _ in model.primary_key]
    columns = [column for column in model.columns if not column.hidden]
    return TableShape(
        model.database,
        model.name,
        tuple(
            _column(column, names.index(column.name) if column.name in names else None, flavor)
            for column in columns
        ),
    )


def _column(column: ColumnModel, key_index: int | None, flavor: ServerFlavor) -> ColumnShape:
    codes = TYPE_CODES.get(column.kind)
    if codes is None:
        raise SchemaError(f"column {column.name} has the type {column.kind}, which is not known")
    kind = KINDS[column.kind]
    is_hidden = bool(kind.hidden_in) and (flavor == ServerFlavor.MARIADB or not kind.codes)
    code = kind.hidden_in[0] if is_hidden else codes[0]
    collation = None
    if code in TEXT_CODES:
        charset = column.charset if column.kind in TEXT_KINDS else BINARY
        collation = None if charset is None else representative_id(charset)
    return ColumnShape(
        name=column.name,
        type_code=code,
        nullable=column.nullable is not False,
        unsigned=column.unsigned if column.kind in SIGNED else None,
        collation_id=collation,
        labels=column.labels,
        unknown_labels=column.unknown_labels,
        primary_key_index=key_index,
        visible=column.visible,
        length=(column.length or 0) if kind.form in ("decimal", "bit") else 0,
        scale=column.scale,
        fraction_digits=column.fraction_digits,
        logical_type=kind.name if is_hidden else None,
        definition=column,
    )
