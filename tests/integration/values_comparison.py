"""Random tables and statements on a real server; every decoded row against the server's SELECT."""

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pymysql.constants import COMMAND

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events.rows import RowsEvent
from replica_client.binlog.events.table_map import TableMapEvent
from replica_client.constants.flavor import ServerFlavor
from replica_client.rows.absent import ABSENT
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import ColumnDefinition, TableShape
from tests.integration.values_generator import Kind, makers
from tests.servers.server import Server

ROWS_PER_INSERT = 25
IMAGES = ("FULL", "MINIMAL", "NOBLOB")
# What binlog_row_metadata=MINIMAL keeps.
_MINIMAL_FIELDS = {1, 2, 3, 7}


@dataclass(slots=True)
class Tally:
    """What was compared, and what differed."""

    rows: int = 0
    values: int = 0
    tables: int = 0
    differences: list[str] = field(default_factory=list)
    by_type: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.tables} tables, {self.rows} row images, {self.values} values, "
            f"{len(self.differences)} differences"
        )


class ValuesComparison:
    """One server, one database of its own."""

    def __init__(self, server: Server, database: str, seed: int) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.database = database
        self.tally = Tally()
        self._connection = server.connect(conv={})
        self._connection.select_db(database)
        self._makers = makers(server.flavor, server.version)
        self._execute("SET sql_mode = '', time_zone = '+00:00'")
        if server.flavor == "mariadb" or server.version < (8, 0):
            self._execute("SET SESSION binlog_format = ROW")
        if server.flavor == "mysql" and server.version >= (8, 0, 3):
            self._execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        self._collations = {
            name: int(number)
            for name, number in self._query(
                "SELECT CHARACTER_SET_NAME, MIN(ID) FROM information_schema.COLLATIONS"
                " WHERE CHARACTER_SET_NAME IS NOT NULL AND ID > 0 GROUP BY CHARACTER_SET_NAME"
            )
        }

    def close(self) -> None:
        self._connection.close()

    def _execute(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def run(self, rows: int) -> Tally:
        """Compare until at least so many rows were inserted."""
        inserted = 0
        while inserted < rows:
            inserted += self._one_table()
        return self.tally

    def _one_table(self) -> int:
        rng = self.rng
        self.tally.tables += 1
        table = f"t{self.tally.tables}"
        kinds = [rng.choice(self._makers)(rng) for _ in range(rng.randint(3, 16))]
        columns = ", ".join(
            f"c{at} {kind.sql}{' NOT NULL' if kind.not_null else ''}"
            for at, kind in enumerate(kinds)
        )
        self._execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, {columns}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
        )
        image = rng.choice(IMAGES)
        self._execute(f"SET SESSION binlog_row_image = '{image}'")
        first = 1
        for _ in range(2):
            self._insert(table, kinds, first)
            first += ROWS_PER_INSERT
            for _ in range(4):
                self._update(table, kinds, rng.randrange(1, first), image)
        self._delete(table, kinds, image)
        self._execute(f"DROP TABLE {table}")
        return first - 1

    def _literal(self, kind: Kind) -> str:
        if not kind.not_null and self.rng.random() < 0.15:
            return "NULL"
        return kind.literal(self.rng)

    def _insert(self, table: str, kinds: Sequence[Kind], first: int) -> None:
        rows = ", ".join(
            f"({first + i}, {', '.join(self._literal(kind) for kind in kinds)})"
            for i in range(ROWS_PER_INSERT)
        )
        start = self.server.binlog_position()
        self._execute(f"INSERT INTO {table} VALUES {rows}")
        selected = self._selected(table, kinds, f"id >= {first}")
        pairs = list(self._logged(table, kinds, start))
        if len(pairs) != len(selected):
            self.tally.differences.append(f"{table}: {len(pairs)} rows for {len(selected)}")
        for before, after in pairs:
            assert before is None
            self._compare(table, kinds, after, selected[after[0]], "all")

    def _update(self, table: str, kinds: Sequence[Kind], key: int, image: str) -> None:
        changed = self.rng.sample(range(len(kinds)), self.rng.randint(1, min(3, len(kinds))))
        assignments = []
        for at in changed:
            if kinds[at].is_json and self.rng.random() < 0.7:
                value = f"JSON_SET(c{at}, '$[1]', {self.rng.randint(0, 9)})"
            else:
                value = self._literal(kinds[at])
            assignments.append(f"c{at} = {value}")
        old = self._selected(table, kinds, f"id = {key}")[key]
        start = self.server.binlog_position()
        self._execute(f"UPDATE {table} SET {', '.join(assignments)} WHERE id = {key}")
        new = self._selected(table, kinds, f"id = {key}")[key]
        pairs = list(self._logged(table, kinds, start))
        if old == new and not pairs:
            return
        for before, after in pairs:
            present = "all" if image == "FULL" else "some"
            self._compare(table, kinds, before, old, present)
            self._compare(table, kinds, after, new, present)
            for at in range(len(kinds)):
                if after[at + 1] is ABSENT and old[at] != new[at]:
                    self.tally.differences.append(f"{table} id {key}: c{at} changed, is absent")

    def _delete(self, table: str, kinds: Sequence[Kind], image: str) -> None:
        selected = self._selected(table, kinds, "id % 3 = 0")
        start = self.server.binlog_position()
        self._execute(f"DELETE FROM {table} WHERE id % 3 = 0")
        pairs = list(self._logged(table, kinds, start))
        if len(pairs) != len(selected):
            self.tally.differences.append(f"{table}: {len(pairs)} deleted for {len(selected)}")
        for before, after in pairs:
            assert after is None
            present = "all" if image == "FULL" else "some"
            self._compare(table, kinds, before, selected[before[0]], present)

    def _selected(
        self, table: str, kinds: Sequence[Kind], where: str
    ) -> dict[int, tuple[str | None, ...]]:
        """The server's text of every value, by id."""
        columns = ", ".join(kind.select.format(f"c{at}") for at, kind in enumerate(kinds))
        rows = self._query(f"SELECT id, {columns} FROM {table} WHERE {where}")
        return {int(row[0]): tuple(map(_text, row[1:])) for row in rows}

    def _compare(
        self,
        table: str,
        kinds: Sequence[Kind],
        row: tuple[Any, ...],
        expected: tuple[str | None, ...],
        present: str,
    ) -> None:
        self.tally.rows += 1
        for at, (kind, value, text) in enumerate(zip(kinds, row[1:], expected, strict=True)):
            if value is ABSENT:
                if present == "all":
                    self.tally.differences.append(f"{table}: c{at} {kind.sql[:60]} is absent")
                continue
            if kind.is_json and isinstance(value, tuple):
                # Differences without the before image; tests of JSON compare them.
                continue
            self.tally.values += 1
            name = kind.sql.split("(")[0].split(" ")[0]
            self.tally.by_type[name] = self.tally.by_type.get(name, 0) + 1
            if value is None:
                same, shown = text is None, "NULL"
            else:
                shown = kind.text(value)
                same = shown == _comparable(kind, text)
            if not same:
                self.tally.differences.append(
                    f"{table} id {row[0]} c{at} {kind.sql[:60]}: server {text}, decoded {shown}"
                )

    def _logged(
        self, table: str, kinds: Sequence[Kind], start: tuple[str, int]
    ) -> Iterator[tuple[Any, Any]]:
        """The rows of a table that were logged since a position."""
        definitions = self._definitions(kinds)
        for event, decoder in logged_events(self.server, start):
            if not isinstance(event.body, RowsEvent):
                continue
            table_map = decoder.table_map(event.body.table_id)
            if (table_map.schema, table_map.table) != (self.database, table):
                continue
            yield from self._rows_of(event, table_map, kinds, definitions)

    def _rows_of(
        self,
        event: BinlogEvent,
        table_map: TableMapEvent,
        kinds: Sequence[Kind],
        definitions: Sequence[ColumnDefinition],
    ) -> Iterator[tuple[Any, Any]]:
        """The rows, the same with all of the metadata, with MINIMAL metadata and with none."""
        flavor = ServerFlavor(self.server.flavor)
        results = []
        for metadata in (
            table_map.optional_metadata,
            _minimal(table_map.optional_metadata),
            b"",
        ):
            told = replace(table_map, optional_metadata=metadata)
            shape = TableShape.from_table_map(told, flavor).resolved_with(definitions)
            results.append(list(RowImageDecoder(shape).iter_event(event)))
        if not results[0] == results[1] == results[2]:
            self.tally.differences.append(f"{table_map.table}: metadata changes the values")
        yield from results[0]

    def _definitions(self, kinds: Sequence[Kind]) -> list[ColumnDefinition]:
        found = [ColumnDefinition("id", unsigned=False)]
        for at, kind in enumerate(kinds):
            charset = kind.charset
            collation = None
            if charset is not None:
                collation = self._collations.get(charset) or self._collations[f"{charset}mb3"]
            found.append(
                ColumnDefinition(
                    f"c{at}",
                    unsigned=kind.unsigned,
                    collation_id=collation,
                    labels=kind.labels,
                    logical_type=kind.logical_type,  # type: ignore[arg-type]
                )
            )
        return found


