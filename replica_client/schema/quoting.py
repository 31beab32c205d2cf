"""Names and literals in SQL: the one position that quotes them, for each kind of server.

MySQL and MariaDB read a text literal by the session's ``sql_mode`` (``NO_BACKSLASH_ESCAPES``) and by
its character set. What is made here is safe in this way:

* :func:`mysql_name`: in every ``sql_mode``, ``ANSI_QUOTES`` too. The session must talk UTF-8:
  :class:`~replica_client.transport.connection.SourceConnection` sees to it.
* :func:`mysql_value`: in every ``sql_mode`` and every character set: text is hexadecimal digits.
* :func:`mysql_text`: for places of DDL that take only a quoted text; it must be told whether a
  backslash escapes. In sessions that talk UTF-8.

SQLite has no modes: :func:`sqlite_name`; values are parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from replica_client.errors import SchemaError

# As information_schema escapes labels.
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r"})

SPEAKS_UTF8: Final = "/*!999999\\C utf8mb4 */ SET NAMES utf8mb4"
"""First statement of each script that people give to ``mysql`` or ``mariadb``.

These clients cut a script into statements by the character set they were started with, not the session's. In gbk,
sjis and cp932 the last byte of a letter and a backquote after it are one character: a name ends elsewhere, and what
follows is a command of the client, such as ``\\!``, which runs a program. The command ``\\C`` sets the character set of
the client; it obeys that inside such a comment, which servers and drivers pass over.
"""

Literal = int | float | Decimal | str | bytes | None
"""What :func:`mysql_value` can write."""


def mysql_name(name: str) -> str:
    """An identifier for MySQL and MariaDB, in backticks.

    Raises:
        SchemaError: the servers have no such name: it is empty, has U+0000, or half of a pair.
    """
    return "`" + _checked(name).replace("`", "``") + "`"


def mysql_table(database: str, table: str) -> str:
    """A table's name with its database.

    Raises:
        SchemaError: see :func:`mysql_name`.
    """
    return f"{mysql_name(database)}.{mysql_name(table)}"


def mysql_names(names: Iterable[str]) -> str:
    """Identifiers with commas between them."""
    return ", ".join(map(mysql_name, names))


def mysql_value(value: Literal) -> str:
    """A literal for an expression; text has the character set utf8mb4, bytes have none."""
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
    """A quoted text, where the grammar takes no expression: labels and comments in DDL.

    Args:
        text: the value.
        backslash_escapes: whether the session's ``sql_mode`` is without ``NO_BACKSLASH_ESCAPES``.
    """
    if backslash_escapes:
        return "'" + text.translate(_ESCAPES) + "'"
    return "'" + text.replace("'", "''") + "'"


def before_arguments(sql: str) -> str:
    """SQL that goes before the driver, which looks for ``%s`` in a statement with arguments."""
    return sql.replace("%", "%%")


def sqlite_name(name: str) -> str:
    """An identifier for SQLite, in double quotes.

    Raises:
        SchemaError: SQLite has no such name: it has U+0000, or half of a pair.
    """
    return '"' + _checked(name).replace('"', '""') + '"'


def _checked(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"{name!a:.80} is no name in SQL: it has half of a UTF-16 pair") from None
    if not name or "\0" in name:
        raise SchemaError(f"{name!a:.80} is no name in SQL")
    return name
