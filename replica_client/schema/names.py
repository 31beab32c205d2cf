"""Names of databases, tables and columns in SQL: quoting and reserved words.

For a server with ``lower_case_table_names`` 1 or 2, ``Orders`` and ``orders`` are one table. Its
table maps have names in lower case; statements are logged as typed.

MySQL and MariaDB read a text literal by the session's ``sql_mode`` (``NO_BACKSLASH_ESCAPES``) and
character set. These functions are safe as follows:

* :func:`mysql_name`: in every ``sql_mode``, ``ANSI_QUOTES`` too. The session must use UTF-8, as
  :class:`~replica_client.stream.transport.connection.SourceConnection` ensures.
* :func:`mysql_value`: in every ``sql_mode`` and every character set: text is hexadecimal digits.
* :func:`mysql_text`: for DDL that takes only a quoted text; the caller must say whether a
  backslash escapes. In sessions that use UTF-8.

SQLite has no modes: :func:`sqlite_name`; values are parameters.

Names are compared without letter case, as in Spark, Delta, DuckDB and most destinations. Each
output has its own rule for a table with such a column:

====================  ======================================================================================
output                a table that has one of the names
====================  ======================================================================================
``batches``           refused by name: record batches, CSV, Parquet and Arrow of ``changes``, the sink ``parquet``,
                      the format ``arrow``, typed rows of Spark
``cdc``               refused by name: rows of Spark with ``shape=cdc``
``lake``              left out by name; the other tables go on
``lake soft deletes`` likewise, where the table keeps deleted rows
``lake history``      refused by name: leave the table out of ``history``
``dlt``               our column gets another name: ``_replica_client_deleted`` for ``_deleted``
``dlt own``           refused by name: dlt adds them itself
``singer``            refused by name: targets add them themselves
====================  ======================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

from replica_client.errors import ConfigError, SchemaError
from replica_client.schema.ddl.steps import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateLike,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropTables,
    Meaning,
    NotUnderstood,
    RenameTables,
    TableName,
    TruncateTable,
)

# Letters with a lower case in Unicode but none in utf8mb3_general_ci, by which servers compare
# names (MySQL 5.6 and 9.7, MariaDB 11.8). They are not changed.
_KEPT: Final = (
    "[\u0220\u023a-\u037f\u03cf-\u03d8\u03f4-\u03ff\u048a\u04c0\u04c5\u04c9\u04cd\u04f6\u04fa-\u052e"
    "\u10a0-\u1cbf\u1e9e\u1efa-\u1efe\u2132\u2183\u2c00-\ua7f5\U00010000-\U0010ffff]"
)


def casefold_name(name: str) -> str:
    """Return a name in lower case, by the servers' rules."""
    return name.lower() if name.isascii() else _casefold(name)


@lru_cache(maxsize=4096)
def _casefold(name: str) -> str:
    # Letter by letter: Python looks at neighbours (the final sigma), servers do not.
    return "".join(char if re.match(_KEPT, char) else char.lower()[:1] for char in name)


def casefold_table(table: TableName) -> TableName:
    """Return the names of a database and a table in lower case."""
    return casefold_name(table[0]), casefold_name(table[1])


def casefold_meaning(meaning: Meaning) -> Meaning:
    """Return a statement's meaning with all database and table names in lower case."""
    match meaning:
        case CreateTable() | CreateSequence() | TruncateTable():
            return replace(meaning, table=casefold_table(meaning.table))
        case CreateLike():
            return replace(
                meaning, table=casefold_table(meaning.table), model=casefold_table(meaning.model)
            )
        case AlterTable():
            return replace(
                meaning,
                table=casefold_table(meaning.table),
                rename=meaning.rename and casefold_table(meaning.rename),
                to_table=meaning.to_table and casefold_table(meaning.to_table),
                from_table=meaning.from_table and casefold_table(meaning.from_table),
                exchanged=meaning.exchanged and casefold_table(meaning.exchanged),
            )
        case RenameTables():
            pairs = tuple(
                (casefold_table(old), casefold_table(new)) for old, new in meaning.renames
            )
            return replace(meaning, renames=pairs)
        case DropTables():
            return replace(meaning, tables=tuple(map(casefold_table, meaning.tables)))
        case CreateDatabase() | AlterDatabase() | DropDatabase():
            return replace(meaning, database=casefold_name(meaning.database))
        case NotUnderstood():
            return replace(
                meaning,
                tables=tuple(map(casefold_table, meaning.tables)),
                databases=tuple(map(casefold_name, meaning.databases)),
            )
    return meaning


# As information_schema escapes labels.
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r"})

