"""Database and table names in lower case (``lower_case_table_names``).

For a server with ``lower_case_table_names`` 1 or 2, ``Orders`` and ``orders`` are one table. Its
table maps have names in lower case; statements are logged as typed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

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