def logged_events(
    server: Server, start: tuple[str, int]
) -> Iterator[tuple[BinlogEvent, BinlogDecoder]]:
    """Every event from a position to the end, and the decoder that knows their table maps."""
    file, offset = start
    decoder = BinlogDecoder()
    connection: Any = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = 'CRC32', @mariadb_slave_capability = 4")
            cursor.execute("SET @source_binlog_checksum = 'CRC32'")
        request = struct.pack("<IHI", offset, 1, 0x5EED) + file.encode()
        connection._execute_command(COMMAND.COM_BINLOG_DUMP, request)
        while True:
            packet = connection._read_packet()
            if packet.is_eof_packet():
                return
            yield decoder.decode(packet.get_all_data()[1:], 0), decoder
    finally:
        connection._force_close()


def _text(value: Any) -> str | None:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _comparable(kind: Kind, text: str | None) -> str | None:
    if text is not None and kind.sql.startswith(("FLOAT", "DOUBLE")):
        return struct.pack("<f" if kind.sql.startswith("FLOAT") else "<d", float(text)).hex()
    return text


def _minimal(metadata: bytes) -> bytes:
    """The fields that binlog_row_metadata=MINIMAL would have written."""
    kept, at = b"", 0
    while at < len(metadata):
        size = metadata[at + 1]
        head = 2
        if size == 0xFC:
            size, head = int.from_bytes(metadata[at + 2 : at + 4], "little"), 4
        field_bytes = metadata[at : at + head + size]
        if metadata[at] in _MINIMAL_FIELDS:
            kept += field_bytes
        at += len(field_bytes)
    return kept
