"""Random statements of several sessions: savepoints, XA, temporary tables, engines, DDL, character sets, modes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from tests.integration.ddl_generator import q
from tests.integration.mix_adversary import Adversary
from tests.integration.mix_rows import RowStatements
from tests.integration.mix_sessions import CLIENT_CHARSETS, Sessions, Table
from tests.integration.mix_settings import modes
from tests.integration.mix_tables import NAMES, MixedDdl

_SAVEPOINTS = ("s", "S", "s1", "ü", "a b", "表", "commit")
_MOST_TABLES = 9


@dataclass
class Session:
    """What a session is at.

    Attributes:
        number: its number.
        state: ``idle``, ``open`` (a transaction), ``xa`` (an active XA one), or ``prepared`` (MariaDB's
            session that prepared, which can only end it).
        xid: of its XA transaction.
        claimed: tables that it uses.
        savepoints: names that were set.
        temporary: its temporary tables.
    """

    number: int
    state: str = "idle"
    xid: str = ""
    mode: str = ""
    claimed: set[Table] = field(default_factory=set)
    savepoints: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)


class Mixer:
    """Runs random statements.

    Args:
        sessions: run them.
        rng: chooses.
        without: kinds that are left out: ``xa``, ``savepoints``, ``forms`` (of tables), ``unsaid`` columns of
            REPLACE, ``more`` (of :class:`~tests.integration.mix_adversary.Adversary`).

    Attributes:
        done: how often each kind was done.
        transactions: ended ones, with DDL and statements that commit by themselves.
    """

    def __init__(
        self, sessions: Sessions, rng: random.Random, without: frozenset[str] = frozenset()
    ) -> None:
        self.sessions, self.rng = sessions, rng
        self.ddl = MixedDdl(sessions, rng, without)
        self.rows = RowStatements(self.ddl, rng, says_all="unsaid" in without)
        self.without = without
        self.more = (
            None
            if "more" in without
            else Adversary(sessions, self.ddl, self.rows, rng, self._number)
        )
        self.people = [Session(number) for number in range(sessions.count)]
        self.prepared: dict[str, set[Table]] = {}
        self.done: Counter[str] = Counter()
        self.transactions = 0
        self._counter = 0
        self.server = sessions.server
        self.modes = modes(self.server)
        self.maria = self.server.flavor == "mariadb"
        self.detaches = not self.maria and self.server.version >= (8, 0, 29)

    def start(self) -> None:
        """Make the databases and some tables."""
        rng = self.rng
        for database in self.sessions.databases:
            self.sessions.run(
                0, f"CREATE DATABASE {q(database)} CHARACTER SET {rng.choice(self.ddl.charsets)}"
            )
        for person in self.people:
            self.sessions.run(person.number, f"USE {q(self.sessions.databases[0])}")
        for _ in range(6):
            self.ddl.create_form()

    def step(self) -> None:
        """One statement of one session, or a few that belong together."""
        person = self.rng.choice(self.people)
        self.ddl.number = person.number
        self.ddl.mode = person.mode
        self.ddl.temporary = person.temporary
        self.ddl.claimed = set().union(
            *(one.claimed for one in self.people if one is not person), *self.prepared.values()
        )
        if person.state == "idle":
            self._begin(person)
        elif person.state == "prepared":
            if self.rng.random() < 0.4:
                self._end_prepared_here(person)
        elif self.rng.random() < 0.25:
            self._end(person)
        else:
            self._item(person)

    def end(self) -> None:
        """End what is open."""
        for person in self.people:
            if person.state == "prepared":
                self._end_prepared_here(person)
            elif person.state != "idle":
                self._end(person)
        for xid in list(self.prepared):
            self._end_prepared(self.people[0], xid)
        self.sessions.finish_prepared()

    def _run(self, person: Session, sql: str, kind: str = "") -> bool:
        worked = self.sessions.run(person.number, sql)
        if worked and kind:
            self.done[kind] += 1
        return worked

    def _finished(self, person: Session) -> None:
        person.state, person.xid = "idle", ""
        person.claimed.clear()
        person.savepoints.clear()
        self.transactions += 1

    def _number(self) -> int:
        self._counter += 1
        return self._counter

    # What begins.

    def _begin(self, person: Session) -> None:
        rng = self.rng
        if self.more is not None and rng.random() < 0.35:
            kind, worked = self.more.idle(person)
            if worked:
                self.done[kind] += 1
                self._finished(person)
            person.claimed.clear()
            return
        what = rng.random()
        if what < 0.30:
            if self._change(person):
                self._finished(person)
            person.claimed.clear()
        elif what < 0.56:
            words = ("BEGIN", "START TRANSACTION", "SET autocommit = 0")
            if self._run(person, rng.choice(words), "begin"):
                person.state = "open"
        elif what < 0.70:
            if "xa" not in self.without:
                self._begin_xa(person)
        elif what < 0.76 and self.prepared:
            self._end_prepared(person, rng.choice(list(self.prepared)))
        elif what < 0.88:
            self._ddl(person)
        elif what < 0.92:
            self._settings(person)
        elif what < 0.97:
            self._programs(person)
        elif what < 0.98:
            self._run(person, "", "reconnect")
            self._run(person, f"USE {q(self.sessions.databases[0])}")
            person.temporary.clear()
            person.mode = ""
        else:
            self._run(person, "FLUSH BINARY LOGS", "flush")

    def _ddl(self, person: Session) -> None:
        rng = self.rng
        what = rng.random()
        count = len(self.ddl.all_tables())
        if count > _MOST_TABLES and self.ddl.tables():
            table = rng.choice(self.ddl.tables())
            worked = self._run(person, f"DROP TABLE {q(table[0])}.{q(table[1])}", "drop")
        elif what < 0.3:
            worked = self.ddl.create_form(person.mode)
        elif what < 0.5:
            worked = self.ddl.create_of_select()
            self.done["create of select"] += worked
        else:
            self.ddl.step()
            worked = True
        self.done["ddl"] += worked
        self.transactions += worked

    def _settings(self, person: Session) -> None:
        rng = self.rng
        what = rng.random()
        if what < 0.5:
            self._run(person, f"SET NAMES {rng.choice(CLIENT_CHARSETS)}", "set names")
        elif what < 0.85:
            mode = rng.choice(self.modes)
            if self._run(person, f"SET sql_mode = '{mode}'", "sql_mode"):
                person.mode = mode
        elif what < 0.95:
            self._run(person, f"USE {q(rng.choice(self.sessions.databases))}", "use")
        else:
            charset = rng.choice(CLIENT_CHARSETS)
            self._run(person, f"SET character_set_connection = {charset}", "set charset")

    def _programs(self, person: Session) -> None:
        """Triggers, procedures and views."""
        rng, tables = self.rng, self.ddl.tables()
        if not tables:
            return
        self._counter += 1
        one, two = rng.choice(tables), rng.choice(tables)
        charset = self.sessions.charsets[person.number]
        statement = self.rows.make(charset, two)
        database = self.sessions.databases[0]
        name = f"{q(database)}.{q(f'p{self._counter}')}"
        what = rng.random()
        if what < 0.4:
            log = f"{q(database)}.{q(f'log{self._counter % 3}')}"
            engine = rng.choice(("InnoDB", "MyISAM"))
            self._run(
                person, f"CREATE TABLE IF NOT EXISTS {log} (n INT, t VARCHAR(20)) ENGINE={engine}"
            )
            event = rng.choice(("INSERT", "UPDATE", "DELETE"))
            self._run(
                person,
                f"CREATE TRIGGER {q(one[0])}.{q(f'g{self._counter}')} {rng.choice(('BEFORE', 'AFTER'))} {event}"
                f" ON {q(one[0])}.{q(one[1])} FOR EACH ROW INSERT INTO {log} VALUES (1, '{event}')",
                "trigger",
            )
        elif what < 0.7:
            body = "; ".join(
                [
                    statement,
                    rng.choice(
                        (
                            f"SAVEPOINT sp{self._counter}",
                            "DO 1",
                            "CREATE TEMPORARY TABLE IF NOT EXISTS tp (a INT)",
                        )
                    ),
                    self.rows.make(charset, one),
                    rng.choice(
                        (
                            f"ROLLBACK TO sp{self._counter}",
                            "DO 2",
                            "DROP TEMPORARY TABLE IF EXISTS tp",
                            "COMMIT",
                        )
                    ),
                ]
            )
            self._run(person, f"CREATE PROCEDURE {name}() BEGIN {body}; END", "procedure")
            self._run(person, f"CALL {name}()", "call")
            self.transactions += 1
        else:
            view = f"{q(database)}.{q(f'v{self._counter % 2}')}"
            self._run(
                person,
                f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {q(one[0])}.{q(one[1])}",
                "view",
            )
            column = rng.choice(self.ddl.columns(one))
            self._run(person, f"UPDATE {view} SET {q(column.name)} = NULL", "through a view")

    # Inside a transaction.

    def _change(self, person: Session) -> bool:
        tables = self.ddl.tables()
        if not tables:
            return False
        table = self.rng.choice(tables)
        person.claimed.add(table)
        charset = self.sessions.charsets[person.number]
        return self._run(person, self.rows.make(charset, table), "rows")

    def _item(self, person: Session) -> None:
        rng = self.rng
        if self.more is not None and rng.random() < 0.2:
            kind, _ = self.more.inside(person)
            self.done[kind] += 1
            return
        if self.more is not None and person.state == "open" and rng.random() < 0.05:
            self._end_by_the_way(person)
            return
        what = rng.random()
        if what < 0.5:
            self._change(person)
        elif what < 0.66 and "savepoints" not in self.without:
            name = rng.choice(_SAVEPOINTS)
            if self.maria and name.lower() in map(str.lower, person.savepoints):
                return  # its binlog does not tell then which one a ROLLBACK TO means
            if self._run(person, f"SAVEPOINT {q(name)}", "savepoint"):
                person.savepoints.append(name)
        elif what < 0.78 and person.savepoints:
            name = rng.choice(person.savepoints)
            words = rng.choice(("ROLLBACK TO", "ROLLBACK TO SAVEPOINT", "ROLLBACK WORK TO"))
            self._run(person, f"{words} {q(name)}", "rollback to")
        elif what < 0.81 and person.savepoints:
            self._run(person, f"RELEASE SAVEPOINT {q(rng.choice(person.savepoints))}", "release")
        elif what < 0.97:
            self._temporary(person)
        elif person.state == "open" and self._counter:
            name = f"p{rng.randint(1, self._counter)}"
            if self.maria and name in person.savepoints:
                return
            person.savepoints.append(name)
            self._run(person, f"CALL {q(self.sessions.databases[0])}.{q(name)}()", "call inside")

    def _temporary(self, person: Session) -> None:
        rng = self.rng
        what = rng.random()
        tables = self.ddl.tables()
        engine = rng.choice(("", "", " ENGINE=MyISAM", " ENGINE=InnoDB"))
        if what < 0.45 or not person.temporary:
            shadow = bool(tables) and rng.random() < 0.2
            name = rng.choice(tables)[1] if shadow else f"tmp{rng.randrange(4)}"
            if tables and rng.random() < 0.3:
                one = rng.choice(tables)
                made = rng.choice(
                    (f" SELECT * FROM {q(one[0])}.{q(one[1])}", f" LIKE {q(one[0])}.{q(one[1])}")
                )
            else:
                made = f" (a INT, {q(rng.choice(NAMES))} VARCHAR(20)){engine}"
            if self._run(person, f"CREATE TEMPORARY TABLE {q(name)}{made}", "temporary"):
                person.temporary.append(name)
            return
        name = rng.choice(person.temporary)
        if what < 0.65:
            if self._run(person, f"DROP TEMPORARY TABLE {q(name)}", "drop temporary"):
                person.temporary.remove(name)
        elif what < 0.85:
            self._run(person, f"INSERT INTO {q(name)} (a) VALUES (1), (2)", "rows of temporary")
        elif tables:
            one = rng.choice(tables)
            person.claimed.add(one)
            self._run(
                person,
                f"INSERT IGNORE INTO {q(one[0])}.{q(one[1])} SELECT * FROM {q(name)}",
                "from temporary",
            )

    def _end(self, person: Session) -> None:
        if person.state == "xa":
            self._end_xa(person)
            return
        if self.rng.random() < 0.72:
            self._run(person, "COMMIT", "commit")
        else:
            self._run(person, "ROLLBACK", "rollback")
        self._run(person, "SET autocommit = 1")
        self._finished(person)

    def _end_by_the_way(self, person: Session) -> None:
        """A statement that commits what is open: another BEGIN, DDL, LOCK TABLES, autocommit."""
        what = self.rng.random()
        if what < 0.3:
            if self._run(person, self.rng.choice(("BEGIN", "START TRANSACTION")), "begin again"):
                self.transactions += 1
                person.savepoints.clear()
                person.claimed.clear()
            return
        if what < 0.8:
            self._ddl(person)
            self.done["ddl within"] += 1
        elif what < 0.9:
            self._run(person, "LOCK TABLES mysql.user READ", "lock within")
            self._run(person, "UNLOCK TABLES")
        self._run(person, "SET autocommit = 1")
        self._run(person, "COMMIT")
        self._finished(person)

    # XA.

    def _begin_xa(self, person: Session) -> None:
        rng = self.rng
        self._counter += 1
        number = f"{self.sessions.databases[0]}-{self._counter}"
        xid = rng.choice(
            (
                f"'{number}'",
                f"'{number}', 'b{rng.randrange(9)}'",
                f"'{number}', '', {rng.randrange(1, 1 << 31)}",
                f"X'{number.encode().hex()}00ff27', X'5c0a', 7",
                f"'{number} commit', 'it''s', 3",
            )
        )
        if self._run(person, f"{rng.choice(('XA START', 'XA BEGIN'))} {xid}", "xa start"):
            person.state, person.xid = "xa", xid

    def _end_xa(self, person: Session) -> None:
        rng, xid = self.rng, person.xid
        what = rng.random()
        worked = self._run(person, f"XA END {xid}")
        if worked and what < 0.2:
            worked = self._run(person, f"XA COMMIT {xid} ONE PHASE", "xa one phase")
        elif worked and what < 0.85:
            worked = self._run(person, f"XA PREPARE {xid}", "xa prepare")
            if worked:
                self._keep_prepared(person)
                return
        else:
            worked = self._run(person, f"XA ROLLBACK {xid}", "xa rollback")
        if not worked and not self._run(person, f"XA ROLLBACK {xid}"):
            self._leave(person)
        self._finished(person)

    def _keep_prepared(self, person: Session) -> None:
        if self.detaches:
            self.prepared[person.xid] = set(person.claimed)
            self._finished(person)
        elif self.server.name != "mysql-5.6" and self.rng.random() < 0.3:
            self.prepared[person.xid] = set(person.claimed)
            self._leave(person)
            self._finished(person)
        else:
            person.state = "prepared"

    def _leave(self, person: Session) -> None:
        """Disconnect: what is prepared stays."""
        self._run(person, "", "reconnect")
        self._run(person, f"USE {q(self.sessions.databases[0])}")
        person.temporary.clear()
        person.mode = ""

    def _end_prepared_here(self, person: Session) -> None:
        word = "XA COMMIT" if self.rng.random() < 0.65 else "XA ROLLBACK"
        if not self._run(person, f"{word} {person.xid}", word.lower()):
            self._leave(person)
        self._finished(person)

    def _end_prepared(self, person: Session, xid: str) -> None:
        word = "XA COMMIT" if self.rng.random() < 0.65 else "XA ROLLBACK"
        if self._run(person, f"{word} {xid}", word.lower()):
            self.transactions += 1
        self.prepared.pop(xid)
