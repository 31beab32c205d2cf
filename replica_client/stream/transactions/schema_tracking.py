"""Use of the schema history while reading: statements update it, table maps are checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Literal

from replica_client.errors import UnknownTableError
from replica_client.options import remedies
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat, parse_server_version
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import SERVERS_OWN, Selection
from replica_client.schema.catalog import Absent, TableChange, TableState, Unverified, are_shared
from replica_client.schema.ddl.statements import changed_tables, filled_tables
from replica_client.schema.ddl.steps import (
    CreateLike,
    CreateTable,
    RenameTables,
    TableName,
    Unrelated,
)
from replica_client.schema.history import LogPosition, SchemaChange, SchemaHistory, schema_change
from replica_client.schema.kinds import kinds_of
from replica_client.schema.left_out import describes_rows, hiding_columns
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.names import RESERVED, casefold_table
from replica_client.schema.resolve import (
    find_mismatch,
    hash_columns,
    lacks_charset,
    may_have_hash_columns,
    resolve,
    resolve_if_fitting,
    with_hash_columns,
)
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.transactions.query_text import (
    UNKNOWN,
    Provenance,
    ReadQuery,
    first_word,
    may_change_rows,
    read_query,
)

_LOG = logging.getLogger("replica_client.stream")
# MariaDB's two-phase ALTER takes effect when it is committed.
_START_ALTER, _ROLLBACK_ALTER = 0x02, 0x08

# MariaDB's SET STATEMENT … FOR can precede any other statement.
_MAY_RENAME: Final = (b"RENAME", b"SET")
_COLUMN_SIZE: Final = 256
_LABELLED: Final = frozenset(kinds_of("enum", "set"))

UnknownTablePolicy = Literal["error", "positional"]
"""Handling of a table whose definition is unknown: an error, or names ``col_1``, ``col_2`` …."""


class SchemaTracker:
    """Tracker that keeps a schema history in step with the events that are read.

    Args:
        history: the history at the start; it is changed.
        selection: wanted tables; their schema changes are delivered.
        on_unknown: handling of a table that is unknown, or whose definition must be proven and is
            not; None: names by position, and an error if a table map hides the type of a column.
        on_mismatch: handling of a table map that does not fit the known table.
        reports: note disagreements, and log those of wanted tables; False if nobody sees the rows.

    Attributes:
        history: the current history.
        disagreements: self-contained table maps that contradicted the history.
    """

    def __init__(
        self,
        history: SchemaHistory,
        selection: Selection,
        on_unknown: UnknownTablePolicy | None = None,
        on_mismatch: UnknownTablePolicy = "error",
        *,
        reports: bool = True,
    ) -> None:
        self.history = history
        self.disagreements: list[str] = []
        self.reports = reports
        # Names in statements are as typed: other letter cases may be the same table.
        self._exact, self._any_case = selection, selection.casefolded()
        self._on_unknown = on_unknown
        self._on_mismatch = on_mismatch
        # Merged columns by the columns of table map and definition; both are kept, so that no other
        # objects can get their ids.
        self._undoubted: SizedCache[
            tuple[object, ...],
            tuple[tuple[ColumnShape, ...], tuple[ColumnModel, ...], tuple[ColumnShape, ...]],
        ] = SizedCache(256)
        # The statement that was read last: it is needed several times.
        self._last: tuple[BinlogEvent, Provenance, int, ReadQuery] | None = None

    def read_ahead(
        self, event: BinlogEvent, binlog_format: BinlogFormat, provenance: Provenance
    ) -> None:
        """Read a long statement ahead, in another thread; it is kept, as nothing changes meanwhile."""
        read = read_query(event, binlog_format, provenance, self._exists)
        if may_change_rows(event.body.query):
            changed_tables(read.text, read.context)

    def _read(
        self, event: BinlogEvent, binlog_format: BinlogFormat, provenance: Provenance
    ) -> ReadQuery:
        """Read a statement; only once, until it changes the history."""
        last, revision = self._last, self.history.revision
        if last is not None and last[0] is event and last[1:3] == (provenance, revision):
            return last[3]
        read = read_query(event, binlog_format, provenance, self._exists)
        self._last = (event, provenance, revision, read)
        return read

    def run(
        self,
        event: BinlogEvent,
        binlog_format: BinlogFormat,
        index: int,
        provenance: Provenance = UNKNOWN,
    ) -> list[SchemaChange]:
        """Apply a QUERY event to the history.

        Args:
            event: the event.
            binlog_format: format of its file.
            index: index of the event in its transaction.
            provenance: facts from the events around it.

        Returns:
            The changes of wanted tables and of databases.
        """
        body = event.body
        flags = body.session.gtid_flags3
        if flags is not None and flags & (_START_ALTER | _ROLLBACK_ALTER):
            return []
        read = self._read(event, binlog_format, provenance)
        self._last = None  # a long statement must not stay in memory
        changes = self.history.apply(read.meaning, read.context, event.file, event.position)
        return [
            schema_change(
                change,
                read.text,
                event.file,
                event.position,
                index,
                read.context,
                event.header.server_id,
            )
            for change in changes
            if self._is_wanted(change)
        ]

    def text_changes(
        self,
        event: BinlogEvent,
        binlog_format: BinlogFormat,
        provenance: Provenance = UNKNOWN,
    ) -> tuple[TableName, ...]:
        """Return wanted tables whose rows a statement logged as text changed, or may have changed.

        ``("", "")`` stands for tables that the text does not name, as in a procedure call. A name
        that is not known to be a table may be a view of a wanted table.
        """
        tables = self._named_targets(event, binlog_format, provenance)
        if tables is None:
            return (("", ""),)
        if not tables:
            return ()
        wanted = self.typed_selection
        made = first_word(event.body.query) == b"CREATE"  # the table that it makes
        return tuple(
            table
            for table in tables
            if wanted.wants(*table) or not (made or self._is_no_view(table))
        )

    def perhaps_views(
        self, event: BinlogEvent, binlog_format: BinlogFormat
    ) -> tuple[TableName, ...]:
        """Return unwanted names whose rows a statement's text changes, and which may be views."""
        wanted = self.typed_selection
        if first_word(event.body.query) == b"CREATE":
            return ()
        return tuple(
            table
            for table in self._named_targets(event, binlog_format) or ()
            if not wanted.wants(*table) and not self._is_no_view(table)
        )

    def _named_targets(
        self,
        event: BinlogEvent,
        binlog_format: BinlogFormat,
        provenance: Provenance = UNKNOWN,
    ) -> tuple[TableName, ...] | None:
        body = event.body
        if not may_change_rows(body.query):
            return ()
        read = self._read(event, binlog_format, provenance)
        if isinstance(read.meaning, CreateTable) and read.doubtful is None:
            return filled_tables(read.meaning)
        tables = changed_tables(read.text, read.context)
        if tables is None:
            return None
        if read.doubtful is not None:
            others = changed_tables(read.doubtful.text, read.doubtful.context)
            tables = tuple(dict.fromkeys((*tables, *(others or ()))))
        if read.context.uses_temporary is False:
            return tables
        thread_id = read.context.thread_id
        return tuple(table for table in tables if not self.history.is_temporary(thread_id, table))

    def perhaps_temporary(
        self, event: BinlogEvent, binlog_format: BinlogFormat
    ) -> tuple[TableName, ...]:
        """Return the tables of a RENAME TABLE, which may be temporary: MariaDB logs both alike.

        In a swap, as online schema change tools do it, the names are taken for ordinary tables.
        """
        if (
            binlog_format.flavor != ServerFlavor.MARIADB
            or first_word(event.body.query) not in _MAY_RENAME
        ):
            return ()
        read = read_query(event, binlog_format)
        if not isinstance(read.meaning, RenameTables):
            return ()
        renames = read.meaning.renames
        if {casefold_table(old) for old, _ in renames} & {
            casefold_table(new) for _, new in renames
        }:
            return ()  # the name exists after the statement, too
        thread_id = read.context.thread_id
        return tuple(
            old
            for old, new in renames
            if any(self.typed_selection.wants(*name) for name in (old, new))
            and not isinstance(self.history.table(old), Absent)
            and not self.history.is_temporary(thread_id, old)
        )

    def unknown_pattern(self, event: BinlogEvent, binlog_format: BinlogFormat) -> TableName | None:
        """Return the unknown table that a wanted table is made LIKE; None in other cases.

        Definitions are read for wanted tables only, so another table may be needed here for the
        first time.
        """
        if first_word(event.body.query) != b"CREATE" or b"like" not in event.body.query.lower():
            return None
        meaning = read_query(event, binlog_format).meaning
        if not isinstance(meaning, CreateLike) or not self.typed_selection.wants(*meaning.table):
            return None
        is_known = isinstance(self.history.table(meaning.model), TableModel | Absent)
        thread_id = event.body.thread_id
        if is_known or self.history.is_temporary(thread_id, meaning.model):
            return None
        return meaning.model

    def server_began(self, event: BinlogEvent) -> None:
        """Handle a FORMAT_DESCRIPTION; in the first file after a server start it ends all sessions."""
        position = LogPosition.of(event.file, event.position)
        if event.body.create_timestamp and position >= self.history.position:
            self.history.forget_temporary()

    def _is_no_view(self, table: TableName) -> bool:
        """Return whether rows changed under a name are certainly not those of other, wanted tables."""
        if isinstance(self.history.table(table), TableModel):
            return True
        if self._exact.selects_all and table[0] not in SERVERS_OWN:
            return True  # tables of this name and of all others are wanted
        # The server's own tables, which files seldom describe; nobody makes views of other tables
        # there.
        return table[0] in SERVERS_OWN and not self.typed_selection.wants_database(table[0])

    def passes_on(self, event: BinlogEvent, binlog_format: BinlogFormat) -> bool:
        """Return whether a statement is delivered that changes neither a wanted table nor its rows.

        If tables are selected, these are statements on views, routines, accounts and the like in
        sessions whose default database may have wanted tables.
        """
        if self._exact.selects_all:
            return True
        database = event.body.schema.decode("utf-8", "surrogateescape")
        if not self.typed_selection.wants_database(database):
            return False
        # A CREATE may make a view or an index.
        if may_change_rows(event.body.query) and first_word(event.body.query) != b"CREATE":
            return False
        return isinstance(read_query(event, binlog_format).meaning, Unrelated)

    def _exists(self, table: TableName) -> bool:
        return isinstance(self.history.table(table), TableModel)

    @property
    def typed_selection(self) -> Selection:
        """The selection for names in statements."""
        return self._exact if self.history.lower_case_names is False else self._any_case

    @property
    def selection(self) -> Selection:
        """The selection for names in table maps."""
        return self._any_case if self.history.lower_case_names else self._exact

    def _is_wanted(self, change: TableChange) -> bool:
        """Return whether a change concerns a wanted table or database, under its old or new name."""
        if self._exact.selects_all and change.table[0] not in SERVERS_OWN:
            return True
        wanted = self.typed_selection
        if not change.table[1]:
            return not change.table[0] or wanted.wants_database(change.table[0])
        return any(wanted.wants(*name) for name in (change.table, *change.others))

    def state_of(self, table_map: TableMapEvent) -> TableState | None:
        """Return what is known of the table of a table map."""
        return self.history.table((table_map.schema, table_map.table))

    def shape(self, table_map: TableMapEvent, binlog_format: BinlogFormat) -> TableShape:
        """Return the shape of a table map, completed from the history.

        Raises:
            SchemaMismatchError: the history knows the table otherwise (``on_mismatch="error"``).
            UnknownTableError: the table is not known (``on_unknown="error"``).
        """
        shape = TableShape.from_table_map(table_map, binlog_format.flavor)
        state = self.state_of(table_map)
        stated = _describes_rows(shape, binlog_format)
        if isinstance(state, TableModel):
            state = with_hash_columns(shape, state, binlog_format.flavor)
            if (
                not stated
                and self._on_unknown == "error"
                and lacks_charset(shape, state, of_labels=False)
            ):
                raise UnknownTableError(_no_charset_text(table_map))
            if not stated and self._on_mismatch == "error":
                return resolve(shape, state)
            reason = find_mismatch(shape, state)
            if not reason:
                return resolve(shape, state)
            self._disagree(table_map, state, reason)
        elif not shape.names_resolved and self._on_unknown == "error":
            raise UnknownTableError(_unknown_text(table_map, state))
        if shape.names_resolved and self._on_unknown != "positional":
            self._refuse_hidden(table_map, shape, binlog_format)
        return shape

    def _refuse_hidden(
        self, table_map: TableMapEvent, shape: TableShape, binlog_format: BinlogFormat
    ) -> None:
        """Raise if the table map hides the types of wanted columns.

        Raises:
            UnknownTableError: it does; names the columns.
        """
        version = parse_server_version(binlog_format.server_version)
        hidden = hiding_columns(shape, binlog_format.flavor, version)
        wanted = self.selection.columns_of(shape.database, shape.table)
        hidden = {name: kinds for name, kinds in hidden.items() if wanted is None or name in wanted}
        if hidden:
            raise UnknownTableError(_hidden_text(table_map, hidden))

    def undoubted_shape(
        self, table_map: TableMapEvent, binlog_format: BinlogFormat
    ) -> TableShape | None:
        """Return the shape of a table map if no question, error or log line is needed."""
        shape = TableShape.from_table_map(table_map, binlog_format.flavor)
        state = self.state_of(table_map)
        if not isinstance(state, TableModel):
            return shape if _describes_rows(shape, binlog_format) else None
        key = (id(shape.columns), id(state.columns), state.primary_key, binlog_format.flavor)
        known = self._undoubted.get(key)
        if known is not None:
            return TableShape(shape.database, shape.table, known[2])
        stated = _describes_rows(shape, binlog_format)
        if not stated and (lacks_charset(shape, state) or self._lacks_labels(state)):
            return None
        model = with_hash_columns(shape, state, binlog_format.flavor)
        found = resolve_if_fitting(shape, model)
        labelled = any(map(_may_be_asked, state.columns))
        if found is not None and are_shared(state.columns) and not labelled:
            size = _COLUMN_SIZE * len(found.columns)
            self._undoubted.put(key, (shape.columns, state.columns, found.columns), size)
        return found

    def _disagree(self, table_map: TableMapEvent, state: TableModel, reason: str) -> None:
        text = f"{table_map.schema}.{table_map.table}: {reason}"
        if not self.reports:
            return
        self.disagreements.append(text)
        if self.selection.wants(table_map.schema, table_map.table) and self.history.is_new(text):
            _LOG.warning("schema history: %s; the binlog's own names are taken", text)
        self.history.set_table((table_map.schema, table_map.table), Unverified(reason, state))

    def delivered_columns(
        self, table_map: TableMapEvent, shape: TableShape, binlog_format: BinlogFormat
    ) -> frozenset[str] | None:
        """Return the names of a table's delivered columns; None for all."""
        wanted = self.selection.columns_of(shape.database, shape.table)
        # A batch's own columns (_change_type …) may be all that is wanted: count(*).
        of_table = frozenset(wanted or ()).difference(RESERVED["batches"])
        if of_table and of_table.isdisjoint(shape.column_names):
            text = f"columns: {shape.database}.{shape.table} has none of {', '.join(sorted(of_table))}; it has"
            if self.reports and self.history.is_new(text):
                _LOG.warning("%s %s", text, ", ".join(shape.column_names))
        state = self.state_of(table_map)
        model = state if isinstance(state, TableModel) else None
        hidden = hash_columns(shape, model, binlog_format.flavor)
        if not hidden:
            return wanted
        return (frozenset(shape.column_names) if wanted is None else wanted) - hidden

    def needs_proof(self, table_map: TableMapEvent, binlog_format: BinlogFormat) -> bool:
        """Return whether a query to the source could say more about a table map's table."""
        shape = TableShape.from_table_map(table_map, binlog_format.flavor)
        state = self.state_of(table_map)
        if _describes_rows(shape, binlog_format):
            # Only the definition says whether SELECT shows its last column.
            flavor = binlog_format.flavor
            return not isinstance(state, TableModel) and may_have_hash_columns(shape, flavor)
        if not isinstance(state, TableModel):
            return True
        return lacks_charset(shape, state) or self._lacks_labels(state)

    def _lacks_labels(self, state: TableModel) -> bool:
        """Return whether DDL left labels in doubt, and the source was not asked for them."""
        if not any(map(_may_be_asked, state.columns)):
            return False
        versions = self.history.versions((state.database, state.name))
        return bool(versions) and versions[-1].origin == "ddl"


