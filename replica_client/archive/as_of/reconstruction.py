"""Reconstruction of a table at a moment: backward from the live table, forward from a copy."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa

from replica_client.archive.archive import Archive, When
from replica_client.archive.as_of.moments import end_of, moment_of
from replica_client.archive.as_of.net_images import MEMORY, NetImages
from replica_client.archive.as_of.segment_images import (
    LOSSLESS,
    NO_CONSTANTS,
    Constants,
    ImageReading,
    as_images,
    row_schema,
)
from replica_client.archive.as_of.starting_rows import CopiedRows, LiveRows, open_copy
from replica_client.archive.as_of.table_course import (
    Course,
    Segment,
    completed,
    course_after,
    course_before,
    flavor_of,
    shape_at,
)
from replica_client.archive.as_of.table_state import TableState
from replica_client.archive.binlog_archive import named_table
from replica_client.archive.logged_statements import logged_definitions
from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.binlog.values.numbers import decode_float, encode_float
from replica_client.protocol.binlog.values.temporal import Time
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.protocol.position import Position
from replica_client.rows.arrow_types import GEOMETRY_TYPE, arrow_column
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.kinds import BYTES, STRINGS
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.snapshot.column_selects import selected
from replica_client.stream.snapshot.watermarks import Window
from replica_client.stream.tables.conversions import StoredValue

DEFAULT_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class Resources:
    """The threads and the memory that a reconstruction may use.

    Attributes:
        threads: number of threads that decode.
        memory: bytes of Arrow data, see :data:`~replica_client.archive.as_of.net_images.MEMORY`.
    """

    threads: int = DEFAULT_THREADS
    memory: int = MEMORY


def state_backward(
    archive: Archive,
    table: str,
    when: When,
    live: str,
    *,
    lock: bool = False,
    without: Sequence[str] = (),
    resources: Resources | None = None,
) -> TableState:
    """Return the table at a moment, reconstructed from the table as a server has it now.

    Args:
        archive: the binlog files of that server, from the moment on to now.
        table: its name at the moment, ``database.table``.
        when: the moment.
        live: URL of the server.
        lock: take a brief lock, so that all rows are of one position.
        without: columns to leave out.
        resources: threads and memory that may be used.

    Raises:
        ConfigError: the moment is not in the archive.
        DataLossError: a change between cannot be undone; the message says where.
    """
    name, at = named_table(table), moment_of(archive, when)
    course = course_after(archive, name, at, end_of(archive))
    rows = LiveRows(
        live, course.segments[-1].name, archive.files.decode, "brief" if lock else "never"
    )
    rows.open()
    with closing(rows):
        window = rows.window
        archive = reaching(archive, at, window)
        course = course_after(archive, name, at, window.high)
        if course.segments[-1].name != (rows.model.database, rows.model.name):
            raise ConfigError(f"{table} was renamed while it was read; try again")
        _check_cascades(archive, course)
        shape = rows.shape
        if course.model is not None:
            shape = shape_at(archive, name, at, course.model) or shape
        own = course.segments[-1].columns
        names = {new: old for old, new in own.items()} if own is not None else None
        key = [one if names is None else names[one] for one, _ in rows.model.primary_key]
        schema = _left_out(row_schema(shape, _type_of(archive)), key, without, table)
        reading = ImageReading(archive, False, (resources or Resources()).threads)
        exact = window.exact or _is_untouched(reading, course.segments[-1], window)
        if not key and not exact:
            raise DataLossError(
                f"{table} has no primary key, and changed while it was read; take a brief lock (--lock)"
            )
        net = NetImages(schema, key, "first", (resources or Resources()).memory)
        for segment in course.segments:
            for images in reading.images(segment, schema, key):
                net.add(images)
        for batch in rows.batches():
            net.add(as_images(_renamed(batch, names), schema))
    return TableState(
        *(name, at, "backward", schema, key, shape, net),
        changes=reading.changes,
        exact=exact,
        live_name=course.segments[-1].name,
    )


def state_forward(
    archive: Archive,
    table: str,
    when: When,
    copy: Any = None,
    copy_at: When = None,
    *,
    without: Sequence[str] = (),
    resources: Resources | None = None,
) -> TableState:
    """Return the table at a moment, reconstructed from an earlier copy or an empty table.

    Without a copy, start where a statement created or emptied the table.

    Args:
        archive: the binlog files from the copy's position on to the moment.
        table: its name at the moment, ``database.table``.
        when: the moment.
        copy: the rows; see :func:`~replica_client.archive.as_of.starting_rows.open_copy`.
        copy_at: the position of the copy; None: the position that the copy records.
        without: columns to leave out.
        resources: threads and memory that may be used.

    Raises:
        ConfigError: the moment is not in the archive.
        DataLossError: a change between cannot be followed; the message says where.
    """
    name, at = named_table(table), moment_of(archive, when)
    copied: CopiedRows | None = None
    start: Position | None = None
    if copy is not None:
        copied = open_copy(copy, archive.files.decode)
        known_at = copy_at if copy_at is not None else copied.position
        if known_at is None:
            raise ConfigError(
                "the copy does not contain its position; give it (--copy-at), for example the one that "
                "mysqldump --source-data writes"
            )
        start = moment_of(archive, known_at, "copy_at")
        if start > at:
            raise ConfigError(f"the copy is of {start}, after {at}; give an earlier copy")
    course = course_before(archive, name, start, at)
    _check_cascades(archive, course)
    model = course.model or _known_model(archive, name, at)
    if model is not None and model.untracked:
        raise DataLossError(f"{'.'.join(name)}: {model.untracked}")
    shape = None if model is None and copied is not None else shape_at(archive, name, at, model)
    if copied is not None and not course.begins_empty:
        copied.open(course.segments[0].name)
    schema, key = _form(archive, name, shape, copied)
    schema = _left_out(schema, key, without, table)
    constants = _constants(archive, course, schema)
    net = NetImages(schema, key, "last", (resources or Resources()).memory)
    if copied is not None and not course.begins_empty:
        own = course.segments[0].columns
        names = {new: old for old, new in own.items()} if own is not None else None
        there = set(schema.names if own is None else own) & set(schema.names)
        with closing(copied):
            for batch in copied.batches():
                images = _renamed(batch, names)
                _check_columns(images, there)
                net.add(as_images(images, schema, constants))
    reading = ImageReading(archive, True, (resources or Resources()).threads)
    for segment in course.segments:
        for images in reading.images(segment, schema, key, constants):
            net.add(images)
    return TableState(
        name, at, "forward", schema, key, shape, net, changes=reading.changes, exact=True
    )


def _constants(archive: Archive, course: Course, schema: pa.Schema) -> Constants:
    """Return the values of added columns in earlier rows.

    Raises:
        DataLossError: the value of a wanted column is not known.
    """
    added = {name: one for name, one in course.added.items() if name in schema.names}
    for one in added.values():
        if one.error is not None:
            raise one.error
    if not added:
        return NO_CONSTANTS
    columns = tuple(replace(one.column, name=name) for name, one in added.items())
    shape = shape_of(TableModel("", "", columns), flavor_of(archive))
    shape = replace(shape, columns=tuple(completed(one, None) for one in shape.columns))
    builder = BatchBuilder(shape, None, archive.files.decode)
    builder.rows.append_values(
        None,
        [_value(column, one.value) for column, one in zip(columns, added.values(), strict=True)],
    )
    return Constants(builder.finish_values())


def _value(column: ColumnModel, stored: StoredValue) -> Any:
    """Return the decoder's value for the text of a value."""
    if stored is None or column.kind in STRINGS or column.kind in BYTES:
        return stored
    labels = column.labels or ()
    if column.kind == "enum":
        stored = labels.index(str(stored)) + 1
    if column.kind == "set":
        chosen = str(stored).split(",")
        stored = sum(1 << at for at, label in enumerate(labels) if label in chosen)
    if column.kind == "decimal":
        return Decimal(str(stored))
    convert = selected(column).convert
    return stored if convert is None else convert(stored)


