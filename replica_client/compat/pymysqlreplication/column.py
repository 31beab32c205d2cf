"""A column as a table map event describes it."""

from __future__ import annotations

from typing import Any, ClassVar

from replica_client.compat.pymysqlreplication.constants import FIELD_TYPE
from replica_client.protocol.constants.column_types import (
    FRACTION_TYPES,
    LABEL_TYPES,
    PREFIXED_TYPES,
)
from replica_client.schema.shape import ColumnShape


class Column:
    """A column; which attributes it has besides these is up to its type.

    ``precision`` and ``decimals`` (DECIMAL), ``max_length`` (VARCHAR, CHAR), ``size`` (FLOAT, DOUBLE, ENUM,
    SET), ``length_size`` (BLOB, JSON, GEOMETRY), ``fsp`` (temporal types), ``bits`` and ``bytes`` (BIT).

    Attributes:
        type: code (:mod:`~replica_client.compat.pymysqlreplication.constants.FIELD_TYPE`).
        name: None when it is not known.
        unsigned: whether a number is unsigned.
        is_primary: whether it belongs to the primary key.
        charset_id: of the collation of its text.
        character_set_name: of its text.
        collation_name: of its text.
        enum_values: labels, the empty string first.
        set_values: labels.
        visibility: False for an invisible column, and while that is not known.
        comment: empty; the binlog has none.
        type_is_bool: False; to the binlog it is a number.
    """

    precision: int
    decimals: int
    max_length: int
    size: int
    length_size: int
    fsp: int
    bits: int
    bytes: int

    type: int
    name: str | None
    unsigned: bool
    is_primary: bool
    charset_id: int | None
    character_set_name: str | None
    collation_name: str | None
    enum_values: list[str] | None
    set_values: list[str] | None
    visibility: bool
    comment: ClassVar[str] = ""
    type_is_bool: ClassVar[bool] = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.update(
            type=0,
            name=None,
            unsigned=False,
            is_primary=False,
            charset_id=None,
            character_set_name=None,
            collation_name=None,
            enum_values=None,
            set_values=None,
            visibility=False,
        )
        if args:
            self.type = args[0]
        self.__dict__.update(kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a column of type {self.__dict__.get('type')} has no {name!r}")

    @classmethod
    def _of(cls, shape: ColumnShape) -> Column:
        """Return the column for a column of a table map."""
        code = shape.type_code
        column = cls(code)
        fields = column.__dict__
        if code in (FIELD_TYPE.VARCHAR, FIELD_TYPE.STRING, FIELD_TYPE.VAR_STRING):
            fields["max_length"] = shape.length
        elif code in (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE):
            fields["size"] = 4 if code == FIELD_TYPE.FLOAT else 8
        elif code in LABEL_TYPES:
            fields["size"] = shape.length
        elif code == FIELD_TYPE.NEWDECIMAL:
            fields["precision"], fields["decimals"] = shape.length, shape.scale
        elif code == FIELD_TYPE.BIT:
            fields["bits"], fields["bytes"] = shape.length, (shape.length + 7) // 8
        elif code in FRACTION_TYPES:
            fields["fsp"] = shape.fraction_digits
        elif code in PREFIXED_TYPES:
            fields["length_size"] = shape.metadata
        return column

    @property
    def data(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(self.__dict__)

    def serializable_data(self) -> dict[str, Any]:
        """Return the fields by name; ``Column(**fields)`` makes the column again."""
        return self.data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]
