"""Names of files for databases and tables, and single names for pairs; only this module makes them.

Names come from a server, and may be anything: ``..``, ``a/b``, ``_delta_log``, 64 characters of
four bytes. The names that are made of them

* are never ``.``, ``..`` or hidden, have no separator, and are none of the names that their directory
  keeps for itself;
* fit into a directory (``NAME_MAX`` bytes);
* are different for different names: an escape is ``%`` or ``%u`` and two digits, a digest follows
  ``%~``, and a ``%`` in a name is escaped itself.

Readers that take a path for part of a URL read ``%2E%2E`` as ``..``, and some (deltalake) look for
a directory ``%C3%A9`` under the name ``é``. ``%u2E`` is no escape to them. It is used wherever a
wrong reading would lead out of the directory, and for all characters where the caller says so.

Ordinary names stay as they are. A reader that needs the original name takes it from the metadata
next to the data (the lake's catalog, a segment's list, a mirror's own tables): a digest cannot be
turned back.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

from replica_client.errors import SchemaError

NAME_MAX: Final = 255
"""Bytes of a name in a directory, on every file system that we know."""

_DIGEST: Final = 24
_MARK: Final = "%~"
_FIRM: Final = "%u"
_PLAIN: Final = "-_ $"
_CAPITAL: Final = re.compile(r"(%u?[0-9A-F]{2})|[A-Z]")
# Of Delta, Spark and Hive, which look for them or pass over them.
_RESERVED: Final = frozenset(
    (
        *("_delta_log", "_change_data", "_delta_index", "_temporary", "_metadata", "_success"),
        *("_common_metadata", "_symlink_format_manifest", "_spark_metadata"),
    )
)


def file_name(
    name: str,
    *,
    plain: str = _PLAIN,
    firm: bool = False,
    reserved: Callable[[str], bool] = lambda _: False,
    ignores_case: bool = False,
) -> str:
    """Return the name of a file or directory for a name.

    Args:
        name: of a database or table; not empty.
        plain: characters that stay as they are, in addition to ASCII letters, digits and ``_.-~``.
        firm: whether no reader of URLs may take an escape for one: ``%u20`` instead of ``%20``.
        reserved: whether the directory may have something else of a name, which is in small letters.
        ignores_case: whether the file system takes ``a`` and ``A`` for the same: capital letters are
            escaped then.

    Raises:
        SchemaError: the name is empty, or cannot be written as UTF-8.
    """
    if not name:
        raise SchemaError("a database or table without a name cannot be stored")
    try:
        made = quote(name, safe=plain)
    except UnicodeEncodeError:
        raise SchemaError(f"{name!a:.80} cannot be the name of a file") from None
    if firm:
        made = made.replace("%", _FIRM)
    if made[0] == "." or made.lower() in _RESERVED or reserved(made.lower()):
        made = _escaped(made[0]) + made[1:]
    if ignores_case:
        made = _without_capitals(made)
    if len(made) > NAME_MAX:
        made = shortened(made, NAME_MAX, name)
    return made


def shortened(text: str, length: int, *names: str) -> str:
    """Return the beginning of a text and a digest of the names that the text stands for."""
    digest = _MARK + _digest(names)
    kept = text[: length - len(digest)]
    # No half of an escape.
    at = kept.rfind("%", max(0, len(kept) - 3))
    return (kept if at < 0 else kept[:at]) + digest


def with_digest(text: str, *names: str) -> str:
    """Return a text with a digest of names, so that other names give another text."""
    return text + _MARK + _digest(names)


def joined_name(database: str, table: str) -> str:
    """``database.table`` such that no two tables have the same: a point in a database is escaped."""
    return database.replace("%", "%25").replace(".", "%2E") + "." + table.replace("%", "%25")


def ignores_case(directory: Path) -> bool:
    """Return whether a directory's file system takes ``a`` and ``A`` for the same name.

    Raises:
        OSError: nothing can be written there.
    """
    descriptor, name = tempfile.mkstemp(".tmp", ".case-probe-", directory)
    os.close(descriptor)
    path = Path(name)
    try:
        return path.with_name(path.name.swapcase()).exists()
    finally:
        path.unlink()


def _digest(names: tuple[str, ...]) -> str:
    data = b"".join(b"%d:%b" % (len(one), one) for one in (name.encode() for name in names))
    return sha256(data).hexdigest()[:_DIGEST]


def _escaped(char: str) -> str:
    return f"{_FIRM}{ord(char):02X}"


def _without_capitals(made: str) -> str:
    """Escapes of capital letters, but in the two digits of escapes."""
    return _CAPITAL.sub(lambda match: match[1] or _escaped(match[0]), made)
