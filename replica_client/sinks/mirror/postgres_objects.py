"""Users' objects on mirrored tables in PostgreSQL: saved as SQL and created again after a change.

A mirrored table is altered in place, so that indexes, grants, comments, triggers, options and
publications stay. Only two cases need more: a view blocks the change of a column's type, and a
rename swap (``RENAME TABLE t TO old, new TO t``) gives the name that readers use to another table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from replica_client.schema.kinds import Rules, rules
from replica_client.schema.model import ColumnModel, column_type

_DEPENDENT_VIEWS: Final = """
WITH RECURSIVE found(oid, depth) AS (
    SELECT r.ev_class, 1 FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid = %s AND r.ev_class <> d.refobjid
    UNION
    SELECT r.ev_class, found.depth + 1 FROM found JOIN pg_depend d ON d.refobjid = found.oid
    JOIN pg_rewrite r ON r.oid = d.objid
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND r.ev_class <> found.oid
)
SELECT oid FROM found GROUP BY oid ORDER BY max(depth), oid
"""
_RELATION: Final = """
SELECT c.oid::regclass::text, c.relkind::text, pg_get_viewdef(c.oid), c.reloptions, pg_get_userbyid(c.relowner),
obj_description(c.oid, 'pg_class'), c.relispopulated FROM pg_class c WHERE c.oid = %s
"""
_GRANTS: Final = """
SELECT a.privilege_type, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
a.is_grantable FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = %s AND a.grantee <> c.relowner
"""
_COMMENTS: Final = """
SELECT quote_ident(a.attname), col_description(a.attrelid, a.attnum) FROM pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NOT NULL
"""
_INDEXES: Final = """
SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = %s
AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
"""
_TRIGGERS: Final = """
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = %s AND NOT tgisinternal
"""
_PUBLICATIONS: Final = """
SELECT quote_ident(p.pubname) FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid WHERE r.prrelid = %s
"""
_RULES: Final = """
SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = %s AND rulename <> '_RETURN'
"""


_LOG = logging.getLogger("replica_client.sinks")


@dataclass(frozen=True)
class SavedView:
    """A view or materialized view as SQL.

    Attributes:
        name: qualified and quoted.
        kind: ``VIEW`` or ``MATERIALIZED VIEW``.
        create: its definition, to follow a verb such as ``CREATE``.
        others: further statements: owner, grants, comments, indexes, triggers, rules.
    """

    name: str
    kind: str
    create: str
    others: tuple[str, ...]


class PostgresObjects:
    """Reads and creates objects on one connection, inside the caller's transaction.

    Args:
        connection: connection to the mirror's database.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def oid(self, table: str) -> int | None:
        """Return the OID of a table given as SQL; None if there is no such table."""
        found = self._connection.execute("SELECT to_regclass(%s)::oid", (table,)).fetchone()
        return None if found is None or found[0] is None else int(found[0])

    def views_of(self, oid: int) -> list[SavedView]:
        """Return the views that read a table, in the order in which they can be created."""
        with self._qualified_names():
            return [self._saved(int(view)) for (view,) in self._rows(_DEPENDENT_VIEWS, oid)]

    def drop_views(self, views: Sequence[SavedView]) -> None:
        """Drop views in reverse order, as later views may read earlier ones."""
        for view in reversed(views):
            self._run(f"DROP {view.kind} {view.name}")

    def make_views(self, views: Sequence[SavedView]) -> None:
        """Create dropped views again.

        A view that reads a missing column is logged with its SQL.
        """
        for view in views:
            try:
                with self._savepoint():
                    self._run(f"CREATE {view.create}")
                    for statement in view.others:
                        self._run(statement)
            except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable) as error:
                text = str(error).splitlines()[0]
                _LOG.warning(
                    "a view was dropped, not made again: %s (CREATE %s)", text, view.create
                )

    def point_views(self, views: Sequence[SavedView]) -> None:
        """Make views read the tables that now have the names in their text.

        ``CREATE OR REPLACE`` keeps a view's grants. A view whose columns differ, or that is
        materialized, is dropped and created again with its grants.
        """
        for at, view in enumerate(views):
            try:
                if view.kind != "VIEW":
                    raise psycopg.errors.InvalidTableDefinition
                with self._savepoint():
                    self._run(f"CREATE OR REPLACE {view.create}")
            except psycopg.errors.InvalidTableDefinition:
                self.drop_views(views[at:])
                self.make_views(views[at:])
                return

    def table_statements(self, oid: int) -> list[str]:
        """Return statements that copy a table's attributes to another table of its name.

        These are owner, grants, comments, options, triggers and publications.
        """
        with self._qualified_names():
            name, _, _, options, owner, comment, _ = self._rows(_RELATION, oid)[0]
            statements = self._common(oid, name, "TABLE", owner, comment)
            if options:
                statements.append(f"ALTER TABLE {name} SET ({', '.join(options)})")
            statements += [found[0] for found in self._rows(_TRIGGERS, oid)]
            for (publication,) in self._rows(_PUBLICATIONS, oid):
                statements.append(f"ALTER PUBLICATION {publication} ADD TABLE {name}")
            return statements

    def indexes(self, oid: int) -> list[tuple[str, str]]:
        """Return names and CREATE statements of the indexes that users made on a table."""
        with self._qualified_names():
            return [(name, text) for name, text in self._rows(_INDEXES, oid)]

    def run_each(self, statements: Sequence[str]) -> list[str]:
        """Run statements, and return those that the server refused, each with the error."""
        refused = []
        for statement in statements:
            try:
                with self._savepoint():
                    self._run(statement)
            except psycopg.Error as error:
                refused.append(f"{statement}: {error}")
        return refused

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        self._run("SAVEPOINT replica_client")
        try:
            yield
        except psycopg.Error:
            self._run("ROLLBACK TO SAVEPOINT replica_client")
            raise
        finally:
            self._run("RELEASE SAVEPOINT replica_client")

    def attempt(self, statement: str) -> None:
        """Run a statement in a savepoint, so that an error leaves the transaction usable."""
        with self._savepoint():
            self._run(statement)

    def _saved(self, oid: int) -> SavedView:
        name, kind, text, options, owner, comment, populated = self._rows(_RELATION, oid)[0]
        with_options = f" WITH ({', '.join(options)})" if options else ""
        body = text.rstrip().rstrip(";")
        if kind == "m":
            data = "" if populated else " WITH NO DATA"
            create = f"MATERIALIZED VIEW {name}{with_options} AS {body}{data}"
        else:
            create = f"VIEW {name}{with_options} AS {body}"
        others = [definition for _, definition in self._rows(_INDEXES, oid)] if kind == "m" else []
        others += [found[0] for query in (_TRIGGERS, _RULES) for found in self._rows(query, oid)]
        label = "MATERIALIZED VIEW" if kind == "m" else "VIEW"
        others += self._common(oid, name, label, owner, comment)
        return SavedView(name, label, create, tuple(others))

    def _common(
        self, oid: int, name: str, label: str, owner: str, comment: str | None
    ) -> list[str]:
        """Return statements for the owner, grants and comments of a relation."""
        statements = [f"ALTER {label} {name} OWNER TO {_identifier(owner)}"]
        for privilege, grantee, grantable in self._rows(_GRANTS, oid):
            option = " WITH GRANT OPTION" if grantable else ""
            statements.append(f"GRANT {privilege} ON {name} TO {grantee}{option}")
        if comment is not None:
            statements.append(f"COMMENT ON {label} {name} IS {_text(comment)}")
        for column, text in self._rows(_COMMENTS, oid):
            statements.append(f"COMMENT ON COLUMN {name}.{column} IS {_text(text)}")
        return statements

    @contextmanager
    def _qualified_names(self) -> Iterator[None]:
        """Empty the search path in the block, so that the server qualifies every name.

        Functions of users have their own path.
        """
        ((path,),) = self._connection.execute("SELECT current_setting('search_path')").fetchall()
        self._connection.execute("SELECT set_config('search_path', '', true)")
        try:
            yield
        finally:
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.INERROR:
                self._connection.execute("SELECT set_config('search_path', %s, true)", (path,))

    def _rows(self, query: str, oid: int) -> list[Any]:
        return list(self._connection.execute(query.encode(), (oid,)).fetchall())

    def _run(self, statement: str) -> None:
        self._connection.execute(statement.encode())