def _may_be_asked(column: ColumnModel) -> bool:
    """Return whether labels are in doubt, or lost: MySQL before 8.0 keeps or loses wide ones in ALTER TABLE."""
    return bool(column.unknown_labels) or (column.labels is None and column.kind in _LABELLED)


def _describes_rows(shape: TableShape, binlog_format: BinlogFormat) -> bool:
    """Return whether a table map of this server proves on its own how its rows are read."""
    version = parse_server_version(binlog_format.server_version)
    return describes_rows(shape, binlog_format.flavor, version)


def _hidden_text(table_map: TableMapEvent, hidden: Mapping[str, tuple[str, ...]]) -> str:
    columns = ", ".join(
        f"{name} ({' or '.join((*map(str.upper, kinds), 'binary'))})"
        for name, kinds in hidden.items()
    )
    return (
        f"{table_map.schema}.{table_map.table}: the binlog of MariaDB does not name the type of {columns}; give a "
        "schema history that knows the table (replica-client schema), grant this user SELECT on the table where the "
        "source is live, or " + remedies("positional names")
    )


def _no_charset_text(table_map: TableMapEvent) -> str:
    return (
        f"{table_map.schema}.{table_map.table}: the character set of its text is not known (an sql_mode left it out of "
        "the statement, MySQL before 8.0 may have kept the old one at CONVERT TO, or it is the default of a database "
        "that was made before or may be another one for the session); give a schema history that "
        "knows the table (replica-client schema), set binlog_row_metadata=FULL on the source, or "
        + remedies("positional names")
    )


def _unknown_text(table_map: TableMapEvent, state: TableState | None) -> str:
    reason = "its CREATE TABLE is not in what was read"
    if isinstance(state, Unverified):
        reason = state.reason
    elif isinstance(state, Absent):
        reason = "it was dropped before"
    return (
        f"{table_map.schema}.{table_map.table}: the names of its columns are not known ({reason}); "
        "give a schema history that knows them (replica-client schema), set binlog_row_metadata=FULL on "
        "the source, grant this user SELECT on the table when it is new to the stream, or "
        + remedies("positional names")
    )
