"""Savepoints of the transaction that is read: rows behind one wait until it is known that they stay.

MySQL and MariaDB leave out of the binlog what ROLLBACK TO SAVEPOINT took back, unless the transaction also
did what cannot be taken back (a temporary table was created or dropped; a table without transactions was
changed by a statement that is logged as text). Then the rows are there, and a ROLLBACK TO behind them. A
RELEASE SAVEPOINT is never logged, so a savepoint counts until its transaction ends.

* Rows of tables without transactions never stand in such a transaction: since MySQL 5.5 and MariaDB 5.5 they
  are logged as a transaction of their own. Before, they stand among the others, and no event tells them apart.
* A savepoint of the same name replaces the earlier one. Names are compared without case, in MySQL and before
  MariaDB 11.5 without accents too.
* A stored function or trigger has savepoints of its own, which end with it. The binlog does not mark them.
  Where it shows that there are some (MySQL always, MariaDB when one is rolled back to), a name that was set
  twice means nothing any more; else the later one counts, as it does for the source's own replicas.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from replica_client.errors import DataLossError
from replica_client.position.position import Position
from replica_client.readers.row_spool import RowSpool, SpoolMark
from replica_client.readers.spool_storage import SpoolStorage
from replica_client.readers.statements import first_word
from replica_client.rows.change import RowsOfEvent
from replica_client.schema.ddl.context import StatementContext
from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError
from replica_client.schema.ddl.lexer import LexerError, tokenize

Action: TypeAlias = Literal["set", "rollback"]

_WORDS: Final = (b"SAVEPOINT", b"ROLLBACK")
_SEPARATE_SINCE: Final = (5, 5)


def controls_savepoint(query: bytes) -> bool:
    """Whether a statement inside a transaction sets a savepoint or rolls back to one."""
    return first_word(query) in _WORDS


def mixes_engines(context: StatementContext) -> bool:
    """Whether rows of tables without transactions may stand in a transaction of that server."""
    return (0, 0, 0) < context.version < _SEPARATE_SINCE


class _Savepoint(NamedTuple):
    name: str
    mark: SpoolMark
    event_index: int


class Savepoints:
    """The savepoints of one transaction after another, and its rows, which wait for its end.

    Args:
        storage: where rows wait; None: of its own.

    Attributes:
        rows: those of the transaction, without those that were taken back.
        in_statement: whether the last rows event is not the last of its statement.
    """

    def __init__(self, storage: SpoolStorage | None = None) -> None:
        self._storage = SpoolStorage() if storage is None else storage
        self.rows = RowSpool(self._storage)
        self.in_statement = False
        self._stack: list[_Savepoint] = []
        # Names that were set again while they were there.
        self._reused: list[str] = []
        self._has_levels = False

    def run(
        self,
        query: bytes,
        context: StatementContext,
        event_index: int,
        resume: Position | None = None,
    ) -> int | None:
        """Let a statement of the transaction set a savepoint, or roll back to one.

        Args:
            query: the statement.
            context: of its session.
            event_index: of its event.
            resume: where delivery goes on inside this transaction, if it does.

        Returns:
            for a ROLLBACK TO the event index of the savepoint: rows behind it were taken back. None for
            every other statement.

        Raises:
            DataLossError: which rows were taken back cannot be told; says why, without a position.
        """
        action, name = _read(query, context)
        if action == "set":
            self._set(name, event_index)
        elif action == "rollback":
            savepoint = self._roll_back(name, context)
            if resume is not None and savepoint < resume.event_index <= event_index:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {name!r} takes back rows that were delivered before {resume}"
                )
            return savepoint
        return None

    def append(self, rows: RowsOfEvent) -> None:
        """Rows that may be taken back.

        Raises:
            SpoolError: they cannot be kept.
        """
        self.rows.append(rows)

    def hand_over(self) -> RowSpool:
        """The rows that were not taken back, which wait elsewhere from now on."""
        rows, self.rows = self.rows, RowSpool(self._storage)
        self._stack, self._reused, self._has_levels = [], [], False
        return rows

    def clear(self) -> None:
        """The transaction is over."""
        self.in_statement = False
        if self._stack or len(self.rows):
            self._stack, self._reused, self._has_levels = [], [], False
            self.rows.close()

    def _set(self, name: str, event_index: int) -> None:
        self._has_levels |= self.in_statement
        same = [one for one in self._stack if _is_same(one.name, name)]
        if same:
            self._reused.append(name)
            self._stack = [one for one in self._stack if one not in same]
        self._stack.append(_Savepoint(name, self.rows.mark(), event_index))

    def _roll_back(self, name: str, context: StatementContext) -> int:
        self._has_levels |= self.in_statement
        for at in reversed(range(len(self._stack))):
            found = self._stack[at]
            same = _is_same(found.name, name)
            if same is False:
                continue
            if same is None:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {name!r}, and a savepoint {found.name!r}: whether these names "
                    "are the same depends on the source's collation"
                )
            if self._has_levels and any(_is_same(one, name) for one in self._reused):
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {name!r}, which was set more than once, also in a stored "
                    "function or trigger: the binlog does not tell which of them is meant"
                )
            if mixes_engines(context) and self.rows.mark() != found.mark:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {name!r} in a binlog of server version "
                    f"{'.'.join(map(str, context.version))}: rows behind the savepoint stay if their table "
                    "has no transactions, and the binlog does not tell whether it has"
                )
            del self._stack[at + 1 :]
            self.rows.truncate(found.mark)
            return found.event_index
        raise DataLossError(
            f"ROLLBACK TO SAVEPOINT {name!r}, which is not in what was read of this transaction"
        )


def _read(query: bytes, context: StatementContext) -> tuple[Action | None, str]:
    """What a statement does to savepoints, and the name; the source writes names in UTF-8."""
    try:
        cursor = Cursor(tokenize(query.decode("utf-8", "surrogateescape"), context))
        if cursor.take("SAVEPOINT"):
            return "set", cursor.name()
        cursor.expect("ROLLBACK")
        cursor.take("WORK")
        if not cursor.take("TO"):
            return None, ""
        cursor.take("SAVEPOINT")
        return "rollback", cursor.name()
    except (LexerError, NotUnderstoodError) as error:
        raise DataLossError(f"a savepoint's statement cannot be read: {error}") from None


def _is_same(one: str, other: str) -> bool | None:
    """Whether two names are of one savepoint; None when that depends on the collation."""
    one, other = _folded(one), _folded(other)
    if one == other:
        return True
    # Collations of names compare character by character.
    if len(one) != len(other):
        return False
    different = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return False if any(pair[0].isascii() and pair[1].isascii() for pair in different) else None


def _folded(name: str) -> str:
    """A name without the case of ASCII letters."""
    return "".join(sign.lower() if sign.isascii() else sign for sign in name)
