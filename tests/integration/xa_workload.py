"""Random XA transactions, ended in every way, across log files, restarts and crashes of the source.

What was committed is known in its order, row by row. Used by scripts/proofs/xa and test_xa_mixes.py.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pymysql

from tests.servers.local import LocalServer

DATABASE = "xamix"
TABLES = ("a", "b")
_MOST_PREPARED = 6
_LOCK_WAIT_TIMEOUT = 1205
_FORMATS = (1, 1, 0, 7, 2147483647)
_TEXTS = ("", "a", "ä", "表", "🐟", "it's", "\\", "x" * 300)

Row = tuple[int, int, str]
Xid = tuple[int, bytes, bytes]
"""Format, global part and branch part."""
Step = tuple[str, str, Row | None, Row | None]
"""Kind, table, row before, row after."""


@dataclass
class Branch:
    """An XA transaction that is open or prepared.

    Attributes:
        xid: as SQL.
        raw: the same as values.
        steps: its row changes in order.
        locked: rows of other transactions' making that it changes.
        session: what began it; None once it is prepared and free of it.
    """

    xid: str
    raw: Xid
    steps: list[Step] = field(default_factory=list)
    locked: set[tuple[str, int]] = field(default_factory=set)
    session: Any = None


@dataclass
class Mark:
    """A position, and how many transactions were committed before it."""

    position: tuple[str, int]
    committed: int
    prepared: int


class XaWorkload:
    """Runs XA transactions.

    Attributes:
        committed: the row changes of each committed transaction that has any, in order.
        marks: positions to start readers from.
        done: how often each thing was done.
    """

    def __init__(self, server: LocalServer, seed: int, *, crashes: bool = True) -> None:
        self.server, self.rng, self.crashes = server, random.Random(seed), crashes
        self.tables: dict[str, dict[int, Row]] = {name: {} for name in TABLES}
        self.committed: list[list[Step]] = []
        self.prepared: list[Branch] = []
        self.open: list[Branch] = []
        self.marks: list[Mark] = []
        self.done: Counter[str] = Counter()
        self._next, self._number = 1, 0
        self._idle: list[Any] = []
        self._ended: dict[Xid, str] = {}
        # Where xids have several formats, MySQL 9.7 has rolled back after a restart what is prepared or committed
        # in its binlog.
        one_format = crashes and server.flavor == "mysql"
        self._formats = (self.rng.choice(_FORMATS),) if one_format else _FORMATS
        self.detaches = server.flavor == "mysql" and server.version >= (8, 0, 29)

    def start(self) -> None:
        """Make the tables."""
        self.server.execute(f"CREATE DATABASE {DATABASE}")
        for name in TABLES:
            self.server.execute(
                f"CREATE TABLE {DATABASE}.{name} (id INT PRIMARY KEY, n INT, t TEXT)"
                " CHARACTER SET utf8mb4 ENGINE=InnoDB"
            )
        self.mark()

    def step(self) -> None:
        """One thing, chosen at random."""
        rng = self.rng
        what = rng.random()
        if what < 0.34 and len(self.open) < 3:
            self._begin()
        elif what < 0.62 and self.open:
            self._end(self.open.pop(rng.randrange(len(self.open))))
        elif what < 0.85 and self.prepared:
            self._finish(self.prepared.pop(rng.randrange(len(self.prepared))))
        elif what < 0.94:
            self._ordinary()
        elif what < 0.97:
            self.server.execute("FLUSH BINARY LOGS")
            self.done["files"] += 1
        elif what < 0.978 and self.crashes:
            self._away(rng.random() < 0.7)
        elif what < 0.985:
            self.mark()

    @property
    def ended(self) -> int:
        """XA transactions that have ended."""
        return sum(count for kind, count in self.done.items() if kind.startswith("XA"))

    def finish(self) -> None:
        """End everything."""
        while self.open:
            self._end(self.open.pop())
        while self.prepared:
            self._finish(self.prepared.pop())
        for connection in self._idle:
            connection.close()

    def mark(self) -> None:
        """Remember where a reader may begin."""
        self.marks.append(
            Mark(self.server.binlog_position(), len(self.committed), len(self.prepared))
        )

    # Sessions.

    def _session(self) -> Any:
        if self._idle:
            return self._idle.pop()
        session = self.server.connect()
        self._run(session, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self._run(session, "SET SESSION innodb_lock_wait_timeout = 2")
        return session

    @staticmethod
    def _run(session: Any, sql: str) -> None:
        with session.cursor() as cursor:
            cursor.execute(sql)

    def _leave(self, session: Any) -> None:
        number = session.thread_id()
        session.close()
        while self.server.query(
            f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {number}"
        ):
            pass

    # Transactions.

    def _xid(self) -> tuple[str, Xid]:
        rng = self.rng
        while True:
            gtrid = rng.choice(
                (
                    b"g%d" % self._number,
                    b"g%d" % rng.randrange(4),
                    rng.randbytes(rng.randint(1, 64)),
                    b"'\\\"`;-- " + b"%d" % self._number,
                    b"\x00" * rng.randint(1, 64),
                    b"COMMIT %d" % self._number,
                    "表🐟".encode() + b"%d" % self._number,
                )
            )
            bqual = rng.choice(
                (b"", b"", b"b", b"'", rng.randbytes(rng.randint(1, 64)), b"\xff" * 64)
            )
            format_id = rng.choice(self._formats)
            self._number += 1
            raw = (format_id, gtrid, bqual)
            # MySQL takes no two at a time that differ in their format only.
            if not any(one.raw[1:] == raw[1:] for one in (*self.open, *self.prepared)):
                return _sql(raw), raw

    def _begin(self) -> None:
        xid, raw = self._xid()
        session = self._session()
        self._run(session, f"XA START {xid}")
        branch = Branch(xid, raw, session=session)
        self.open.append(branch)
        self._change(branch, self.rng.choice((0, 1, 1, 2, 3, 6)))

    def _change(self, branch: Branch, count: int) -> None:
        rng = self.rng
        for _ in range(count):
            kept = len(branch.steps)
            undone = rng.random() < 0.15
            if undone:
                self._run(branch.session, "SAVEPOINT s")
            try:
                self._one_change(branch)
            except pymysql.err.OperationalError as error:
                # What a crash left open is rolled back by the source when it finds the time.
                if error.args[0] != _LOCK_WAIT_TIMEOUT:
                    raise
                self.done["waited in vain"] += 1
            if undone:
                self._run(branch.session, "ROLLBACK TO s")
                del branch.steps[kept:]

    def _one_change(self, branch: Branch) -> None:
        rng = self.rng
        table = rng.choice(TABLES)
        path = f"{DATABASE}.{table}"
        locked = set().union(*(one.locked for one in (*self.open, *self.prepared)))
        free = [key for key in self.tables[table] if (table, key) not in locked]
        what = rng.random()
        if what < 0.55 or not free:
            rows = []
            for _ in range(rng.choice((1, 1, 2, 20))):
                rows.append((self._next, rng.randrange(100), rng.choice(_TEXTS)))
                self._next += 1
            with branch.session.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {path} VALUES (%s,%s,%s)", rows)
            branch.steps += [("insert", table, None, row) for row in rows]
            return
        key = rng.choice(free)
        old = self.tables[table][key]
        branch.locked.add((table, key))
        if what < 0.85:
            new = (key, old[1] + 1, rng.choice(_TEXTS))
            with branch.session.cursor() as cursor:
                cursor.execute(f"UPDATE {path} SET n=%s, t=%s WHERE id=%s", (new[1], new[2], key))
            branch.steps.append(("update", table, old, new))
        else:
            self._run(branch.session, f"DELETE FROM {path} WHERE id={key}")
            branch.steps.append(("delete", table, old, None))

    def _end(self, branch: Branch) -> None:
        rng, session = self.rng, branch.session
        self._run(session, f"XA END {branch.xid}")
        what = rng.random()
        if what < 0.15:
            self._run(session, f"XA ROLLBACK {branch.xid}")
            self._forget(branch, session, "XA ROLLBACK at once")
        elif what < 0.3:
            self._run(session, f"XA COMMIT {branch.xid} ONE PHASE")
            self._commit(branch, session, "XA COMMIT ONE PHASE")
        else:
            self._run(session, f"XA PREPARE {branch.xid}")
            self.prepared.append(branch)
            self.done["prepared"] += 1
            if self.detaches:
                self._idle.append(session)
                branch.session = None
            elif rng.random() < 0.5:
                self._leave(session)
                branch.session = None
            if len(self.prepared) > _MOST_PREPARED:
                self._finish(self.prepared.pop(0))

    def _finish(self, branch: Branch) -> None:
        session = branch.session or self._session()
        commit = self.rng.random() < 0.6
        try:
            self._run(session, f"XA {'COMMIT' if commit else 'ROLLBACK'} {branch.xid}")
        except pymysql.err.MySQLError:
            # A branch without changes is gone once it was prepared.
            if branch.steps:
                raise
        if commit:
            self._commit(branch, session, "XA COMMIT")
        else:
            self._forget(branch, session, "XA ROLLBACK")

    def _commit(self, branch: Branch, session: Any, kind: str) -> None:
        if branch.steps:
            self.committed.append(branch.steps)
        for _, table, before, after in branch.steps:
            if before is not None:
                del self.tables[table][before[0]]
            if after is not None:
                self.tables[table][after[0]] = after
        self._forget(branch, session, kind)

    def _forget(self, branch: Branch, session: Any, kind: str) -> None:
        self.done[kind] += 1
        self._ended[branch.raw] = kind
        branch.session = None
        self._idle.append(session)

    def _ordinary(self) -> None:
        branch = Branch("", (0, b"", b""), session=self._session())
        self._run(branch.session, "BEGIN")
        self._change(branch, self.rng.choice((1, 2)))
        self._run(branch.session, "COMMIT")
        self._commit(branch, branch.session, "ordinary")

    def _away(self, crash: bool) -> None:
        """Crash or restart the source; what is prepared stays, what is open goes."""
        for branch in self.open:
            branch.session.close()
        for session in self._idle:
            session.close()
        for branch in self.prepared:
            if branch.session is not None:
                branch.session.close()
                branch.session = None
        self.open.clear()
        self._idle.clear()
        if crash:
            self.server.kill()
        self.server.restart()
        self.done["crashes" if crash else "restarts"] += 1
        there = {
            (int(one[0]), bytes(one[3])[: int(one[1])], bytes(one[3])[int(one[1]) :])
            for one in self._recover()
        }
        lost = [one.xid for one in self.prepared if one.steps and one.raw not in there]
        assert not lost, f"the source lost what it had prepared: {lost}"
        self.prepared = [one for one in self.prepared if one.raw in there]
        for raw in there - {one.raw for one in self.prepared}:
            # MariaDB does not write through to its tables that one has ended: only its binlog knows.
            again = "COMMIT" if self._ended[raw].startswith("XA COMMIT") else "ROLLBACK"
            self.server.execute(f"XA {again} {_sql(raw)}")
            self.done[f"{again.lower()} again"] += 1

    def _recover(self) -> list[Any]:
        with self.server.connected(conv={}, use_unicode=False) as connection:
            with connection.cursor() as cursor:
                cursor.execute("XA RECOVER")
                return list(cursor.fetchall())


def _sql(xid: Xid) -> str:
    return f"X'{xid[1].hex()}',X'{xid[2].hex()}',{xid[0]}"
