"""More random statements for the mix: what somebody adds who looks for what the others miss."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.integration.ddl_generator import Col, q
from tests.integration.mix_rows import RowStatements, value
from tests.integration.mix_sessions import CLIENT_CHARSETS, Sessions, Table
from tests.integration.mix_tables import NAMES, MixedDdl

if TYPE_CHECKING:
    from tests.integration.mix_generator import Session


class Adversary:
    """Temporary tables under every name, statements of several tables, sessions that change their settings.

    Args:
        sessions: run them.
        ddl: makes tables.
        rows: makes statements on rows.
        rng: chooses.
        number: gives names of routines that no other has.
    """

    def __init__(
        self,
        sessions: Sessions,
        ddl: MixedDdl,
        rows: RowStatements,
        rng: random.Random,
        number: Callable[[], int],
    ) -> None:
        self.sessions, self.ddl, self.rows, self.rng, self.number = sessions, ddl, rows, rng, number
        self.maria = sessions.server.flavor == "mariadb"
        self.new = not self.maria and sessions.server.version >= (8, 0)
        self._person: Session | None = None

    def idle(self, person: Session) -> tuple[str, bool]:
        """Statements of a session that is in no transaction: their kind, and whether they worked."""
        return self._one(
            person,
            (
                *(self.locked, self.temporary, self.temporary, self.temporary, self.hidden),
                *(self.mixed_format, self.row_image, self.settings, self.handler, self.failing),
                *(self.several, self.several_drops, self.sequence, self.savepoints_within),
                *(self.on_duplicate, self.replaced),
            ),
        )

    def inside(self, person: Session) -> tuple[str, bool]:
        """Statements of a session that is in a transaction, which they do not end."""
        return self._one(
            person,
            (
                *(self.temporary_inside, self.temporary_inside, self.settings, self.several),
                *(self.on_duplicate, self.row_image, self.failing_rows, self.replaced),
            ),
        )

    def _one(self, person: Session, kinds: tuple[Callable[[], bool], ...]) -> tuple[str, bool]:
        self._person = person
        for _ in range(4):
            kind = self.rng.choice(kinds)
            if kind():
                return kind.__name__, True
        return "", False

    @property
    def person(self) -> Session:
        assert self._person is not None
        return self._person

    def run(self, sql: str) -> bool:
        return self.ddl.run(sql)

    @property
    def charset(self) -> str:
        return self.sessions.charsets[self.person.number]

    def table(self) -> Table | None:
        tables = self.ddl.tables()
        if not tables:
            return None
        table = self.rng.choice(tables)
        self.person.claimed.add(table)
        return table

    @staticmethod
    def path(table: Table) -> str:
        return f"{q(table[0])}.{q(table[1])}"

    def base_name(self) -> str:
        """A name for a temporary table: often that of another table."""
        tables = [one for one in self.ddl.tables() if one[0] == self.sessions.databases[0]]
        names = [one[1] for one in tables] * 2 + [f"tmp{n}" for n in range(4)]
        return self.rng.choice(names)

    # Temporary tables.

    def temporary(self, *, whole: bool = True) -> bool:
        """Make one, and do to it what the binlog may take for another table; not ``whole``: to it alone."""
        if not self.person.temporary or self.rng.random() < 0.3:
            return self.make_temporary()
        name, rng = self.rng.choice(self.person.temporary), self.rng
        t, new = q(name), self.base_name()
        what = rng.randrange(12 if whole else 8)
        if what == 0:
            return self._renamed(name, new, f"ALTER TABLE {t} RENAME TO {q(new)}")
        if what == 1:
            return self._renamed(name, new, f"RENAME TABLE {t} TO {q(new)}")
        if what == 2:
            words = f"RENAME TABLE IF EXISTS {t} TO {q(new)}"
            if rng.random() < 0.3:
                words += ", `no` TO `nein`"
            return self.maria and self._renamed(name, new, words)
        if what == 3:
            return self._gone(name, f"DROP TABLE {t}")
        if what == 4:
            other = self.table()
            return other is not None and self._gone(
                name, f"DROP TABLE IF EXISTS {t}, {self.path(other)}, `no such`"
            )
        if what == 5:
            columns = rng.choice(("ADD z INT FIRST", "ADD y TEXT", "MODIFY a BIGINT", "DROP a"))
            return self.run(f"ALTER TABLE {t} {columns}")
        if what == 6:
            return self.run(f"TRUNCATE TABLE {t}")
        if what == 9:
            return self.run(f"CREATE TABLE {q(self.ddl.fresh())} LIKE {t}")
        if what == 8:
            return self.run(f"CREATE TABLE {q(self.ddl.fresh())} AS SELECT * FROM {t}")
        if what == 7:
            return self.maria and self.run(f"CREATE OR REPLACE TEMPORARY TABLE {t} (a INT, q INT)")
        if what == 10:
            words = f"CREATE OR REPLACE TABLE {t} (a INT, changed VARCHAR(9))"
            return self.maria and self.run(words)
        return self.run(f"CREATE TABLE IF NOT EXISTS {t} (a INT, other INT)")

    def make_temporary(self) -> bool:
        rng, name = self.rng, self.base_name()
        engine = rng.choice(("", "", " ENGINE=MyISAM", " ENGINE=InnoDB", " ENGINE=MEMORY"))
        head = rng.choice(("CREATE TEMPORARY TABLE", "CREATE TEMPORARY TABLE IF NOT EXISTS"))
        body = f"(a INT, {q(rng.choice(NAMES))} VARCHAR(20)){engine}"
        if rng.random() < 0.3 and (table := self.table()) is not None:
            body = rng.choice((f"LIKE {self.path(table)}", f"SELECT * FROM {self.path(table)}"))
        if not self.run(f"{head} {q(name)} {body}"):
            return False
        if name not in self.person.temporary:
            self.person.temporary.append(name)
        return True

    def temporary_inside(self) -> bool:
        """What of it does not end a transaction."""
        if not self.person.temporary or self.rng.random() < 0.5:
            return self.make_temporary()
        name = self.rng.choice(self.person.temporary)
        if self.rng.random() < 0.5:
            return self._gone(name, f"DROP TEMPORARY TABLE IF EXISTS {q(name)}")
        return self.run(f"INSERT INTO {q(name)} (a) VALUES (1), (2)")

    def _renamed(self, name: str, new: str, sql: str) -> bool:
        worked = self.run(sql)
        if worked and name in self.person.temporary:
            self.person.temporary.remove(name)
            self.person.temporary.append(new)
        return worked

    def _gone(self, name: str, sql: str) -> bool:
        worked = self.run(sql)
        if name in self.person.temporary:
            self.person.temporary.remove(name)
        return worked

    # Several tables, locked ones, and what fails.

    def locked(self) -> bool:
        """LOCK TABLES, rows and DDL, UNLOCK TABLES."""
        one, two = self.table(), self.table()
        if one is None or two is None:
            return False
        names = " WRITE, ".join(self.path(each) for each in {one, two})
        if not self.run(f"LOCK TABLES {names} WRITE"):
            return False
        for _ in range(self.rng.randint(1, 4)):
            self.run(self._locked_statement(one, two))
        return self.run(self.rng.choice(("UNLOCK TABLES", "BEGIN"))) and self.run("COMMIT")

    def _locked_statement(self, one: Table, two: Table) -> str:
        rng = self.rng
        some = [column for column in self.ddl.columns(two) if not column.generated]
        return rng.choice(
            (
                self.rows.make(self.charset, one),
                self.rows.make(self.charset, two),
                f"TRUNCATE TABLE {self.path(one)}",
                f"ALTER TABLE {self.path(two)} ADD {q(f'n{rng.randrange(99)}')} INT FIRST",
                f"ALTER TABLE {self.path(two)} ORDER BY {q(some[0].name if some else 'a')}",
                f"ALTER TABLE {self.path(one)} FORCE",
                f"CREATE TEMPORARY TABLE {q(self.base_name())} (a INT)",
            )
        )

    def several(self) -> bool:
        """UPDATE or DELETE of two tables by one statement."""
        one, two = self.table(), self.table()
        if one is None or two is None or one == two:
            return False
        a, b = self._some_column(one), self._some_column(two)
        if a is None or b is None:
            return False
        on = f"x.{q(a.name)} = {value(self.rng, a, self.charset)}"
        if self.rng.random() < 0.3:
            return self.run(
                f"DELETE x, y FROM {self.path(one)} AS x JOIN {self.path(two)} AS y WHERE {on}"
                f" AND y.{q(b.name)} = {value(self.rng, b, self.charset)}"
            )
        return self.run(
            f"UPDATE IGNORE {self.path(one)} AS x JOIN {self.path(two)} AS y SET"
            f" x.{q(a.name)} = {value(self.rng, a, self.charset)},"
            f" y.{q(b.name)} = {value(self.rng, b, self.charset)}"
        )

    def _some_column(self, table: Table) -> Col | None:
        found = [column for column in self.ddl.columns(table) if not column.generated]
        return self.rng.choice(found) if found else None

    def several_drops(self) -> bool:
        """DROP TABLE of a base table, a temporary one, a view and one that is not there."""
        table = self.table()
        if table is None or len(self.ddl.all_tables()) < 5:
            return False
        others = [q(name) for name in self.person.temporary[:1]]
        names = [self.path(table), *others]
        self.rng.shuffle(names)
        if self.rng.random() < 0.5:
            worked = self.run(f"DROP TABLE {', '.join(names)}")
        else:
            # It ends with an error, and what is there is gone.
            self.run(f"DROP TABLE {', '.join((*names, '`not there`'))}")
            worked = True
        del self.person.temporary[:1]
        return worked

    def failing(self) -> bool:
        """CREATE TABLE ... SELECT that fails in its midst, CREATE OR REPLACE among them."""
        table = self.table()
        if table is None:
            return False
        engine = self.rng.choice(("", " ENGINE=MyISAM", " ENGINE=InnoDB"))
        rows = "SELECT 1 AS k UNION ALL SELECT 2 UNION ALL SELECT 1"
        name, head = q(self.ddl.fresh()), "CREATE TABLE"
        if self.maria and self.rng.random() < 0.5:
            name, head = self.path(table), "CREATE OR REPLACE TABLE"
        self.run(f"{head} {name} (k INT PRIMARY KEY){engine} {rows}")
        return True

    def failing_rows(self) -> bool:
        """Rows of which the last one fails: tables without transactions keep the others."""
        table = self.table()
        column = None if table is None else self._some_column(table)
        if table is None or column is None:
            return False
        one = value(self.rng, column, self.charset)
        self.run(
            f"INSERT INTO {self.path(table)} ({q(column.name)}) VALUES ({one}), ({one}),"
            f" ((SELECT 1 UNION SELECT 2))"
        )
        return True

    def on_duplicate(self) -> bool:
        """INSERT ... ON DUPLICATE KEY UPDATE of many rows."""
        table = self.table()
        column = None if table is None else self._some_column(table)
        if table is None or column is None:
            return False
        rows = ", ".join(
            f"({value(self.rng, column, self.charset)})" for _ in range(self.rng.choice((2, 9)))
        )
        return self.run(
            f"INSERT IGNORE INTO {self.path(table)} ({q(column.name)}) VALUES {rows} ON DUPLICATE KEY"
            f" UPDATE {q(column.name)} = {value(self.rng, column, self.charset)}"
        )

    def replaced(self) -> bool:
        """REPLACE of a table's own rows."""
        table = self.table()
        if table is None:
            return False
        names = [q(one.name) for one in self.ddl.columns(table) if not one.generated]
        listed = ", ".join(names)
        return bool(names) and self.run(
            f"REPLACE INTO {self.path(table)} ({listed}) SELECT {listed} FROM {self.path(table)} LIMIT 5"
        )

    # Sessions.

    def hidden(self) -> bool:
        """What is not logged, and is gone before it is again."""
        if not self.run("SET sql_log_bin = 0"):
            return False
        # Not where the session's temporary tables are.
        name = f"{q(self.sessions.databases[1])}.{q(f'hidden{self.rng.randrange(3)}')}"
        self.run(f"CREATE TABLE {name} (a INT, b TEXT)")
        self.run(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
        if self.rng.random() < 0.5:
            self.make_temporary()
        self.run(f"DROP TABLE IF EXISTS {name}")
        return self.run("SET sql_log_bin = 1")

    def mixed_format(self) -> bool:
        """Statements on temporary tables that are logged as text, and rows among them."""
        form = self.rng.choice(("MIXED", "STATEMENT"))
        for name in list(self.person.temporary):
            self._gone(name, f"DROP TEMPORARY TABLE {q(name)}")
        if not self.run(f"SET SESSION binlog_format = {form}"):
            return False
        database = self.sessions.databases[0]
        begun = self.rng.random() < 0.4 and self.run("BEGIN")
        for _ in range(self.rng.randint(1, 5)):
            if begun:
                self.temporary_inside()
            elif self.rng.random() < 0.8:
                self.temporary(whole=False)
            else:
                self.ddl.create_form(self.person.mode)
        if begun:
            self.run("COMMIT")
        if not self.run("SET SESSION binlog_format = ROW"):
            for name in list(self.person.temporary):
                self._gone(name, f"DROP TEMPORARY TABLE {q(name)}")
            if not self.run("SET SESSION binlog_format = ROW"):
                self.run("")
                self.run(f"USE {q(database)}")
                self.person.temporary.clear()
                self.person.mode = ""
        return True

    def row_image(self) -> bool:
        """Another binlog_row_image from here on."""
        image = self.rng.choice(("FULL", "FULL", "MINIMAL", "NOBLOB"))
        if self.maria and image != "FULL":
            self.rows.says_all = True
        return self.run(f"SET SESSION binlog_row_image = '{image}'")

    def settings(self) -> bool:
        """Character sets, collations and modes, within a transaction, too."""
        rng = self.rng
        charset = rng.choice(CLIENT_CHARSETS)
        choices = [
            f"SET NAMES {charset}",
            f"SET CHARACTER SET {charset}",
            f"SET collation_connection = {rng.choice(('utf8mb4_bin', 'latin1_general_cs', 'gbk_bin'))}",
            f"SET character_set_connection = {charset}",
            f"SET collation_server = {rng.choice(('latin1_swedish_ci', 'utf8mb4_bin', 'sjis_bin'))}",
            # Without both checks MariaDB logs rows that its bulk load then loses (docs, guarantees).
            f"SET SESSION unique_checks = {int(self.maria)}",
            "SET SESSION sql_auto_is_null = 1",
            f"SET lc_time_names = '{rng.choice(('de_DE', 'en_US', 'ja_JP'))}'",
            f"SET time_zone = '{rng.choice(('+02:00', '-11:30', '+00:00'))}'",
        ]
        return self.run(rng.choice(choices))

    # Programs.

    def handler(self) -> bool:
        """A procedure or function that goes on after an error of its own."""
        table = self.table()
        if table is None:
            return False
        name = f"{q(self.sessions.databases[0])}.{q(f'h{self.number()}')}"
        text = "; ".join(self.rows.make(self.charset, table) for _ in range(2))
        fails = self.rng.choice(
            (
                "INSERT INTO `not there` VALUES (1)",
                "SIGNAL SQLSTATE '45000'",
                f"INSERT INTO {self.path(table)} SELECT * FROM {self.path(table)}",
            )
        )
        handler = "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END"
        if self.rng.random() < 0.5:
            self.run(f"CREATE PROCEDURE {name}() BEGIN {handler}; {text}; {fails}; {text}; END")
            return self.run(f"CALL {name}()")
        self.run(
            f"CREATE FUNCTION {name}() RETURNS INT DETERMINISTIC BEGIN {handler}; {text}; {fails}; {text};"
            " RETURN 1; END"
        )
        return self.run(f"SELECT {name}()")

    def savepoints_within(self) -> bool:
        """Savepoints of functions and triggers, which only new MySQL logs so that all of it can be told."""
        table, other = self.table(), self.table()
        if not self.new or table is None or other is None:
            return False
        number = self.number()
        name = f"{q(self.sessions.databases[0])}.{q(f'f{number}')}"
        body = (
            f"BEGIN {self.rows.make(self.charset, other)}; SAVEPOINT s; {self.rows.make(self.charset, other)};"
            f" ROLLBACK TO s; {self.rows.make(self.charset, other)}; RELEASE SAVEPOINT s; "
        )
        if self.rng.random() < 0.5:
            self.run(f"CREATE FUNCTION {name}() RETURNS INT DETERMINISTIC {body} RETURN 1; END")
            return self.run(f"DO {name}()")
        return self.run(
            f"CREATE TRIGGER {q(table[0])}.{q(f'h{number}')} AFTER DELETE ON {self.path(table)}"
            f" FOR EACH ROW {body} END"
        )

    def sequence(self) -> bool:
        """MariaDB's sequences: made, altered, renamed, used, replaced by tables."""
        if not self.maria:
            return False
        rng, name = self.rng, f"{q(self.sessions.databases[0])}.{q(f'seq{self.rng.randrange(2)}')}"
        other = f"{q(self.sessions.databases[0])}.{q(f'seq{self.rng.randrange(2)}')}"
        return self.run(
            rng.choice(
                (
                    f"CREATE SEQUENCE {name} START WITH 3 INCREMENT BY {rng.randrange(1, 9)}",
                    f"CREATE OR REPLACE SEQUENCE {name} CYCLE",
                    f"CREATE TEMPORARY SEQUENCE {name}",
                    f"DO NEXTVAL({name})",
                    f"DO SETVAL({name}, {rng.randrange(1, 99)})",
                    f"ALTER SEQUENCE {name} RESTART {rng.randrange(1, 9)}",
                    f"RENAME TABLE {name} TO {other}",
                    f"DROP SEQUENCE {name}",
                    f"DROP TABLE {name}",
                )
            )
        )
