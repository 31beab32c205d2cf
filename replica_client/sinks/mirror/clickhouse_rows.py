"""Rows of a mirror in ClickHouse: written to staging tables, and moved when committed.

ClickHouse has no transactions. Rows are written to a staging table per table, which no reader uses,
with a version that no committed row has. The commit of a version makes them valid, and then they
are moved in one step (MOVE PARTITION). Into a table with materialized views, which see inserts only,
or with columns of its users, they are inserted. Moving or writing rows twice changes nothing, as the
row with the highest version wins for each key.

A table without a primary key has two columns instead: a digest of the row, and its number among
equal rows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from replica_client.schema.model import TableModel
from replica_client.sinks.mirror.clickhouse_client import (
    DELETED,
    INSERTING,
    NUMBER,
    ROW,
    UNKNOWN_TABLE,
    VERSION,
    ClickhouseClient,
    ClickhouseError,
    column_list,
    key_columns,
    key_types,
    literal,
    quoted,
    shown,
    texts,
)
from replica_client.sinks.mirror.mirror_database import KeyTwiceError, MirrorDatabase
from replica_client.stream.tables.net_changes import Values

_LOG = logging.getLogger("replica_client.sinks")
_INSERTED: Final = 50_000
# Aliases that are no column of a source: ClickHouse prefers an alias to a column of its name.
_LAST: Final = f"{VERSION}_last"
_GONE: Final = f"{DELETED}_last"
_KEY: Final = f"{ROW}_key_"
_COLUMN: Final = f"{ROW}_column_"
# Committed rows must survive a power failure.
DURABLE: Final = "fsync_after_insert = 1, fsync_part_directory = 1"


def qualified(name: tuple[str, str]) -> str:
    """Return a database and a table as SQL."""
    return f"{quoted(name[0])}.{quoted(name[1])}"


@dataclass
class _Staging:
    """A staging table for rows that are not committed yet.

    Attributes:
        name: name as SQL; the target itself if it is not in use yet.
        table: target table as SQL.
        key: columns that identify a row.
        columns: names of the columns, as SQL.
        uuid: UUID of the target table.
        made: whether the staging table exists.
        used: whether it has rows.
    """

    name: str
    table: str
    key: list[str]
    columns: list[str]
    uuid: str = ""
    made: bool = False
    used: bool = field(default=False)


class ClickhouseRows(MirrorDatabase):
    """The rows part of a ClickHouse mirror; subclasses add names and definitions.

    Args:
        client: the connection.
        own: database of the mirror's own tables.
        session: unique name of this writer.

    Attributes:
        version: the highest version given to rows.
    """

    conflict = KeyTwiceError

    def __init__(self, client: ClickhouseClient, own: str, session: str) -> None:
        self._client, self._own, self._session = client, own, session
        self.version = 0
        self.rebuilt = qualified((own, "_replica_client_rebuilt"))
        self._staging: dict[str, _Staging] = {}
        self._stored: dict[str, tuple[str, str]] = {}

    def quoted(self, name: str) -> str:
        return quoted(name)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        """Run a query whose values are text; see the base."""
        first, *rest = sql.split(self.mark) if values else [sql]
        parts = [first]
        for value, part in zip(values, rest, strict=True):
            parts += [literal(value), part]
        yield from self._client.rows("".join(parts))

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return 0, as the number of rows is unknown; see the base."""
        assert not values
        self._client.execute(sql)
        return 0

    def _one(self, sql: str) -> Any:
        return next(iter(self._client.rows(sql)))[0]

    def uuid(self, name: tuple[str, str]) -> str | None:
        """Return the UUID of the table that has a name now; None if there is no such table."""
        where = f"database = {literal(name[0])} AND name = {literal(name[1])}"
        found = list(self.rows(f"SELECT toString(uuid) FROM system.tables WHERE {where}"))
        return str(found[0][0]) if found else None

    def name_of(self, uuid: str) -> tuple[str, str] | None:
        """Return database and name of the table with a UUID; None if there is no such table."""
        where = f"uuid = toUUID({literal(uuid)})"
        found = list(self.rows(f"SELECT database, name FROM system.tables WHERE {where}"))
        return (str(found[0][0]), str(found[0][1])) if found else None

    def statement(self, model: TableModel, table: str, *, staging: bool = False) -> str:
        """Return the CREATE TABLE statement of a table, or of its staging table."""
        key = ", ".join(map(quoted, key_columns(model)))
        settings = DURABLE
        if staging:
            # Older versions of rows are queried: parts must not be merged.
            settings += ", max_bytes_to_merge_at_max_space_in_pool = 1"
        return (
            f"CREATE TABLE {table} ({column_list(model)}) ENGINE = ReplacingMergeTree({VERSION}, {DELETED}) "
            f"ORDER BY ({key}) SETTINGS {settings}"
        )

    # Staging.

    def _staged_name(self, uuid: str) -> str:
        return f"staged_{self._session}_{uuid}"

    def _staged(self, table: str, model: TableModel) -> _Staging:
        """Return the staging table of a table, created if needed."""
        found = self._staging.get(table)
        if found is None:
            key = [quoted(name) for name in key_columns(model)]
            columns = [quoted(column.name) for column in model.columns]
            if table == self.rebuilt:
                return _Staging(table, table, key, columns, made=True)
            uuid = self.uuid(self._stored[table])
            if uuid is None:
                raise ClickhouseError(f"table {table} does not exist", UNKNOWN_TABLE)
            name = qualified((self._own, self._staged_name(uuid)))
            found = self._staging[table] = _Staging(name, table, key, columns, uuid)
        if not found.made:
            self._client.execute(self.statement(model, found.name, staging=True))
            found.made = True
        return found

    def move_staged(self, *, renamed: bool) -> None:
        """Move committed rows into their tables.

        Args:
            renamed: whether tables were renamed or dropped.
        """
        for staging in self._staging.values():
            if staging.used:
                name = self.name_of(staging.uuid) if renamed else self._stored[staging.table]
                if name is not None:
                    self.move(self._staged_name(staging.uuid), name)
                staging.used = False

    def move(self, staged: str, name: tuple[str, str]) -> None:
        """Move all rows of a staging table into its table.

        They are inserted if users put materialized views or columns on the table: views see no moved
        rows, and a table with other columns takes none.

        Args:
            staged: name of the staging table in the mirror's own database.
            name: database and name of the table.
        """
        (own, of), (database, table) = (map(literal, one) for one in ((self._own, staged), name))
        ((views, columns, ours),) = self.rows(
            f"SELECT (SELECT count() FROM system.tables WHERE database = {database} AND name = {table} AND "
            "notEmpty(dependencies_table)), "
            f"countIf(database = {database} AND table = {table} AND default_kind != 'ALIAS'), "
            f"countIf(database = {own} AND table = {of}) FROM system.columns WHERE "
            f"(database = {database} AND table = {table}) OR (database = {own} AND table = {of})"
        )
        begin = qualified((self._own, staged))
        if not int(views) and columns == ours:
            self._client.execute(
                f"ALTER TABLE {begin} MOVE PARTITION tuple() TO TABLE {qualified(name)}"
            )
            return
        found = self.rows(
            f"SELECT name FROM system.columns WHERE database = {own} AND table = {of} ORDER BY position"
        )
        names = ", ".join(quoted(one) for (one,) in list(found))
        insert = f"INSERT INTO {qualified(name)} ({names}) SETTINGS {INSERTING}"
        rows = f" SELECT {names} FROM {begin}"
        try:
            self._client.execute(insert + rows)
        except ClickhouseError as error:
            if not int(views) or error.passing:
                raise
            _LOG.warning(
                "%s.%s: a materialized view lacks rows, because it refuses them: %s", *name, error
            )
            self._client.execute(f"{insert}, materialized_views_ignore_errors = 1{rows}")
        self._client.execute(f"TRUNCATE TABLE {begin}")

    def forget_staging(self) -> None:
        """Drop the staging tables, as the set of tables has changed."""
        for staging in self._staging.values():
            if staging.made:
                self._client.execute(f"DROP TABLE IF EXISTS {staging.name} SYNC")
        self._staging.clear()

    def readable(self, table: str) -> str:
        """Return the SQL of a table's newest rows, including uncommitted rows."""
        staging = self._staging.get(table)
        if staging is None or not staging.used:
            return f"{table} FINAL"
        own = [VERSION, DELETED, *(name for name in (ROW, NUMBER) if quoted(name) in staging.key)]
        every = ", ".join((*staging.columns, *own))
        key = ", ".join(staging.key)
        return (
            f"(SELECT {every} FROM (SELECT {every} FROM {table} UNION ALL SELECT {every} FROM {staging.name}) "
            f"ORDER BY {VERSION} DESC LIMIT 1 BY {key}) AS t"
        )

    def present(self, table: str, condition: str = "1") -> str:
        """Return FROM and WHERE for a table's existing rows that meet a condition."""
        return f"{self.readable(table)} WHERE {DELETED} = 0 AND {condition}"

    def stored_rows(self, table: str, shown: Sequence[str]) -> Iterator[Values]:
        yield from self.rows(f"SELECT {', '.join(shown)} FROM {self.present(table)}")

    def is_empty(self, model: TableModel) -> bool:
        table = self.table((model.database, model.name))
        return not list(self.rows(f"SELECT 1 FROM {self.present(table)} LIMIT 1"))

    def _write(
        self,
        table: str,
        model: TableModel,
        columns: Sequence[int],
        rows: Iterable[Values],
        *,
        deleted: bool = False,
        tails: Iterable[str] | None = None,
    ) -> None:
        """Write some columns of rows with the next version."""
        self.version += 1
        staging = self._staged(table, model)
        end = f"\t{self.version}\t{int(deleted)}\n"
        own = [VERSION, DELETED, *((ROW, NUMBER) if tails is not None else ())]
        names = [model.columns[at].name for at in columns] + own
        found = iter(rows)
        ends = None if tails is None else (f"{end[:-1]}\t{tail}\n" for tail in tails)
        while some := list(islice(found, _INSERTED)):
            fields = self._fields(model, columns, some)
            lines: Iterable[str]
            if ends is None:
                lines = [one + end for one in fields]
            else:
                lines = [one + tail for one, tail in zip(fields, ends, strict=False)]
            staging.used = True
            self._client.insert(staging.name, names, lines)

    @staticmethod
    def _fields(model: TableModel, columns: Sequence[int], rows: list[Values]) -> Iterator[str]:
        """Yield the rows as TabSeparated fields."""
        values = list(zip(*rows, strict=True))
        every = [texts(model.columns[at], some) for at, some in zip(columns, values, strict=True)]
        return map("\t".join, zip(*every, strict=True))

    # Tables with a primary key.

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        """Add rows; see the base.

        An existing key is noticed only while a table is rebuilt. For other tables, net changes
        check keys.
        """
        found, every = iter(rows), range(len(model.columns))
        if not model.primary_key:
            while some := list(islice(found, _INSERTED)):
                self._insert_keyless(table, model, some)
            return
        count = 0
        while some := list(islice(found, _INSERTED)):
            self._write(table, model, every, some)
            count += len(some)
        if table == self.rebuilt and self._one(f"SELECT count() FROM {table} FINAL") != count:
            raise KeyTwiceError

    def change_rows(
        self,
        model: TableModel,
        key: Sequence[int],
        removed: Collection[Values],
        added: Mapping[Values, Values],
        *,
        strict: bool,
    ) -> int:
        """Apply net changes; see the base.

        A row with the key of a removed row simply replaces it.
        """
        table, every = self._of(model), range(len(model.columns))
        gone = [one for one in removed if one not in added]
        put = {one: added[one] for one in removed if one in added}
        first = self.version + 1
        if gone:
            self._write(table, model, key, gone, deleted=True)
        if put:
            self._write(table, model, every, put.values())
        done = len(removed)
        if strict and removed:
            done = self._count_before(table, model, first, self.version)
        if done != len(removed):
            return done  # the transaction will be rolled back
        if len(added) > len(put):
            self._write(table, model, every, [row for one, row in added.items() if one not in put])
            if strict and self._count_before(table, model, self.version, self.version):
                raise KeyTwiceError
        return done

    def _count_before(self, table: str, model: TableModel, first: int, last: int) -> int:
        """Return how many of the keys written with some versions existed before."""
        staging = self._staged(table, model)
        key = ", ".join(staging.key)
        wanted = f"SELECT {key} FROM {staging.name} WHERE {VERSION} BETWEEN {first} AND {last}"
        parts = " UNION ALL ".join(
            f"SELECT {key}, {VERSION} AS {_LAST}, {DELETED} AS {_GONE} FROM {one} "
            f"WHERE {VERSION} < {first} AND ({key}) IN ({wanted})"
            for one in (table, staging.name)
        )
        return int(
            self._one(
                f"SELECT count() FROM (SELECT 1 FROM ({parts}) GROUP BY {key} HAVING argMax({_GONE}, {_LAST}) = 0)"
            )
        )

    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        return self.change_rows(model, key, keys, {}, strict=True)

    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        self._write(self._of(model), model, range(len(model.columns)), rows)

    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        """Read the rows and write them again as a whole; see the base."""
        # The last patch of a row includes the changes of the patches before it.
        last = {before: values for values, before in rows}
        wanted = list(last.items())
        table, columns = self._of(model), model.columns
        names = [f"{_KEY}{at}" for at in range(len(key))]
        raw = ", ".join(
            f"{quoted(columns[at].name)} AS {name}" for at, name in zip(key, names, strict=True)
        )
        every = ", ".join(
            f"{shown(column, quoted(column.name))} AS {_COLUMN}{at}"
            for at, column in enumerate(columns)
        )
        own = ", ".join(quoted(columns[at].name) for at in key)
        fields = self._fields(model, key, [before for before, _ in wanted])
        with_number = (f"{at}\t{line}\n" for at, line in enumerate(fields))
        scratch = self._scratch(["UInt64", *key_types(model)], ["n", *names], with_number)
        try:
            present = self.present(table, f"({own}) IN (SELECT {', '.join(names)} FROM {scratch})")
            same = " AND ".join(f"s.{name} = t.{name}" for name in names)
            shown_columns = ", ".join(f"t.{_COLUMN}{at}" for at in range(len(columns)))
            found = list(
                self._client.rows(
                    f"SELECT s.n, {shown_columns} FROM {scratch} AS s "
                    f"INNER JOIN (SELECT {raw}, {every} FROM {present}) AS t ON {same}"
                )
            )
        finally:
            self._client.execute(f"DROP TABLE {scratch}")
        gone, made, moved = [], [], 0
        for number, *values in found:
            before, new = wanted[int(number)]
            for at, value in zip(patched, new, strict=True):
                values[at] = value
            if tuple(values[at] for at in key if at in patched) != tuple(
                old for at, old in zip(key, before, strict=True) if at in patched
            ):
                gone.append(before)
                moved += 1
            made.append(tuple(values))
        if gone:
            self._write(table, model, key, gone, deleted=True)
        if made:
            self._write(table, model, range(len(columns)), made)
            if (
                moved
                and self._count_before(table, model, self.version, self.version) > len(made) - moved
            ):
                raise KeyTwiceError
        return len(found) + len(rows) - len(last)

    def _scratch(self, types: Sequence[str], names: Sequence[str], lines: Iterable[str]) -> str:
        """Create a table in the server's memory with some rows, and return its name as SQL."""
        table = qualified((self._own, f"scratch_{self._session}"))
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
        self._client.execute(f"DROP TABLE IF EXISTS {table}")
        self._client.execute(f"CREATE TABLE {table} ({columns}) ENGINE = Memory")
        self._client.insert(table, names, lines)
        return table

    # Tables without a primary key.

    def _insert_keyless(self, table: str, model: TableModel, rows: list[Values]) -> None:
        digests = self._digests(model, rows)
        there = self._counts(table, digests)
        tails = []
        for digest in digests:
            number = there.get(digest, 0)
            there[digest] = number + 1
            tails.append(f"{digest}\t{number}")
        self._write(table, model, range(len(model.columns)), rows, tails=tails)

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """Remove the last ones of equal rows; see the base."""
        table = self._of(model)
        digests = self._digests(model, [row for row, _ in counts])
        there = self._counts(table, digests)
        tails, done = [], 0
        for digest, (_, count) in zip(digests, counts, strict=True):
            number = there.get(digest, 0)
            fewer = min(number, count)
            done += fewer
            tails += [f"{digest}\t{at}" for at in range(number - fewer, number)]
        if tails:
            self._remove_keyless(table, model, tails)
        return done

    def _remove_keyless(self, table: str, model: TableModel, tails: list[str]) -> None:
        self.version += 1
        staging = self._staged(table, model)
        staging.used = True
        lines = (f"{tail}\t{self.version}\t1\n" for tail in tails)
        self._client.insert(staging.name, [ROW, NUMBER, VERSION, DELETED], lines)

    def _digests(self, model: TableModel, rows: list[Values]) -> list[int]:
        fields = self._fields(model, range(len(model.columns)), rows)
        return [int.from_bytes(blake2b(line.encode(), digest_size=16).digest()) for line in fields]

    def _counts(self, table: str, digests: Iterable[int]) -> dict[int, int]:
        """Return the number of existing rows for each digest."""
        lines = (f"{one}\n" for one in dict.fromkeys(digests))
        scratch = self._scratch(["UInt128"], ["k0"], lines)
        try:
            present = self.present(table, f"{ROW} IN (SELECT k0 FROM {scratch})")
            return {
                int(digest): int(count)
                for digest, count in self.rows(
                    f"SELECT toString({ROW}), count() FROM {present} GROUP BY {ROW}"
                )
            }
        finally:
            self._client.execute(f"DROP TABLE {scratch}")

    def _of(self, model: TableModel) -> str:
        return self.table((model.database, model.name))
