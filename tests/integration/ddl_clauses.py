"""Random CREATE and ALTER TABLE statements of every form that servers read, also those that few people write."""

from __future__ import annotations

import random

CHARSETS = (
    *("utf8mb4", "latin1", "utf8", "utf8mb3", "ascii", "cp1251", "ucs2", "utf16", "utf32", "gbk", "sjis"),
    *("swe7", "binary", "hebrew", "tis620", "big5", "koi8r", "utf16le", "armscii8", "geostd8", "ujis"),
)  # fmt: skip
COLLATIONS = (
    *("utf8mb4_bin", "utf8_bin", "latin1_swedish_ci", "latin1_bin", "ucs2_bin", "binary", "swe7_bin"),
    *("cp1251_bin", "utf8mb4_general_ci", "uca1400_ai_ci", "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_ai_ci"),
    *("utf8mb3_general_ci", "ascii_bin", "gbk_bin", "DEFAULT"),
)  # fmt: skip
SQL_MODES = (
    *("", "", "", "STRICT_ALL_TABLES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT"),
    *("REAL_AS_FLOAT", "IGNORE_SPACE", "ANSI", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "ORACLE", "MAXDB"),
    *("NO_ZERO_DATE", "NO_TABLE_OPTIONS,NO_FIELD_OPTIONS,NO_KEY_OPTIONS"),
)  # fmt: skip
NAMES = (
    "a",
    "b",
    "c",
    "d",
    "`e f`",
    "`select`",
    "x1",
    "`g``h`",
    "größe",
    "`Ж`",
    "first",
    "vector",
    "`p.q`",
)
LABELS = (
    *("'a'", "'b'", "'c '", "'d  '", "''", "'é'", "'ж'", "'日'", "'{'", "'b\\\\s'", "'x''y'", "'x\\'z'", "'~'"),
    *("'[q]'", "'^'", "'|'", "'`'", "'€'", "'q\"r'", "0x63", "x'6261'", "x'7B20'", "b'01100001'"),
    *("0xE9", "x'C3A9'", "'u'", "'xy '", "'t\\tt'", "'%\\%'", "'A'", "'😀'", "' lead'", "'?'"),
    *("0b1100110", "X'41'", "0x0", "'\\\\'", "'@'", "'#'", "'$'"),
)  # fmt: skip


