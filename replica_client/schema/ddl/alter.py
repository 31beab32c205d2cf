"""A parser of ALTER TABLE: clauses that change a table's shape, and those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.column_clause import column_name, read_column, read_default
from replica_client.schema.ddl.create import (
    Definitions,
    is_key,
    read_charset_option,
    read_definitions,
    read_key,
)
from replica_client.schema.ddl.lexer import NAME, STRING, WORD, Cursor, Token, split_commas
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropPrimaryKey,
    RenameColumn,
    SetBounds,
    SetCharset,
    SetDefault,
    SetPrimaryKey,
    SetVersioning,
    SetVisible,
    Step,
    TableName,
)
from replica_client.schema.ddl.type_clause import known_charset

_PARTITION_WORDS: Final = frozenset(
    (
        *("ANALYZE", "CHECK", "COALESCE", "EXCHANGE", "OPTIMIZE", "REBUILD", "REORGANIZE"),
        *("REPAIR", "TRUNCATE", "REMOVE", "PARTITION"),
    )
)
_WITHOUT_ROWS: Final = frozenset(
    (
        *("BLACKHOLE", "CONNECT", "EXAMPLE", "FEDERATED", "FEDERATEDX", "MERGE", "MRG_MYISAM"),
        "SPIDER",
    )
)
"""Engines whose tables store no rows, or show the rows of other tables."""
_NO_CHANGE: Final = frozenset(
    (
        *("FORCE", "ENABLE", "DISABLE", "WITH", "WITHOUT", "UPGRADE"),
        *("SECONDARY_LOAD", "SECONDARY_UNLOAD", "ALGORITHM", "LOCK", "WAIT", "NOWAIT"),
    )
)
_OPTIONS: Final = frozenset(
    (
        *("ENGINE", "TYPE", "AUTO_INCREMENT", "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM"),
        *("COMMENT", "COMPRESSION", "CONNECTION", "DATA", "INDEX", "DELAY_KEY_WRITE", "ENCRYPTION"),
        *("ENGINE_ATTRIBUTE", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS"),
        *("PACK_KEYS", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE"),
        *("STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE"),
        *("UNION", "TRANSACTIONAL", "PAGE_CHECKSUM", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL"),
        *("ENCRYPTED", "ENCRYPTION_KEY_ID", "IETF_QUOTES", "SEQUENCE", "TABLE_CHECKSUM"),
        *("RAID_TYPE", "RAID_CHUNKS", "RAID_CHUNKSIZE", "SECONDARY", "NODEGROUP", "VIA"),
    )
)


@dataclass(slots=True)
class _Alteration:
    steps: list[Step] = field(default_factory=list)
    rename: TableName | None = None
    to_table: TableName | None = None
    from_table: TableName | None = None
    defaults: list[SetDefault] = field(default_factory=list)
    exchanged: TableName | None = None
    row_clauses: list[str] = field(default_factory=list)


def read_alter_table(cursor: Cursor, context: StatementContext, *, ignore: bool) -> AlterTable:
    """Read what follows ALTER TABLE.

    Args:
        cursor: at the table's name.
        context: of the statement.
        ignore: whether it is ALTER IGNORE TABLE, which removes rows that do not fit.

    Raises:
        NotUnderstoodError: a clause is not understood.
    """
    if_exists = cursor.take("IF", "EXISTS")
    table = cursor.table_name(context.database)
    if cursor.take("WAIT"):
        cursor.step()
    cursor.take("NOWAIT")
    found = _Alteration()
    if ignore:
        found.row_clauses.append("IGNORE")
    in_list = False
    for part in split_commas(cursor.rest()):
        clause = Cursor(part)
        if in_list and _is_list_item(part):
            continue
        in_list = _clause(clause, table, context, found)
        if in_list and part[0].upper in _PARTITION_WORDS:
            break  # nothing can follow
    return AlterTable(
        table,
        tuple(found.steps),
        found.rename,
        if_exists,
        found.to_table,
        found.from_table,
        tuple(found.defaults),
        found.exchanged,
        tuple(found.row_clauses),
    )


def _is_list_item(part: list[Token]) -> bool:
    """Return whether a part continues a list (ORDER BY a, b; DROP PARTITION p, q)."""
    if not part:
        return False
    if part[0].kind not in (WORD, NAME):
        return True
    if part[0].kind == NAME or part[0].upper not in _CLAUSES:
        return len(part) == 1 or part[1].upper in ("ASC", "DESC", ".", "(") or _is_tail(part[1])
    return False


def _is_tail(token: Token) -> bool:
    return token.upper in ("ALGORITHM", "LOCK", "INTO", "PARTITION", "WITH")


def _clause(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    """Read a clause; return True when names after the next comma may still belong to it."""
    if cursor.done:
        return False
    word = cursor.token.upper if cursor.token.kind == WORD else ""
    read = _CLAUSES.get(word)
    if read is not None:
        cursor.step()
        return read(cursor, table, context, found)
    if _table_options(cursor, found):
        return False
    cursor.refuse("a clause of ALTER TABLE")
    return False


def _add(cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration) -> bool:
    if cursor.take("PARTITION"):
        return True
    if cursor.take("SYSTEM", "VERSIONING"):
        found.steps.append(SetVersioning(True))
        return False
    column = cursor.take("COLUMN")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if not column and is_key(cursor):
        definitions = Definitions()
        read_key(cursor, definitions)
        _keys(definitions, found)
        return False
    if cursor.token.upper == "(":
        definitions = read_definitions(cursor.brackets(), context)
        found.steps.extend(AddColumn(one, if_not_exists) for one in definitions.columns)
        _keys(definitions, found)
        return False
    added = read_column(cursor, context)
    found.steps.append(AddColumn(added, if_not_exists))
    if added.primary:
        found.steps.append(SetPrimaryKey(((added.name, 0),)))
    return False


def _keys(definitions: Definitions, found: _Alteration) -> None:
    key = definitions.key_of_columns()
    if key is not None:
        found.steps.append(SetPrimaryKey(key))
    if definitions.bounds:
        found.steps.append(SetBounds(tuple(definitions.bounds)))


def _drop(cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration) -> bool:
    if cursor.take("PARTITION"):
        found.row_clauses.append("DROP PARTITION")
        return True
    if cursor.take("PRIMARY", "KEY"):
        found.steps.append(DropPrimaryKey())
        return False
    if cursor.take("SYSTEM", "VERSIONING"):
        found.steps.append(SetVersioning(False))
        return False
    is_word = cursor.token.kind == WORD
    if is_word and cursor.token.upper in ("FOREIGN", "CHECK"):
        return False
    if is_word and cursor.take_one("INDEX", "KEY", "CONSTRAINT"):
        if drops_primary_key(cursor):
            found.steps.append(DropPrimaryKey())
        return False
    if is_word and cursor.token.upper == "PERIOD" and cursor.peek().upper == "FOR":
        return False
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    found.steps.append(DropColumn(column_name(cursor), if_exists))
    cursor.take_one("RESTRICT", "CASCADE")
    return False


def drops_primary_key(cursor: Cursor) -> bool:
    """Read a dropped index's name; return whether it means the primary key, in any letter case."""
    cursor.take("IF", "EXISTS")
    return cursor.name().upper() == "PRIMARY"


