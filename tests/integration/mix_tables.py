"""Tables of the forms that people write, in every character set, and statements that change them."""

from __future__ import annotations

import random
from typing import Any

from tests.integration.ddl_generator import Col, Ddl, q
from tests.integration.mix_sessions import Sessions, Table

ENGINES = ("InnoDB", "InnoDB", "InnoDB", "InnoDB", "MyISAM", "MEMORY", "Aria")
CHARSETS = ("utf8mb4", "utf8mb4", "latin1", "gbk", "sjis", "utf8", "cp1251", "big5", "ucs2", "ujis")
NAMES = ("a", "B", "größe", "ключ", "表", "ソ能", "rowid", "select", "c c", "été", "DB_x", "_open")
LABELS = ("a", "B", "ü", "été", "ж", "表", "ソ", "能", "🐟", "?", "😀x", "it''s", "x y", "$", "")
_STOLEN = frozenset(
    ("ddl_temporary", "ddl_maria_versioning", "ddl_maria_own_period", "ddl_session")
)


class MixedDdl(Ddl):
    """The DDL of the DDL proof, run in the session whose turn it is.

    Attributes:
        number: that session's number.
        claimed: tables that open transactions of other sessions use.
        temporary: temporary tables of the session.
    """

    def __init__(
        self, sessions: Sessions, rng: random.Random, without: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(sessions.server, None, sessions.databases[0], rng)
        self.other = sessions.databases[1]
        self.sessions = sessions
        self.without = without
        # MySQL 5.6 cuts SET labels in ucs2 to half their length when it opens a table again.
        old = self.mysql and self.version < (8, 0)
        self.charsets = tuple(name for name in CHARSETS if not (old and name == "ucs2"))
        self.number = 0
        self.claimed: set[Table] = set()
        self.temporary: list[str] = []
        self._known: dict[Table, list[Col]] = {}
        self._seen = -1

    def run(self, sql: str) -> bool:
        return not self.is_undecided(sql) and self.sessions.run(self.number, sql)

    def is_undecided(self, sql: str) -> bool:
        """Whether the binlog does not tell what a statement does: temporary tables hide what it names.

        MariaDB logs RENAME TABLE of a temporary table as that of any other, and servers whose table maps may tell no
        character set leave out that of a temporary table which another is made like.
        """
        words = sql.upper()
        if not (words.startswith("RENAME") and not self.mysql) and not (
            " LIKE " in words and (not self.mysql or self.version < (8, 0))
        ):
            return False
        tables = {name.lower() for _, name in self.all_tables()}
        hidden = [name for name in self.temporary if "LIKE" in words or name.lower() in tables]
        return any(q(name).lower() in sql.lower() for name in hidden)

    def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return [
            tuple(v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v for v in row)
            for row in self.sessions.ask(sql, *args)
        ]

    def session(self) -> None:
        """The sessions are set elsewhere."""

    def kinds(self) -> list[str]:
        return [name for name in super().kinds() if name not in _STOLEN]

    def create_text(self, name: str | None = None, head: str = "CREATE TABLE") -> str:
        text = super().create_text(name, head)
        return text.replace(" WITH SYSTEM VERSIONING", "")

    def tables(self) -> list[Table]:
        """Tables that no other session's transaction uses."""
        return [table for table in self.all_tables() if table not in self.claimed]

    def all_tables(self) -> list[Table]:
        """The base tables of both databases."""
        self._refresh()
        return list(self._known)

    def columns(self, table: Table) -> list[Col]:
        self._refresh()
        if not self._known.get(table):
            self._known[table] = super().columns(table)
        return self._known[table]

    def _refresh(self) -> None:
        """Ask again when statements other than changes of rows ran since."""
        if self._seen != self.sessions.shape:
            self._seen = self.sessions.shape
            self._known = {table: [] for table in self.sessions.tables()}

    def ddl_alter_rename_and_add(self) -> str | None:  # type: ignore[override]
        """MariaDB leaves half a MyISAM table behind when its name is not ASCII."""
        text = super().ddl_alter_rename_and_add()
        return text if self.mysql or text.isascii() else None

    def ddl_create_select(self) -> str | None:
        """As :meth:`create_of_select`: not of labels for which the server writes ``?`` into the binlog."""
        table = self.table()
        doubtful = any("?" in column.type for column in self.columns(table))
        return None if doubtful else self.select_of(table)

    def fresh(self, prefix: str = "t") -> str:
        name = super().fresh(prefix)
        if prefix != "t":
            return name
        return self.rng.choice((name, name, name.upper(), name + "ü", name + "表", name + "ж"))

    def label(self) -> str:
        text = self.rng.choice(LABELS)
        return f"'{text}{self.rng.choice(('', '', self.rng.randrange(9)))}'"

    def quoted(self, name: str, mode: str) -> str:
        if "ANSI_QUOTES" in mode and self.rng.random() < 0.5:
            return '"' + name.replace('"', '""') + '"'
        return q(name)

    # Tables of common forms.

    def form(self) -> tuple[str, str]:
        """Columns and keys of a table, and its options."""
        rng = self.rng
        names = rng.sample(NAMES, 4)
        a, b, c, d = map(q, names)
        labels = ", ".join(dict.fromkeys(self.label() for _ in range(rng.choice((2, 4, 7)))))
        charset = rng.choice(self.charsets)
        own = rng.choice(("", "", f" CHARACTER SET {rng.choice(self.charsets)}"))
        text = rng.choice(("VARCHAR(40)", "CHAR(20)", "VARCHAR(200)"))
        forms = [
            f"id SERIAL, {a} TEXT{own}, {b} SET({labels})",
            f"id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, {a} DECIMAL(65,30), {b} {text}",
            f"{a} INT, {b} {text}{own}, UNIQUE KEY ({a})",
            f"{a} INT PRIMARY KEY, {b} {text}{own} NOT NULL DEFAULT '', {c} DATETIME(3), {d} TIMESTAMP",
            f"{a} {text}{own}, {b} ENUM({labels}){own}, {c} SET({labels}){own}",
            f"{a} {text} PRIMARY KEY, {b} INT UNSIGNED, {c} BIT(9), {d} YEAR",
            f"{a} ENUM({labels}) NOT NULL, {b} DOUBLE, {c} TIMESTAMP NULL, {d} TIME(2)",
            f"{a} INT, {b} INT, {c} {text}, PRIMARY KEY ({a}, {b}), KEY {d} ({c}(5))",
            f"{a} BLOB, {b} VARBINARY(30), {c} MEDIUMTEXT{own}, {d} TINYINT(1)",
        ]
        if "forms" not in self.without:
            forms += [
                f"id INT AUTO_INCREMENT UNIQUE, {a} {text}{own}, {b} ENUM({labels}){own}",
                f"id INT AUTO_INCREMENT, {a} INT, KEY(id), {b} {text}{own}",
                f"id BIGINT PRIMARY KEY, {a} INT NOT NULL AUTO_INCREMENT, {b} {text}, UNIQUE KEY({a})",
            ]
        if not self.mysql and "forms" not in self.without:
            forms += [
                f"{a} INT, {b} TEXT{own} UNIQUE, {c} DECIMAL(39,33)",
                f"{a} INT, {b} DATE NOT NULL, {c} DATE NOT NULL, PERIOD FOR {d}({b}, {c})",
            ]
        if not self.mysql:
            forms += [
                f"{a} INT, {b} {text} INVISIBLE DEFAULT 'x', {c} INT AS ({a} + 1) STORED",
                f"{a} UUID, {b} INET6, {c} JSON, {d} VARCHAR(30) COMPRESSED",
            ]
        elif self.version >= (8, 0):
            forms += [
                f"{a} INT PRIMARY KEY, {b} JSON, {c} INT AS ({a} + 1) STORED, {d} INT INVISIBLE",
                f"{a} INT AUTO_INCREMENT, {b} INT AS ({a} * 2) VIRTUAL, {c} {text}, UNIQUE({a})",
            ]
        options = f" ENGINE={rng.choice(ENGINES)}"
        if rng.random() < 0.6:
            options += rng.choice((" DEFAULT CHARSET=", " CHARACTER SET ")) + charset
        form = rng.choice(forms)
        if " UNIQUE, " in form and " TEXT" in form and not self.mysql:
            # Under READ COMMITTED MariaDB's InnoDB keeps rows of an INSERT that such a key refused, and logs none.
            options = options.replace("InnoDB", "Aria")
        return form, options

    def create_form(self, mode: str = "") -> bool:
        """Create a table of a common form."""
        rng = self.rng
        body, options = self.form()
        if "ANSI_QUOTES" in mode and rng.random() < 0.5:
            body = body.replace("`", '"')
        head = rng.choice(("CREATE TABLE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
        if not self.mysql and rng.random() < 0.1:
            head = "CREATE OR REPLACE TABLE"
        database = rng.choice((self.database, self.database, self.other))
        return self.run(f"{head} {q(database)}.{q(self.fresh())} ({body}){options}")

    def create_of_select(self) -> bool:
        """CREATE TABLE … SELECT, LIKE and their kin, with names and labels of the session's charset."""
        rng, tables = self.rng, self.tables()
        if not tables:
            return False
        source, name = rng.choice(tables), f"{q(self.database)}.{q(self.fresh())}"
        path = f"{q(source[0])}.{q(source[1])}"
        columns = [q(c.name) for c in self.columns(source) if "?" not in c.type]
        if len(columns) < len(self.columns(source)):
            # The server writes `?` for what is outside the BMP: readers refuse such labels, and must.
            return self.run(f"CREATE TABLE {name} LIKE {path}")
        some = ", ".join(rng.sample(columns, rng.randint(1, len(columns)))) if columns else "1"
        alias = q(rng.choice(NAMES))
        replace = "" if self.mysql or rng.random() < 0.8 else " OR REPLACE"
        label = self.label()
        if max(label) > "\uffff":
            label = "'ü'"
        return self.run(
            rng.choice(
                (
                    f"CREATE{replace} TABLE {name} SELECT * FROM {path}",
                    f"CREATE{replace} TABLE {name} AS SELECT {some} FROM {path} LIMIT 5",
                    f"CREATE TABLE {name} SELECT 'ü表' AS {alias}, 1 AS x FROM {path}",
                    f"CREATE TABLE {name} ({alias} ENUM({label}, 'x1')) SELECT 'x1' AS {alias}",
                    f"CREATE TABLE {name} (y VARCHAR(9)) CHARSET {rng.choice(CHARSETS)} SELECT {some}"
                    f" FROM {path}",
                    f"CREATE TABLE IF NOT EXISTS {name} ENGINE=MyISAM SELECT {some} FROM {path}",
                    f"CREATE TABLE {name} LIKE {path}",
                    f"CREATE TABLE IF NOT EXISTS {path} SELECT 1 AS z",
                    f"CREATE TABLE IF NOT EXISTS {path} (nothing INT)",
                    f"CREATE TABLE {name} SELECT s.*, 1 + 1 AS {q('zwei ü')} FROM {path} AS s",
                )
            )
        )