class Clauses:
    """Makes statements for one server.

    Args:
        rng: chooses.
        flavor: ``mysql`` or ``mariadb``.
    """

    def __init__(self, rng: random.Random, flavor: str) -> None:
        self.rng, self.mariadb = rng, flavor == "mariadb"
        self.names: list[str] = []

    def pick(self, *items: str) -> str:
        return self.rng.choice(items)

    def maybe(self, text: str, chance: float = 0.3) -> str:
        return text if self.rng.random() < chance else ""

    def group(self) -> tuple[list[str | tuple[str, ...]], str]:
        """Statements of one session, and the character set of its database.

        Of several in a tuple the first counts that the server takes.
        """
        rng = self.rng
        found: list[str | tuple[str, ...]] = [f"SET sql_mode = '{rng.choice(SQL_MODES)}'"]
        if rng.random() < 0.15:
            found.append(f"SET collation_connection = '{rng.choice(COLLATIONS)}'")
        if rng.random() < 0.1 and not self.mariadb:
            found.append(
                "SET sql_require_primary_key = OFF, sql_generate_invisible_primary_key = ON"
            )
        if rng.random() < 0.2:
            found.append("SET explicit_defaults_for_timestamp = " + self.pick("0", "1"))
        self.names = []
        found.append(
            "CREATE TABLE u (a INT, b VARCHAR(9), e ENUM('ж','q '))" + self.maybe(" CHARSET cp1251")
        )
        for _ in range(2):
            found.append(tuple(self.create() for _ in range(12)))
        for _ in range(6):
            make = self.alter if rng.random() < 0.8 else self.other
            found.append(tuple(make() for _ in range(8)))
        return found, rng.choice(CHARSETS[:12])

    def number(self, top: int = 30) -> str:
        one = str(self.rng.randint(1, top))
        return one if self.rng.random() < 0.85 else one + self.pick(".2", ".9", ".", ".0")

    def charset(self) -> str:
        word = self.pick("CHARACTER SET", "CHARSET", "CHARACTER  SET", "char set")
        name = self.rng.choice(CHARSETS)
        return f"{word} {self.pick(name, name, name.upper(), f'`{name}`')}"

    def type(self) -> str:
        rng, n = self.rng, self.number
        kind = rng.randrange(8)
        if kind == 0:
            return self.pick(
                f"INT({n()})", "INTEGER", "TINYINT(1)", "BOOL", "BOOLEAN", "INT1", "INT2", "INT3", "INT4", "INT8",
                "MIDDLEINT", "MEDIUMINT", "SMALLINT", "BIGINT", "SERIAL", "SIGNED", f"BIT({n(60)})", "BIT",
            ) + self.maybe(self.pick(" UNSIGNED", " ZEROFILL", " UNSIGNED ZEROFILL", " SIGNED",
            " ZEROFILL SIGNED"))  # fmt: skip
        if kind == 1:
            return self.pick(
                f"DECIMAL({n()})", f"DEC({n()}, {rng.randint(0, 5)})", "NUMERIC", "FIXED", "DECIMAL", f"NUMBER({n()})",
                "NUMBER", f"FLOAT({n(53)})", "FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "DOUBLE PRECISION", "REAL",
                f"FLOAT({n(9)},{rng.randint(0, 3)})", f"REAL({n(9)},2)", "DOUBLE(9,3)", f"DECIMAL({n()}.{n(3)})",
                "DECIMAL(0)", "DECIMAL(65,30)", "DECIMAL(0,0)",
            ) + self.maybe(self.pick(" UNSIGNED", " ZEROFILL", " SIGNED"))  # fmt: skip
        if kind == 2:
            return self.pick(
                "DATE", "TIME", f"TIME({n(6)})", f"DATETIME({n(6)})", "DATETIME", "TIMESTAMP", f"TIMESTAMP({n(6)})",
                "YEAR", "YEAR(4)", "YEAR(2)", "TIMESTAMP(0)", "SQL_TSI_YEAR", "mariadb_schema.DATE",
            )  # fmt: skip
        if kind in (3, 4):
            return self.pick(
                f"CHAR({n()})", "CHAR", f"VARCHAR({n(300)})", f"CHARACTER VARYING({n()})", f"CHAR VARYING({n()})",
                "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", f"TEXT({n(70000)})", "LONG", "LONG VARCHAR",
                "LONG CHAR VARYING", f"NATIONAL CHAR({n()})", f"NATIONAL VARCHAR({n()})", f"NCHAR({n()})", "NCHAR",
                f"NVARCHAR({n()})", f"NCHAR VARCHAR({n()})", f"NCHAR VARYING({n()})",
                f"NATIONAL CHARACTER VARYING({n()})",
                f"VARCHAR2({n()})", f"VARCHARACTER({n()})", f"VARCHAR({rng.randint(16000, 70000)})", "CLOB", "JSON",
                f"NATIONAL CHARACTER({n()})", f"CHAR({n()} CHAR)", f"VARCHAR2({n()} BYTE)",
            ) + self.attributes_of_text()  # fmt: skip
        if kind == 5:
            word = self.pick("ENUM", "SET", "enum ")
            labels = rng.sample(LABELS, rng.randint(1, 4))
            return f"{word}({', '.join(labels)})" + self.attributes_of_text()
        if kind == 6:
            return self.pick(
                f"BINARY({n()})", "BINARY", f"VARBINARY({n()})", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB",
                f"BLOB({n(70000)})", "LONG VARBINARY", f"RAW({n()})", "CHAR BYTE", f"CHAR({n()}) BYTE", "LONG RAW",
                f"VARBINARY({rng.randint(60000, 70000)})",
            ) + self.maybe(f" COLLATE {rng.choice(COLLATIONS)}", 0.25)  # fmt: skip
        return self.pick(
            "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "GEOMETRYCOLLECTION", "GEOMCOLLECTION", "POINT SRID 4326",
            "MULTIPOINT", "VECTOR(3)", "VECTOR", "UUID", "INET4", "INET6", "XMLTYPE", "POINT REF_SYSTEM_ID=4326",
            "JSON",
        )  # fmt: skip

    def attributes_of_text(self) -> str:
        return self.maybe(
            " "
            + self.pick(
                self.charset(), self.charset(), "BINARY", "ASCII", "UNICODE", "BYTE", "BINARY ASCII", "ASCII BINARY",
                "UNICODE BINARY", f"{self.charset()} BINARY", f"BINARY {self.charset()}", "COMPRESSED",
                f"COLLATE {self.rng.choice(COLLATIONS)}", "CHARACTER SET DEFAULT",
            ),
            0.5,
        )  # fmt: skip

    def attributes(self) -> str:
        rng = self.rng
        options = [
            "NULL", "NOT NULL", "NOT NULL", "DEFAULT NULL", "DEFAULT 1", "DEFAULT '1'", "DEFAULT (1 + 1)",
            "DEFAULT x'41'",
            "DEFAULT _latin1'a'", "DEFAULT (concat('a', 'b'))", "COMMENT 'NOT NULL'", 'COMMENT "x"', "UNIQUE",
            "UNIQUE KEY",
            "PRIMARY KEY", "KEY", "AUTO_INCREMENT", "INVISIBLE", "VISIBLE", "CHECK (1 = 1)", "CONSTRAINT CHECK (1 = 1)",
            "CONSTRAINT k1 CHECK (1 = 1) NOT ENFORCED", "DEFAULT CURRENT_TIMESTAMP", "DEFAULT NOW() ON UPDATE NOW()",
            "ON UPDATE CURRENT_TIMESTAMP", "COLUMN_FORMAT FIXED", "STORAGE DISK", "REFERENCES u (a) ON DELETE SET NULL",
            "GENERATED ALWAYS AS (1 + 1)", "AS (1) VIRTUAL", "AS (1) STORED", "AS (1) PERSISTENT",
            "SERIAL DEFAULT VALUE",
            f"COLLATE {rng.choice(COLLATIONS)}", "/* NOT NULL */", "/*!50000 NOT NULL */", "/*M! NOT NULL */",
            "/*!100000 NOT NULL */", "/*!999999 NOT NULL */", "/*!50701 INVISIBLE */", "WITHOUT SYSTEM VERSIONING",
            "DEFAULT TRUE", "DEFAULT -1", "DEFAULT b'1'", "DEFAULT DATE '2020-01-01'", "ENGINE_ATTRIBUTE '{}'",
            "DEFAULT (uuid())", "NOT SECONDARY", "SRID 0", "DEFAULT ''", "NOT NULL NULL", "NULL NOT NULL", "COMPRESSED",
            "DEFAULT 'a' 'b'", "-- x\n", "# y\n", "DEFAULT N'x'", "MYATTR=1", "`quoted`='x'",
        ]  # fmt: skip
        return "".join(f" {one}" for one in rng.sample(options, rng.choice((0, 0, 1, 1, 2, 3))))

    def name(self, *, known: float = 0.0) -> str:
        name = self.pick(*NAMES)
        if self.names and self.rng.random() < known:
            name = self.rng.choice(self.names)
        return name

    def column(self, name: str = "") -> str:
        name = name or self.name()
        self.names.append(name)
        return f"{self.maybe('t.', 0.03)}{name} {self.type()}{self.attributes()}"

    def options(self) -> str:
        rng = self.rng
        found = [
            f"DEFAULT {self.charset()}", self.charset(), f"COLLATE {rng.choice(COLLATIONS)}", "ENGINE=InnoDB",
            "COMMENT='x'",
            f"CHARSET = {rng.choice(CHARSETS)}", "ROW_FORMAT = DYNAMIC", "WITH SYSTEM VERSIONING", "ENGINE = MyISAM",
            "PARTITION BY HASH (1) PARTITIONS 2", "DEFAULT COLLATE = latin1_bin", "AUTO_INCREMENT 5",
            "STATS_PERSISTENT=1",
            f"CHARACTER SET {rng.choice(CHARSETS)} COLLATE {rng.choice(COLLATIONS)}", "/*!50100 CHARSET latin1 */",
        ]  # fmt: skip
        return " " + self.pick(" ", ", ").join(rng.sample(found, rng.choice((0, 0, 1, 2))))

    def definitions(self) -> str:
        rng = self.rng
        parts = [self.column() for _ in range(rng.randint(1, 4))]
        name = rng.choice(self.names)
        extra = [
            f"PRIMARY KEY ({name})", f"KEY k ({name})", f"UNIQUE ({name})",
            f"CONSTRAINT PRIMARY KEY USING BTREE ({name})",
            f"PRIMARY KEY pk ({name}(3))", "CHECK (1 = 1)", f"INDEX ({name} DESC)",
            "ps DATE, pe DATE, PERIOD FOR p (ps, pe)",
            "s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, "
            "PERIOD FOR SYSTEM_TIME (s, e)",
            f"ps DATE, pe DATE, PERIOD FOR p (ps, pe), PRIMARY KEY ({name}, p WITHOUT OVERLAPS)", "FULLTEXT KEY ft (b)",
            f"FOREIGN KEY ({name}) REFERENCES u (a)", f"CONSTRAINT cc CHECK ({name} IS NOT NULL)",
            f"PRIMARY KEY ((({name})))",
        ]  # fmt: skip
        if rng.random() < 0.35:
            parts.append(rng.choice(extra))
        if rng.random() < 0.1:
            rng.shuffle(parts)
        return ", ".join(parts)

    def create(self) -> str:
        table = self.pick("t", "t", "d.t", "`t`", "t2")
        head = "CREATE " + self.maybe(self.pick("OR REPLACE ", "TEMPORARY "), 0.08) + "TABLE "
        head += self.maybe("IF NOT EXISTS ", 0.1) + table + self.pick("", " ")
        form = self.rng.random()
        if form < 0.07:
            return f"{head} {self.pick('LIKE u', '(LIKE u)', 'LIKE d.u')}"
        if form < 0.1:
            return f"{head} AS SELECT a, b, e FROM u"
        return f"{head}({self.definitions()}){self.options()}"

    def alter(self) -> str:
        clauses = [self.clause() for _ in range(self.rng.choice((1, 1, 2, 2, 3)))]
        head = "ALTER " + self.maybe(self.pick("IGNORE ", "ONLINE "), 0.05) + "TABLE "
        head += self.maybe("IF EXISTS ", 0.05) + self.pick("t", "t", "t", "d.t", "t2")
        return f"{head} {self.pick(', ', ',').join(clauses)}"

    def place(self) -> str:
        if self.rng.random() < 0.6:
            return ""
        return self.pick(" FIRST", f" AFTER {self.name(known=0.95)}")

    def clause(self) -> str:
        known, column = self.name(known=0.95), self.maybe("COLUMN ", 0.4)
        one, other = self.name(known=0.9), self.name()
        form = self.rng.randrange(22)
        if form <= 2:
            return f"ADD {column}{self.maybe('IF NOT EXISTS ', 0.1)}{self.column()}{self.place()}"
        if form <= 5:
            qualified = self.maybe(self.pick("t.", "d.t."), 0.1)
            return f"MODIFY {column}{self.maybe('IF EXISTS ', 0.1)}{qualified}{self.column(known)}{self.place()}"
        if form <= 7:
            qualified = self.maybe("t.", 0.15)
            head = f"CHANGE {column}{self.maybe('IF EXISTS ', 0.1)}{qualified}{known}"
            return f"{head} {self.column(other)}{self.place()}"
        if form == 8:
            return f"DROP {column}{self.maybe('IF EXISTS ', 0.2)}{known}"
        if form <= 10:
            self.names.append(other)
            return f"RENAME COLUMN {known} TO {other}" + self.maybe(
                f", RENAME COLUMN {one} TO {known}", 0.4
            )
        if form == 11:
            return f"ADD {column}({self.column()}, {self.column()})"
        if form == 12:
            return f"CONVERT TO {self.charset()}" + self.maybe(
                f" COLLATE {self.rng.choice(COLLATIONS)}", 0.2
            )
        if form == 13:
            return self.options().strip() or "FORCE"
        if form == 14:
            return f"ALTER {column}{known} SET {self.pick('DEFAULT 1', 'INVISIBLE', 'VISIBLE', 'DEFAULT (2)')}"
        if form == 15:
            return f"ALTER {column}{known} DROP DEFAULT"
        if form == 16:
            return self.pick(
                f"ADD PRIMARY KEY ({known})",
                "DROP PRIMARY KEY",
                f"ADD UNIQUE ({known})",
                f"ADD INDEX ({known})",
            )
        if form == 17:
            return self.pick(
                f"ORDER BY {known}, {one} DESC",
                "ENGINE = InnoDB",
                "ALGORITHM=COPY",
                "LOCK = DEFAULT",
                "FORCE",
            )
        if form == 18:
            return self.pick(
                "ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING", "CONVERT TO CHARACTER SET DEFAULT",
                "DEFAULT CHARACTER SET DEFAULT",
                "ADD CONSTRAINT c9 CHECK (1 = 1)", "DROP CONSTRAINT c9", "PARTITION BY HASH (1)", "REMOVE PARTITIONING",
                f"ADD PERIOD FOR p ({known}, {one})", "DROP PERIOD FOR p", "ADD PARTITION PARTITIONS 2", "DROP INDEX k",
            )  # fmt: skip
        if form == 19:
            return f"RENAME {self.pick('TO ', 'AS ', '')}{self.pick('t', 't2', 'd.t3')}"
        if form == 20:
            return f"CHANGE {known} {one} {self.type()}, CHANGE {one} {known} {self.type()}"
        return f"ADD c9 INT AFTER {known}, MODIFY {known} {self.type()} AFTER c9"

    def other(self) -> str:
        return self.pick(
            "RENAME TABLE t TO x9, t2 TO t, x9 TO t2", "RENAME TABLE t TO t9", "RENAME TABLE t9 TO t", "TRUNCATE t",
            "DROP TABLE IF EXISTS t2", "CREATE OR REPLACE TABLE t LIKE u", "CREATE TABLE t5 LIKE t",
            "CREATE SEQUENCE s1 AS INT",
            "CREATE SEQUENCE s2 AS SMALLINT UNSIGNED START 5", "CREATE OR REPLACE SEQUENCE s1 INCREMENT 5",
            "ALTER DATABASE d CHARSET latin1",
            "CREATE TABLE t6 SELECT * FROM t", "CREATE INDEX i9 ON t (a)", "DROP INDEX i9 ON t",
            "ALTER SEQUENCE s1 AS BIGINT",
            "CREATE SEQUENCE s3 INCREMENT 2 AS TINYINT", "ALTER SEQUENCE s1 MAXVALUE 99",
            "CREATE VIEW v AS SELECT 1", "DROP VIEW v",
            "CREATE TABLE s4 (next_not_cached_value BIGINT NOT NULL) SEQUENCE=1",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @x=1",
        )  # fmt: skip