def _change(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    old = column_name(cursor)
    column = read_column(cursor, context)
    found.steps.append(ChangeColumn(old, column, if_exists))
    if column.primary:
        found.steps.append(SetPrimaryKey(((column.name, 0),)))
    return False


def _modify(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    column = read_column(cursor, context)
    found.steps.append(ChangeColumn(column.name, column, if_exists))
    if column.primary:
        found.steps.append(SetPrimaryKey(((column.name, 0),)))
    return False


def _alter(cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration) -> bool:
    is_word = cursor.token.kind == WORD
    if is_word and cursor.token.upper in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        return False
    cursor.take("COLUMN")
    cursor.take("IF", "EXISTS")
    name = column_name(cursor)
    if cursor.take("SET"):
        if cursor.take("VISIBLE"):
            found.steps.append(SetVisible(name, True))
        elif cursor.take("INVISIBLE"):
            found.steps.append(SetVisible(name, False))
        elif cursor.take("DEFAULT"):
            found.defaults.append(SetDefault(name, tuple(read_default(cursor))))
        else:
            cursor.refuse("DEFAULT, VISIBLE or INVISIBLE")
    elif cursor.take("DROP", "DEFAULT"):
        found.defaults.append(SetDefault(name, None))
    else:
        cursor.refuse("SET or DROP DEFAULT")
    return False


def _rename(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    if cursor.take_one("INDEX", "KEY") and cursor.peek(1).upper == "TO":
        return False
    if cursor.token.upper == "COLUMN" and (
        cursor.peek(2).upper == "TO" or cursor.peek().upper == "IF"
    ):
        cursor.step()
        if_exists = cursor.take("IF", "EXISTS")
        old = cursor.name()
        cursor.expect("TO")
        found.steps.append(RenameColumn(old, cursor.name(), if_exists))
        return False
    if cursor.token.upper in ("IF",) and cursor.peek().upper == "EXISTS":
        return False  # RENAME INDEX IF EXISTS
    cursor.take_one("TO", "AS", "=")
    found.rename = cursor.table_name(context.database)
    return False


def _convert(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    if cursor.take("PARTITION"):
        cursor.name()
        cursor.expect("TO", "TABLE")
        found.to_table = cursor.table_name(context.database)
        found.row_clauses.append("CONVERT PARTITION")
        return True
    if cursor.take("TABLE"):
        found.row_clauses.append("CONVERT TABLE")
        found.from_table = cursor.table_name(context.database)
        return True
    cursor.expect("TO")
    if not (cursor.take("CHARSET") or cursor.take("CHAR", "SET")):
        cursor.expect("CHARACTER", "SET")
    cursor.take("=")
    charset = None
    if not cursor.take("DEFAULT"):
        if cursor.token.kind not in (WORD, NAME, STRING):
            cursor.refuse("a character set")
        charset = known_charset(cursor.step().text)
    collation = read_charset_option(cursor)
    if collation is not None:
        charset = collation[0] or charset
    found.steps.append(ConvertCharset(charset))
    return False


def _exchange(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    cursor.expect("PARTITION")
    cursor.name()
    cursor.expect("WITH", "TABLE")
    found.exchanged = cursor.table_name(context.database)
    found.row_clauses.append("EXCHANGE PARTITION")
    return True


def _truncate(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    found.row_clauses.append("TRUNCATE PARTITION")
    return True


def _repair(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    found.row_clauses.append("REPAIR PARTITION")
    return True


def _tablespace(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    """Read DISCARD or IMPORT TABLESPACE, which removes or replaces the file with the rows."""
    found.row_clauses.append(f"{cursor.tokens[cursor.at - 1].upper} TABLESPACE")
    return False


def _same_shape(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    return False


def _same_shape_list(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    return True


def _default(
    cursor: Cursor, table: TableName, context: StatementContext, found: _Alteration
) -> bool:
    cursor.at -= 1
    if not _table_options(cursor, found):
        cursor.refuse("a table option")
    return False


def _table_options(cursor: Cursor, found: _Alteration) -> bool:
    """Read table options; return False when something else follows."""
    while not cursor.done:
        charset = read_charset_option(cursor)
        if charset is not None:
            if charset[0] != "":
                found.steps.append(SetCharset(charset[0]))
            continue
        if cursor.token.kind not in (WORD, NAME):
            return False
        word = cursor.token.upper
        if cursor.take("PARTITION", "BY") or cursor.take("REMOVE", "PARTITIONING"):
            return True
        if word not in _OPTIONS and cursor.peek().upper != "=":
            return False
        cursor.step()
        cursor.take_one("DIRECTORY")
        cursor.take("=")
        if word == "UNION":
            found.row_clauses.append(word)
        elif word in ("ENGINE", "TYPE") and cursor.token.text.upper() in _WITHOUT_ROWS:
            found.row_clauses.append(f"{word} {cursor.token.text.upper()}")
        if not cursor.skip_brackets():
            cursor.take_one("+", "-")
            cursor.step()
    return True


_Reader = Callable[[Cursor, TableName, StatementContext, _Alteration], bool]
_CLAUSES: Final[dict[str, _Reader]] = {
    **dict.fromkeys(_NO_CHANGE, _same_shape),
    **dict.fromkeys(_PARTITION_WORDS, _same_shape_list),
    "EXCHANGE": _exchange,
    "TRUNCATE": _truncate,
    "REPAIR": _repair,
    "DISCARD": _tablespace,
    "IMPORT": _tablespace,
    "ORDER": _same_shape_list,
    "ADD": _add,
    "DROP": _drop,
    "CHANGE": _change,
    "MODIFY": _modify,
    "ALTER": _alter,
    "RENAME": _rename,
    "CONVERT": _convert,
    "DEFAULT": _default,
}