SPEAKS_UTF8: Final = "/*!999999\\C utf8mb4 */ SET NAMES utf8mb4"
"""First statement of each script for the clients ``mysql`` or ``mariadb``.

These clients split a script into statements by the character set they were started with, not by the
session's. In gbk, sjis and cp932 a backquote can be the second byte of a character. The client then
sees the end of a name elsewhere, and may read what follows as a client command, such as ``\\!``,
which runs a program. The command ``\\C`` sets the client's character set. The client obeys it
inside such a comment, which servers and drivers ignore.
"""

Literal = int | float | Decimal | str | bytes | None
"""Values that :func:`mysql_value` can write."""


def mysql_name(name: str) -> str:
    """Return an identifier for MySQL and MariaDB, in backticks.

    Raises:
        SchemaError: the name is not valid: it is empty, or has U+0000 or a lone surrogate.
    """
    return "`" + _checked(name).replace("`", "``") + "`"


def mysql_table(database: str, table: str) -> str:
    """Return a table's quoted name with its database.

    Raises:
        SchemaError: see :func:`mysql_name`.
    """
    return f"{mysql_name(database)}.{mysql_name(table)}"


def mysql_names(names: Iterable[str]) -> str:
    """Return identifiers joined by commas."""
    return ", ".join(map(mysql_name, names))


def mysql_value(value: Literal) -> str:
    """Return a literal for an expression; text has the character set utf8mb4, bytes have none."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"_utf8mb4 x'{value.encode().hex()}'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return repr(value)


def mysql_text(text: str, *, backslash_escapes: bool) -> str:
    """Return a quoted text for DDL that takes no expression, such as labels and comments.

    Args:
        text: the value.
        backslash_escapes: whether the session's ``sql_mode`` is without ``NO_BACKSLASH_ESCAPES``.
    """
    if backslash_escapes:
        return "'" + text.translate(_ESCAPES) + "'"
    return "'" + text.replace("'", "''") + "'"


def before_arguments(sql: str) -> str:
    """Return SQL escaped for a driver that replaces ``%s`` in statements with arguments."""
    return sql.replace("%", "%%")


def sqlite_name(name: str) -> str:
    """Return an identifier for SQLite, in double quotes.

    Raises:
        SchemaError: the name is not valid: it has U+0000 or a lone surrogate.
    """
    return '"' + _checked(name).replace('"', '""') + '"'


def _checked(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            f"{name!a:.80} is not a name in SQL: it has half of a UTF-16 pair"
        ) from None
    if not name or "\0" in name:
        raise SchemaError(f"{name!a:.80} is not a name in SQL")
    return name


_CHANGE: Final = (
    *("_change_type", "_commit_timestamp", "_commit_version", "_gtid", "_file", "_offset"),
    *("_event_index", "_row_index", "_absent", "_lossless"),
)
RESERVED: Final[Mapping[str, tuple[str, ...]]] = {
    "batches": _CHANGE,
    "cdc": ("_sequence", "_deleted", "_replica"),
    "lake": ("_lossless", "_row_key"),
    "lake soft deletes": ("_deleted",),
    "lake history": (
        *("_valid_from", "_valid_to", "_valid_from_position", "_valid_to_position", "_deleted"),
    ),
    "dlt": ("_change_order", "_deleted"),
    "dlt own": ("_dlt_id", "_dlt_load_id", "_dlt_parent_id", "_dlt_list_idx", "_dlt_root_id"),
    "singer": (
        *("_sdc_deleted_at", "_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at"),
        *("_sdc_sequence", "_sdc_table_version", "_sdc_sync_started_at", "_sdc_primary_key"),
    ),
}
"""The names, in lower case."""

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")


def taken_names(output: str, columns: Iterable[str]) -> dict[str, str]:
    """Return the columns that have a name of an output: the column's name, by the output's name.

    Args:
        output: a key of :data:`RESERVED`.
        columns: names of a table's columns.
    """
    # dlt converts names to snake case: `_Deleted` and `_deleted ` are one column there.
    of_dlt = output.startswith("dlt")
    found = {}
    for name in columns:
        plain = name.lower()
        if of_dlt:
            plain = _SEPARATORS.sub("_", plain)
        if plain in RESERVED[output]:
            found[plain] = name
    return found


def check_names(output: str, table: str, columns: Iterable[str], what: str, remedy: str) -> None:
    """Raise an error for a table that has a column with a name of an output.

    Args:
        output: a key of :data:`RESERVED`.
        table: ``database.table``.
        columns: names of its columns.
        what: the subject and verb of the message.
        remedy: what to do, for the message.

    Raises:
        ConfigError: there is such a column; the message names table and column.
    """
    for name in taken_names(output, columns).values():
        raise ConfigError(f"{table}: it has a column {name}, and {what} one of this name; {remedy}")
