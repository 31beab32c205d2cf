"""The rows of a table as JSON lines: an object for each, with values as in ``changes --json``."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from replica_client.archive.as_of.segment_images import LOSSLESS
from replica_client.archive.as_of.table_state import TableState
from replica_client.protocol.binlog.values.numbers import decode_float, encode_float
from replica_client.protocol.binlog.values.temporal import Time
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.arrow_types import GEOMETRY_TYPE
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.shape import ColumnShape

_MOST_DIGITS = 6


def state_lines(state: TableState) -> Iterator[str]:
    """Yield the rows, each as a JSON object.

    Raises:
        DataLossError: the changes do not fit the rows at the start.
    """
    shapes = {one.name: one for one in state.shape.columns} if state.shape is not None else {}
    names = [name for name in state.schema.names if name != LOSSLESS]
    writers = [_writer(state.schema.field(name).type, shapes.get(name)) for name in names]
    heads = [f"{quote(name)}: " for name in names]
    for batch in state.batches():
        columns = [batch.column(name).to_pylist() for name in names]
        lossless = batch.column(LOSSLESS).to_pylist()
        for texts, *values in zip(lossless, *columns, strict=True):
            parts = [
                head + ("null" if value is None else write(value))
                for head, write, value in zip(heads, writers, values, strict=True)
            ]
            for name, text in texts or ():
                at = names.index(name)
                parts[at] = heads[at] + quote(text)
            yield "{" + ", ".join(parts) + "}"


def _writer(kind: pa.DataType, shape: ColumnShape | None) -> Callable[[Any], str]:
    """Return a function that formats the values of a column, except null."""
    digits = _MOST_DIGITS if shape is None else shape.fraction_digits
    if shape is not None and shape.type_code == ColumnType.MYSQL_TYPE_JSON:
        return str
    if pa.types.is_timestamp(kind):
        return partial(_moment, digits)
    if pa.types.is_duration(kind):
        return partial(_time, digits)
    if pa.types.is_date(kind):
        return lambda value: quote(value.isoformat())
    if pa.types.is_float32(kind):
        return lambda value: value_to_json(_single(value))
    if pa.types.is_list(kind):
        return lambda value: value_to_json([_single(one) for one in value])
    if kind == GEOMETRY_TYPE:
        return _geometry
    return value_to_json


def _single(value: float) -> float:
    """Return the shortest number that is the same FLOAT."""
    return decode_float(encode_float(value))


def _moment(digits: int, value: datetime.datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return quote(text[: 20 + digits] if digits else text[:19])


def _time(digits: int, value: datetime.timedelta) -> str:
    micros = value // datetime.timedelta(microseconds=1)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return quote(str(Time(micros < 0, hour, minute, second, fraction, digits)))


def _geometry(value: dict[str, Any]) -> str:
    binary = value_to_json(value["wkb"]).partition(": ")[2]
    return f'{{"$wkb": {binary[:-1]}, "srid": {value["srid"]}}}'