def planned_state(archive: Archive, table: str, when: When) -> tuple[Position, TableShape]:
    """Return the position of a moment, and the columns of a table there.

    Args:
        archive: the archive.
        table: its name at the moment, ``database.table``.
        when: the moment.

    Raises:
        ConfigError: the moment is not in the archive.
        DataLossError: no statement and no table map gives the definition.
    """
    name, at = named_table(table), moment_of(archive, when)
    model = _known_model(archive, name, at)
    shape = shape_at(archive, name, at, model)
    if shape is None:
        raise DataLossError(
            f"the definition of {'.'.join(name)} at {at} is not known: no CREATE TABLE of it is in the archive before"
        )
    return at, shape


def _form(
    archive: Archive, name: TableName, shape: TableShape | None, copied: CopiedRows | None
) -> tuple[pa.Schema, list[str]]:
    """Return the schema of the rows, and the names of the key's columns."""
    if shape is not None:
        key = [shape.columns[at].name for at in shape.primary_key]
        return row_schema(shape, _type_of(archive)), key
    if copied is None or copied.key is None:
        raise DataLossError(
            f"the definition of {'.'.join(name)} is not known: no CREATE TABLE of it is in the archive; give the "
            "schema (--schema)"
        )
    return copied.schema, list(copied.key)


