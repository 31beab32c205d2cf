"""Pending rows: savepoints of the current transaction, and prepared XA transactions.

MySQL and MariaDB leave out of the binlog what ROLLBACK TO SAVEPOINT took back, unless the
transaction also did something that cannot be taken back (a temporary table was created or dropped;
a table without transactions was changed by a statement that is logged as text). Then the binlog has
the rows, and a ROLLBACK TO after them. RELEASE SAVEPOINT is never logged, so a savepoint counts
until its transaction ends.

* Rows of tables without transactions are never in such a transaction: since MySQL 5.5 and MariaDB
  5.5 they are logged as a transaction of their own. Before, they are among the others, and no event
  distinguishes them.
* A savepoint of the same name replaces the earlier one. Names are compared without case; in MySQL
  and before MariaDB 11.5 without accents, too.
* A stored function or trigger has savepoints of its own, which end with it and replace none of its
  caller's. A server logs them only if their statement changed rows before. MySQL then does not end
  that statement's rows (STMT_END_F is missing); MariaDB does, and its binlog does not distinguish
  them from the caller's. If a name was set twice, rows lie in between, and neither place is
  disproved, it is unknown which rows were taken back.
"""

from __future__ import annotations

import logging
import re
from typing import Final, Literal, NamedTuple, TypeAlias
from unicodedata import normalize

from replica_client.errors import DataLossError
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.schema.ddl.lexer import Cursor, LexerError, NotUnderstoodError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.stream.position.groups import MIDDLE
from replica_client.stream.position.prepared import PreparedLedger, PreparedTransaction, XaId
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.query_text import first_word
from replica_client.stream.transactions.row_spool import RowSpool, SpoolMark, SpoolStorage

Action: TypeAlias = Literal["set", "rollback"]

_WORDS: Final = (b"SAVEPOINT", b"ROLLBACK")
_SEPARATE_SINCE: Final = (5, 5)
_UNESCAPED: Final = re.compile("ROLLBACK TO `(.*)`", re.DOTALL)


def controls_savepoint(query: bytes) -> bool:
    """Return whether a statement inside a transaction sets a savepoint or rolls back to one."""
    return first_word(query) in _WORDS


def mixes_engines(context: StatementContext) -> bool:
    """Return whether the server may log rows of non-transactional tables within a transaction."""
    return (0, 0, 0) < context.version < _SEPARATE_SINCE


class _Savepoint(NamedTuple):
    """A savepoint that may exist.

    Attributes:
        name: as it was written.
        mark: the point in the rows at which it was set.
        event_index: index of its event.
        is_inner: whether a stored function or trigger set it; None if unknown.
        statement: how many statements of the caller had certainly ended before it.
    """

    name: str
    mark: SpoolMark
    event_index: int
    is_inner: bool | None
    statement: int


