"""The history of one row, through changes of its key and renames of its table."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from replica_client.archive.archive import Archive, FoundChange
from replica_client.archive.binlog_archive import IndexedFiles, named_table
from replica_client.archive.known_names import check_table
from replica_client.archive.question import Key, key_literals
from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.selection import exact_pattern
from replica_client.rows.special_values import ABSENT
from replica_client.schema.ddl.steps import TableName

_Order = tuple[Position, int, int]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for changes of a key: all, those before a change, or those after a change."""

    key: tuple[tuple[str, str], ...]
    behind: _Order | None = None
    before: _Order | None = None


@dataclass(frozen=True, slots=True)
class TableEra:
    """A range of the binlog in which a table had one name.

    Attributes:
        name: database and table.
        start: the first position; None: from the beginning.
        stop: the end; None: to the end of the archive.
    """

    name: TableName
    start: Position | None = None
    stop: Position | None = None


def history_of(
    archive: Archive, table: str, key: Key, *, allow_empty: bool = False
) -> list[FoundChange]:
    """Return the changes of a row, in the order of the binlog.

    The search begins with all changes of the given key. If an update gave the row that key, the
    earlier changes of its old key are added; if an update gave it another key, the later changes of
    that key.

    Args:
        archive: the archive.
        table: its name at the end of the archive, ``database.table``.
        key: the row's key at any time.
        allow_empty: take a table that the archive does not have.

    Raises:
        ConfigError: the key does not fit the table, or there is no such table.
        DataLossError: the row images lack columns of the key.
    """
    if key is None:
        raise ConfigError(f"history of {table}: give the key of one row")
    eras = eras_of(archive.files, named_table(table))
    patterns = [exact_pattern(*era.name) for era in eras]
    found: dict[_Order, FoundChange] = {}
    searches: deque[_Search] = deque()
    searched: set[_Search] = set()
    first = list(archive.find(patterns, key, allow_empty=True))
    if not first and not allow_empty:
        check_table(archive, eras[0].name)
    for one in first:
        if _in_era(one.change, eras):
            found[_order(one)] = one
    columns = _key_columns(first, key)
    for one in list(found.values()):
        searches.extend(_neighbours(one, columns))
    while searches:
        search = searches.popleft()
        if search in searched:
            continue
        searched.add(search)
        for one in _life(archive, patterns, eras, search):
            if _order(one) not in found:
                found[_order(one)] = one
                searches.extend(_neighbours(one, columns))
    return [found[at] for at in sorted(found)]


def eras_of(files: IndexedFiles, name: TableName) -> list[TableEra]:
    """Return the names over time of the table that has this name at the end, the newest first.

    A copy that gh-ost or pt-online-schema-change put in a table's place is still that table: its rows
    before are those of the table that it replaced.
    """
    renames: list[tuple[Position, TableName, TableName]] = []
    for change in files.schema_changes():
        if change.kind == "rename_table":
            here = Position(change.file, change.position)
            renames.append((here, (change.database, change.table), change.name_after))
    replaced = {(here, before) for here, before, _ in renames}
    eras: list[TableEra] = []
    stop: Position | None = None
    now = name
    for here, before, after in reversed(renames):
        if after == now and not (_is_copy(before, now) and (here, now) in replaced):
            eras.append(TableEra(now, here, stop))
            now, stop = before, here
    eras.append(TableEra(now, None, stop))
    return eras


def _is_copy(name: TableName, table: TableName) -> bool:
    """Return whether a name is that of a tool's copy of a table: ``_orders_gho``, ``_orders_new``."""
    return name[0] == table[0] and name[1].lstrip("_") in (
        f"{table[1].lstrip('_')}_gho",
        f"{table[1].lstrip('_')}_new",
    )


def _in_era(change: Change, eras: list[TableEra]) -> bool:
    here = Position(change.file, change.offset)
    return any(
        era.name == (change.database, change.table)
        and (era.start is None or here >= era.start)
        and (era.stop is None or here < era.stop)
        for era in eras
    )


def _order(one: FoundChange) -> _Order:
    change = one.change
    return Position(change.file, change.offset), change.event_index, change.row_index


def _key_columns(found: list[FoundChange], key: Key) -> tuple[str, ...]:
    if isinstance(key, Mapping):
        return tuple(key)
    if not found:
        return ()
    shape = found[0].change.shape
    columns, _ = key_literals(shape, key)
    return tuple(shape.column_names[at] for at in columns)


def _key_of(change: Change, row: Row, columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    values = []
    for name in columns:
        value = row[name]
        if value is ABSENT and change.before is not None:
            value = change.before[name]
        if value is ABSENT or value is None:
            raise DataLossError(
                f"file {change.file}, position {change.offset}: the row image of {change.database}.{change.table} "
                f"lacks column {name!r} of the key"
            )
        if isinstance(value, (bytes, bytearray)):
            value = f"x'{value.hex()}'"
        values.append((name, str(value)))
    return tuple(values)


def _neighbours(one: FoundChange, columns: tuple[str, ...]) -> list[_Search]:
    """Return the searches for a row under its other key, if a change updated its key."""
    change = one.change
    if change.kind != "update" or change.before is None or change.after is None:
        return []
    old, new = (_key_of(change, row, columns) for row in (change.before, change.after))
    if old == new:
        return []
    return [_Search(old, before=_order(one)), _Search(new, behind=_order(one))]


def _life(
    archive: Archive, patterns: list[str], eras: list[TableEra], search: _Search
) -> list[FoundChange]:
    """Return the changes of a key that belong to the row of the change that led to it."""
    columns = tuple(name for name, _ in search.key)
    changes = [
        one
        for one in archive.find(patterns, dict(search.key), allow_empty=True)
        if _in_era(one.change, eras)
        and (search.before is None or _order(one) < search.before)
        and (search.behind is None or _order(one) > search.behind)
    ]
    life: list[FoundChange] = []
    for one in reversed(changes) if search.before is not None else changes:
        change = one.change
        before, after = (
            None if row is None else _key_of(change, row, columns)
            for row in (change.before, change.after)
        )
        # Backward, the row must have the key after a change; forward, before it.
        near, far = (after, before) if search.before is not None else (before, after)
        if near != search.key:
            break
        life.append(one)
        if far != search.key:
            break
    return life
