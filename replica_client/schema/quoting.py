"""Quoting of names and literals in SQL, for each kind of server.

MySQL and MariaDB read a text literal by the session's ``sql_mode`` (``NO_BACKSLASH_ESCAPES``) and
character set. These functions are safe as follows:

* :func:`mysql_name`: in every ``sql_mode``, ``ANSI_QUOTES`` too. The session must use UTF-8, as
  :class:`~replica_client.transport.connection.SourceConnection` ensures.
* :func:`mysql_value`: in every ``sql_mode`` and every character set: text is hexadecimal digits.
* :func:`mysql_text`: for DDL that takes only a quoted text; the caller must say whether a
  backslash escapes. In sessions that use UTF-8.

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
"""First statement of each script for the clients ``mysql`` or ``mariadb``.

These clients split a script into statements by the character set they were started with, not by the
session's. In gbk, sjis and cp932 a backquote can be the second byte of a character. The client then
sees the end of a name elsewhere, and may read what follows as a client command, such as ``\\!``,
which runs a program. The command ``\\C`` sets the client's character set. The client obeys it
inside such a comment, which servers and drivers ignore.
"""

Literal = int | float | Decimal | str | bytes | None
"""What :func:`mysql_value` can write."""


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
        raise SchemaError(f"{name!a:.80} is no name in SQL: it has half of a UTF-16 pair") from None
    if not name or "\0" in name:
        raise SchemaError(f"{name!a:.80} is no name in SQL")
    return name