class Savepoints:
    """Savepoints of one transaction after another, with its rows, which wait for its end.

    Args:
        storage: where rows wait; None: a new one.

    Attributes:
        rows: the rows of the transaction, without those that were taken back.
    """

    def __init__(self, storage: SpoolStorage | None = None) -> None:
        self._storage = SpoolStorage() if storage is None else storage
        self.rows = RowSpool(self._storage)
        self._stack: list[_Savepoint] = []
        # Whether the previous event was a rows event, and if so whether it ended its statement.
        self._rows_before: bool | None = None
        # Statements of the caller that certainly ended. None ends in functions; only MariaDB says
        # so before a SAVEPOINT.
        self._statement = 0

    def run(
        self,
        query: bytes,
        context: StatementContext,
        event_index: int,
        resume: Position | None = None,
    ) -> int | None:
        """Apply a statement that sets a savepoint or rolls back to one.

        Args:
            query: the statement.
            context: of its session.
            event_index: index of its event.
            resume: where delivery continues inside this transaction, if it does.

        Returns:
            For a ROLLBACK TO the event index of the savepoint, after which rows were taken back.
            None for every other statement.

        Raises:
            DataLossError: it is unknown which rows were taken back; says why, without a position.
        """
        action, names = _read(query, context)
        if action == "set":
            self._set(names[0], context, event_index)
        elif action == "rollback":
            savepoint = self._roll_back(names, context)
            if resume is not None and savepoint < resume.event_index <= event_index:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {names[0]!r} takes back rows that were delivered before {resume}"
                )
            return savepoint
        return None

    def see_rows(self, *, ends_statement: bool) -> None:
        """Note a rows event, of whatever table."""
        self._see_no_savepoint()
        self._rows_before = ends_statement

    def see_many_rows(self, ended: int, *, ends_statement: bool) -> None:
        """Note rows events in sequence.

        Args:
            ended: how many of them, without the last, end a statement.
            ends_statement: whether the last one does.
        """
        self._see_no_savepoint()
        self._statement += ended
        self._rows_before = ends_statement

    def see_statement(self) -> None:
        """Note a statement that has nothing to do with savepoints."""
        self._see_no_savepoint()
        self._rows_before = None

    def _see_no_savepoint(self) -> None:
        """Note an event other than SAVEPOINT: it ends the statement whose last rows came before."""
        if self._rows_before:
            self._statement += 1

    def append(self, rows: RowsOfEvent) -> None:
        """Add rows that may be taken back.

        Raises:
            SpoolError: they cannot be kept.
        """
        self.rows.append(rows)

    def hand_over(self) -> RowSpool:
        """Return the rows that were not taken back, and start a new spool."""
        rows, self.rows = self.rows, RowSpool(self._storage)
        self._stack = []
        return rows

    def clear(self) -> None:
        """Forget savepoints and rows at the end of the transaction."""
        self._rows_before = None
        self._statement = 0
        if self._stack or len(self.rows):
            self._stack = []
            self.rows.close()

    def _set(self, name: str, context: StatementContext, event_index: int) -> None:
        before, self._rows_before = self._rows_before, None
        is_inner = None
        if before is False:
            is_inner = True
        elif before and not context.is_mariadb:
            is_inner = False
            self._statement += 1
        if is_inner is False:
            self._stack = [one for one in self._stack if _is_same(one.name, name) is not True]
        new = _Savepoint(name, self.rows.mark(), event_index, is_inner, self._statement)
        self._stack.append(new)

    def _roll_back(self, names: tuple[str, ...], context: StatementContext) -> int:
        is_inner = self._rows_before is False
        self._see_no_savepoint()
        self._rows_before = None
        # Savepoints of functions that ended no longer exist.
        self._stack = [
            one for one in self._stack if not one.is_inner or one.statement == self._statement
        ]
        found = {name: some for name in names if (some := self._candidates(name, is_inner))}
        if len(found) != 1:
            raise DataLossError(
                f"ROLLBACK TO SAVEPOINT {names[0]!r}, "
                + ("which may be either of two" if found else "which is not in what was read")
            )
        candidates = next(iter(found.values()))
        name, mark, event_index, *_ = self._stack[candidates[-1]]
        if any(self._stack[at].mark != mark for at in candidates):
            raise DataLossError(
                f"ROLLBACK TO SAVEPOINT {name!r}, which was set more than once, perhaps in a stored function or "
                "trigger: the binlog does not record which of them is meant"
            )
        if mixes_engines(context) and self.rows.mark() != mark:
            raise DataLossError(
                f"ROLLBACK TO SAVEPOINT {name!r} in a binlog of server version "
                f"{'.'.join(map(str, context.version))}: rows after the savepoint stay if their table has no "
                "transactions, which the binlog does not record"
            )
        del self._stack[candidates[-1] + 1 :]
        self.rows.truncate(mark)
        return event_index

    def _candidates(self, name: str, is_inner: bool) -> list[int]:
        """Return the indexes of the savepoints that a rollback to a name may mean.

        Args:
            name: of the savepoint.
            is_inner: whether a stored function or trigger certainly made the rollback, which is
                then to a savepoint that it set itself.

        Raises:
            DataLossError: whether two names are the same depends on the source's collation.
        """
        found = []
        for at, one in enumerate(self._stack):
            if is_inner and (one.is_inner is False or one.statement != self._statement):
                continue
            same = _is_same(one.name, name)
            if same is None:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {name!r}, and a savepoint {one.name!r}: whether these names are the "
                    "same depends on the source's collation"
                )
            if same:
                found.append(at)
        return found


def _read(query: bytes, context: StatementContext) -> tuple[Action | None, tuple[str, ...]]:
    """Return what a statement does to savepoints, and the possible names of the savepoint.

    The source writes the name in UTF-8. MySQL 5.6 does not double the backticks of the name in a
    rollback: the name then has two readings.
    """
    text = query.decode("utf-8", "surrogateescape")
    names = []
    if (match := _UNESCAPED.fullmatch(text)) is not None:
        names.append(match[1])
    try:
        cursor = Cursor(tokenize(text, context))
        if cursor.take("SAVEPOINT"):
            return "set", (cursor.name_as_written(),)
        cursor.expect("ROLLBACK")
        cursor.take("WORK")
        if not cursor.take("TO"):
            return None, ()
        cursor.take("SAVEPOINT")
        if (name := cursor.name_as_written()) not in names:
            names.append(name)
    except (LexerError, NotUnderstoodError) as error:
        if not names:
            raise DataLossError(f"a savepoint's statement cannot be read: {error}") from None
    return "rollback", tuple(names)