def _identifier(name: str) -> str:
    return str(sql.Identifier(name).as_string(None))


def _text(value: str) -> str:
    return str(sql.Literal(value).as_string(None))


# Columns of a mirror in PostgreSQL; their types are in :data:`~replica_client.schema.kinds.TARGETS`.
#
# The collation of text is C, so that different keys stay different. TIMESTAMP is in UTC.
# PostgreSQL stores no zero dates, no invalid dates, and no text with a character U+0000: such a value
# is an error, or NULL if the options say so.


def postgres_type(column: ColumnModel) -> str:
    """Return the type of a column."""
    return column_type("postgres", column)


def cast_type(column: ColumnModel) -> str:
    """Return the type without a collation, for a CAST."""
    return postgres_type(column).partition(" COLLATE")[0]


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values in the mirrors' form."""
    is_numeric = cast_type(column).startswith("numeric")
    return _as_text(column, name) if is_numeric else _SHOWN[column.kind](column, name)


def _as_text(_: ColumnModel, name: str) -> str:
    return f"{name}::text"


def _moment(column: ColumnModel, name: str) -> str:
    return _fraction(f"to_char({name}, 'YYYY-MM-DD HH24:MI:SS", column.fraction_digits)


def _time(column: ColumnModel, name: str) -> str:
    sign = f"CASE WHEN {name} < interval '0' THEN '-' ELSE '' END"
    size = f"(CASE WHEN {name} < interval '0' THEN -{name} ELSE {name} END)"
    hours = f"floor(extract(epoch from {size}) / 3600)::int"
    zero = f"CASE WHEN {hours} < 10 THEN '0' ELSE '' END"
    rest = _fraction(f"to_char({size}, ':MI:SS", column.fraction_digits)
    return f"({sign} || {zero} || {hours}::text || {rest})"


def _fraction(text: str, digits: int) -> str:
    if not digits:
        return text + "')"
    return text + ".US')" if digits >= 6 else f"left({text}.US'), {digits - 6})"


_SHOWN: Final[Rules[Callable[[ColumnModel, str], str]]] = rules(
    "the PostgreSQL mirror's values",
    {
        "integer year bit real decimal string enum set bytes spatial address": lambda _, name: name,
        "date json vector": _as_text,
        "datetime timestamp": _moment,
        "time": _time,
    },
)