def _left_out(
    schema: pa.Schema, key: Sequence[str], without: Sequence[str], table: str
) -> pa.Schema:
    """Return the schema without some of its columns.

    Raises:
        ConfigError: there is no such column, it is part of the key, or no column would be left.
    """
    known = [name for name in schema.names if name != LOSSLESS]
    for name in without:
        if name not in known:
            raise ConfigError(f"without: {table} has no column {name!r}; it has {', '.join(known)}")
        if name in key:
            raise ConfigError(f"without: {name!r} is a column of the primary key of {table}")
    if not set(known) - set(without):
        raise ConfigError(f"without: no column of {table} is left")
    kept = [field for field in schema if field.name not in without]
    return pa.schema(kept, schema.metadata)


def _check_columns(rows: pa.RecordBatch, wanted: Set[str]) -> None:
    """Raise an error if a copy lacks columns of the table, which would become NULL.

    Raises:
        ConfigError: a column is missing.
    """
    missing = sorted(wanted - set(rows.schema.names) - {LOSSLESS})
    if missing:
        raise ConfigError(
            f"the copy lacks {', '.join(missing)}, which the table had then; give a whole copy, or leave the columns "
            "out (--without)"
        )


def _known_model(archive: Archive, name: TableName, at: Position) -> TableModel | None:
    archive.index()
    found = archive.files.history_at(at).table(name)
    return found if isinstance(found, TableModel) else None


def _check_reach(archive: Archive, at: Position, window: Window) -> None:
    """Raise an error if the archive does not reach the position of the live table.

    Raises:
        DataLossError: changes up to that position are not in the archive.
        ConfigError: the moment is after the position at which the table was read.
    """
    names = [one.name for one in archive.files.listed]
    if window.high.file not in names:
        raise DataLossError(
            f"the table was read at {window.high}, and the archive has {names[0]} … {names[-1]}: the changes between "
            "are missing; copy the binlog on (replica-client backup), and name the server that wrote these files"
        )
    end = end_of(archive)
    if window.high > end:
        raise DataLossError(
            f"the table was read at {window.high}, and the archive ends at {end}: the changes between are missing; "
            "copy the binlog on (replica-client backup)"
        )
    if at > window.low:
        raise ConfigError(f"{at} lies after {window.low}, where the table was read")


def _check_cascades(archive: Archive, course: Course) -> None:
    found = logged_definitions(archive).children & {one.name for one in course.segments}
    if found:
        raise DataLossError(
            f"{'.'.join(min(found))}: foreign keys change rows of it without a word in the binlog (CASCADE, SET NULL), "
            "so that it is not known as it was"
        )


def reaching(archive: Archive, at: Position, window: Window) -> Archive:
    """Return the archive, listed again if needed, that reaches from a moment to a reading of a table.

    Raises:
        DataLossError: changes up to the reading are not in the archive.
        ConfigError: the moment is after the position at which the table was read.
    """
    if window.high > end_of(archive):
        archive = Archive(archive.files.listed_again())
    _check_reach(archive, at, window)
    return archive


def is_untouched(archive: Archive, name: TableName, low: Position, high: Position) -> bool:
    """Return whether no transaction between two positions of an archive changed a table's rows."""
    reading = ImageReading(archive, True, DEFAULT_THREADS)
    part = Segment(low, high, name, None)
    return not any(batch.num_rows for batch in reading.batches(part))


def _is_untouched(reading: ImageReading, last: Segment, window: Window) -> bool:
    """Return whether no row of the table changed while the table was read."""
    part = Segment(max(window.low, last.start), window.high, last.name, last.columns)
    return not any(batch.num_rows for batch in reading.batches(part))


def _type_of(archive: Archive) -> Callable[[Any], pa.DataType]:
    return lambda column: arrow_column(column, archive.files.decode).type


def _renamed(batch: pa.RecordBatch, names: dict[str, str] | None) -> pa.RecordBatch:
    """Return a batch whose columns have the names of the wanted definition."""
    if names is None:
        return batch
    kept = [name for name in batch.schema.names if name in names or name.startswith("_lossless")]
    return batch.select(kept).rename_columns([names.get(name, name) for name in kept])


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