def _is_same(one: str, other: str) -> bool | None:
    """Return whether two names mean one savepoint; None if that depends on the collation."""
    one, other = _casefolded(one), _casefolded(other)
    if one == other:
        return True
    # Collations of names compare character by character.
    pairs = zip(one, other, strict=False)
    if len(one) != len(other) or any(_letters(a).isdisjoint(_letters(b)) for a, b in pairs):
        return False
    return None


def _letters(sign: str) -> set[str]:
    """Return the characters that a collation may equate with one, such as ``s`` for ``ß``."""
    found = {sign}
    if sign.isascii():
        return found | {sign.lower(), sign.upper()}
    for form in (sign, sign.casefold(), sign.upper(), sign.title(), normalize("NFKD", sign)):
        letter = normalize("NFD", form)[0]
        found |= {form[0], letter, letter.upper()[0], letter.lower()[0]}
        found |= {form[0].lower()[0], form[0].upper()[0]}
    return found


def _casefolded(name: str) -> str:
    """Return a name without the case of ASCII letters."""
    return "".join(sign.lower() if sign.isascii() else sign for sign in name)


_LOG = logging.getLogger("replica_client.stream")


class PreparedRows:
    """Rows of prepared XA transactions, until their XA COMMIT or XA ROLLBACK.

    Args:
        ledger: the transactions that were prepared before reading began; it is updated.
        storage: memory and file of the rows; None: a new one of the default size.

    Attributes:
        ledger: where the pending transactions are, for the checkpoint.
        storage: see above.
    """

    def __init__(
        self, ledger: PreparedLedger | None = None, storage: SpoolStorage | None = None
    ) -> None:
        self.ledger = PreparedLedger() if ledger is None else ledger
        self.storage = SpoolStorage() if storage is None else storage
        # A transaction without wanted rows has an empty tuple.
        self._rows: dict[XaId, tuple[RowSpool, ...]] = {}

    def __contains__(self, xid: object) -> bool:
        return xid in self._rows

    def read_back(self, xid: XaId, commit: Position) -> None:
        """Read a transaction that was prepared before reading began, if possible.

        Args:
            xid: id of the transaction.
            commit: start of the transaction of its XA COMMIT.

        Raises:
            BinlogDecodeError: the events before cannot be decoded.
            DataLossError: a change of the transaction cannot be delivered as rows.
        """

    def keep(self, one: PreparedTransaction, spools: tuple[RowSpool, ...]) -> None:
        """Keep the rows of a transaction at its XA PREPARE.

        Args:
            one: the transaction and its place.
            spools: items before the XA PREPARE, to be delivered in this order.

        Raises:
            SpoolError: the temporary file cannot be written.
            DataLossError: too many are pending.
        """
        before = self._rows.pop(one.xid, ())
        if before:
            _LOG.warning(
                "XA transaction %s was prepared again at %s:%d without an end of the one before, whose "
                "rows are dropped: the source lost it in a crash",
                *(one.xid, one.start.file, one.start.offset),
            )
            for spool in before:
                spool.close()
        self.ledger.prepare(one)
        kept = tuple(spool for spool in spools if len(spool))
        if 2 * self.storage.memory_used > self.storage.memory_limit:
            # Many small transactions take as much memory as a large one.
            for spool in kept:
                spool.spill()
        self._rows[one.xid] = kept

    def adopt(self, xid: XaId, others: PreparedRows) -> None:
        """Keep a transaction that was read back, if it was found."""
        one = others.ledger.find(xid)
        if one is not None:
            self.keep(one, others.end(xid, one.start))

    def end(self, xid: XaId, start: Position) -> tuple[RowSpool, ...]:
        """Remove a transaction that ends and return its items, which the caller closes.

        Args:
            xid: id of the transaction.
            start: start of the transaction of its XA COMMIT or XA ROLLBACK.
        """
        self.ledger.end(xid, start)
        return self._rows.pop(xid, ())


def passes_over(tracker: PositionTracker, data: bytes) -> bool:
    """Skip a rows event inside a transaction, undecoded, and return True; False for other events."""
    if not tracker.in_transaction or data[4] not in MIDDLE:
        return False
    tracker.skip(1, len(data))
    return True
