"""The forms of definitions that are tried on every server."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Final

from tests.integration.definition_forms import Form


def _t(name: str, columns: str, options: str = "", **more: object) -> Form:
    return Form(name, (f"CREATE TABLE t ({columns}) {options}",), **more)  # type: ignore[arg-type]


_EIGHT = {"flavor": "mysql", "since": (8, 0)}
_MARIA = {"flavor": "mariadb"}
_OLD = {"flavor": "mysql", "before": (8, 0)}
_OLD_MODES = (
    *("DB2", "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "POSTGRESQL"),
    *("NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS"),
)

_KEYS: Final = (
    _t("auto_increment unique", "id INT AUTO_INCREMENT UNIQUE, a INT"),
    _t("auto_increment key", "id INT AUTO_INCREMENT, KEY(id), a INT"),
    _t("auto_increment null", "id INT NULL AUTO_INCREMENT UNIQUE, a INT"),
    _t("auto_increment then null", "id INT AUTO_INCREMENT NULL UNIQUE, a INT"),
    _t("auto_increment primary", "id INT AUTO_INCREMENT PRIMARY KEY"),
    _t("serial", "id SERIAL"),
    _t("serial default value", "id INT SERIAL DEFAULT VALUE, a INT"),
    _t("nullable serial default value", "id INT NULL SERIAL DEFAULT VALUE, a INT"),
    _t("unique columns", "id INT UNIQUE, b INT UNIQUE KEY NOT NULL"),
    _t("nullable primary", "id INT NULL DEFAULT NULL, a INT PRIMARY KEY"),
    Form(
        "added auto_increment",
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD id INT AUTO_INCREMENT UNIQUE"),
    ),
    Form(
        "changed to auto_increment",
        ("CREATE TABLE t (a INT, KEY(a))", "ALTER TABLE t MODIFY a BIGINT AUTO_INCREMENT"),
    ),
    Form(
        "auto_increment taken away",
        ("CREATE TABLE t (a INT AUTO_INCREMENT UNIQUE, b INT)", "ALTER TABLE t MODIFY a INT"),
    ),
    Form(
        "primary key dropped",
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT)", "ALTER TABLE t DROP PRIMARY KEY"),
    ),
    *(
        Form(
            f"primary key dropped by {statement}",
            ("CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY i (b))", statement, *others),
        )
        for statement, *others in (
            ("ALTER TABLE t DROP INDEX `PRIMARY`",),
            ("ALTER TABLE t DROP KEY `primary`, ADD c INT",),
            ("DROP INDEX `Primary` ON t",),
            ("DROP INDEX i ON t", "ALTER TABLE t ADD KEY j (b), DROP KEY `PRIMARY`"),
        )
    ),
    Form(
        "unique key dropped as a constraint",
        (
            "CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY i (b))",
            "ALTER TABLE t ADD CONSTRAINT u UNIQUE (b)",
            "ALTER TABLE t DROP CONSTRAINT u",
        ),
        since=(8, 0),
    ),
    Form(
        "primary key added",
        ("CREATE TABLE t (a INT, b INT NULL)", "ALTER TABLE t ADD PRIMARY KEY (b)"),
    ),
    _t(
        "foreign",
        "id INT PRIMARY KEY, p INT REFERENCES t (id), CONSTRAINT f FOREIGN KEY (p) REFERENCES t (id)",
    ),
)
_NUMBERS: Final = (
    _t(
        "decimals",
        "a DECIMAL, b DECIMAL(5), c DECIMAL(65,30), d NUMERIC(0), e DEC(3,3) UNSIGNED, f FIXED(7,0) ZEROFILL",
    ),
    _t(
        "decimal of 38 digits",
        "a DECIMAL(39,33) DEFAULT -123456.123456789012345678901234567890123, b DECIMAL(65,38) DEFAULT 123456789012345678901234567.12345678901234567890123456789012345678, c DECIMAL(38,38) DEFAULT 0.98765432109876543210987654321098765432",
        **_MARIA,
    ),
    _t(
        "integers",
        "a INT1, b INT2, c INT3, d INT4, e INT8, f MIDDLEINT, g BOOL, h BOOLEAN, i INTEGER(3) ZEROFILL",
    ),
    _t(
        "floats",
        "a FLOAT, b FLOAT(7,3), c FLOAT(53), d DOUBLE PRECISION, e REAL, f FLOAT4, g FLOAT8, h DOUBLE(9,2) UNSIGNED",
    ),
    _t("real as float", "a REAL, b REAL(7,2)", mode="REAL_AS_FLOAT"),
    _t("bits", "a BIT, b BIT(1), c BIT(64), d BIT(9) NOT NULL"),
    _t("years", "a YEAR, b YEAR(4)"),
    _t("years with signs", "a YEAR UNSIGNED, b YEAR(4) ZEROFILL, c YEAR SIGNED NOT NULL"),
    _t("signed", "a INT SIGNED, b BIGINT SIGNED NOT NULL, c INT UNSIGNED ZEROFILL"),
)
_TIMES: Final = (
    _t(
        "temporal",
        "a DATE, b TIME, c TIME(6), d DATETIME, e DATETIME(3), f TIMESTAMP NULL, g TIMESTAMP(6) NULL",
    ),
    _t(
        "timestamps",
        "a TIMESTAMP, b TIMESTAMP NOT NULL, c TIMESTAMP DEFAULT 0, d TIMESTAMP NULL DEFAULT NULL",
    ),
    _t(
        "explicit timestamps",
        "a TIMESTAMP, b TIMESTAMP NOT NULL DEFAULT '2020-01-01', c TIMESTAMP NULL",
        settings=("SET explicit_defaults_for_timestamp=1",),
        since=(8, 0),
    ),
    _t(
        "timestamp of MAXDB",
        "a TIMESTAMP, b TIMESTAMP NULL, c DATETIME, d TIMESTAMP(3)",
        mode="MAXDB",
        **_MARIA,
    ),
    Form(
        "timestamp of MAXDB altered",
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD b TIMESTAMP, ADD c TIMESTAMP NULL"),
        mode="MAXDB",
        **_MARIA,
    ),
    _t(
        "timestamp of MAXDB, 5.6", "a TIMESTAMP, b TIMESTAMP NULL, c DATETIME", mode="MAXDB", **_OLD
    ),
    _t(
        "maxdb_schema",
        "a maxdb_schema.TIMESTAMP, b mariadb_schema.TIMESTAMP NULL",
        since=(10, 11),
        **_MARIA,
    ),
    _t(
        "on update",
        "a TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, b DATETIME(2) DEFAULT NOW(2) ON UPDATE NOW(2)",
    ),
)
_MODES: Final = (
    _t("ansi quotes", '"a b" INT, "e" ENUM(\'x\')', mode="ANSI_QUOTES"),
    _t("ansi", '"a" REAL, b TEXT', mode="ANSI"),
    _t("no backslash escapes", "e ENUM('a\\\\', '\\n', 'x')", mode="NO_BACKSLASH_ESCAPES"),
    _t("backslash escapes", "e ENUM('a\\\\', '\\n', '\\%', '\\x', '\\0', \"q'\", 'd''d')"),
    _t("ignore space", "a INT, b DECIMAL (5,2)", mode="IGNORE_SPACE"),
    _t("pad char", "a CHAR(3), e ENUM('a  ', 'b')", mode="PAD_CHAR_TO_FULL_LENGTH"),
    _t(
        "oracle",
        "a NUMBER(5), b VARCHAR2(10), c DATE, d CLOB, e RAW(9), f BLOB, g NUMBER",
        mode="ORACLE",
        **_MARIA,
    ),
    *(
        _t(
            f"mode {mode}",
            "a TEXT, b VARCHAR(9), e ENUM('ü','b'), r REAL, ts TIMESTAMP NULL",
            mode=mode,
            **_MARIA,
        )
        for mode in (*_OLD_MODES, "ANSI", "TRADITIONAL")
    ),
    *(
        _t(
            f"mode {mode} 5.6",
            "a TEXT, b VARCHAR(9), e ENUM('ü','b'), r REAL, ts TIMESTAMP NULL",
            mode=mode,
            **_OLD,
        )
        for mode in (*_OLD_MODES, "ANSI", "TRADITIONAL")
    ),
)
_CTAS_IN_MODES: Final = (
    ({}, ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES")),
    (_MARIA, ("ORACLE", *_OLD_MODES)),
    (_OLD, _OLD_MODES),
)
_CTAS_MODES: Final = tuple(
    Form(
        f"select under {mode}",
        (
            "CREATE TABLE s (a VARCHAR(9) CHARACTER SET utf8, e ENUM('ü','b','c''d','x\\y','n\nl', '\"') CHARACTER SET utf8, c CHAR(3) CHARACTER SET cp1251, i INT, ts TIMESTAMP NULL)",
            "CREATE TABLE t SELECT * FROM s",
            "CREATE TABLE u CHARACTER SET latin1 SELECT * FROM s",
            "CREATE TABLE v (z VARCHAR(7) CHARACTER SET koi8r) SELECT a, e FROM s",
            "CREATE TABLE w SELECT i + 1 AS n, CURRENT_TIMESTAMP AS ts, NULL AS nil FROM s",
            "CREATE TABLE x LIKE s",
        ),
        mode=mode,
        in_files=mode not in ("MYSQL40", "MYSQL323"),
        **settings,  # type: ignore[arg-type]
    )
    for settings, modes in _CTAS_IN_MODES
    for mode in modes
)
# A literal has the character set of its table, which these modes leave out of the statement that is logged.
_CTAS_LITERALS: Final = tuple(
    Form(
        f"literal under {mode}",
        (
            "CREATE TABLE s (i INT)",
            "INSERT INTO s VALUES (1)",
            "CREATE TABLE w SELECT 'x' AS lit, i + 1 AS n FROM s",
            "CREATE TABLE v CHARACTER SET latin1 SELECT 'x' AS lit FROM s",
        ),
        mode=mode,
        in_files=settings == {},
        **settings,  # type: ignore[arg-type]
    )
    for settings, modes in _CTAS_IN_MODES
    for mode in modes
)


def _session(charset: str, text: str) -> tuple[Form, ...]:
    columns = f"`{text}` INT, e ENUM('{text}', 'b') CHARACTER SET utf8 DEFAULT '{text}', c CHAR(3) DEFAULT 'a' COMMENT '{text}'"
    return (
        Form(
            f"{charset}: create",
            (f"CREATE TABLE `t{text}` ({columns}) COMMENT '{text}'",),
            charset=charset,
        ),
        Form(
            f"{charset}: select",
            (
                f"CREATE TABLE s ({columns}) COMMENT '{text}'",
                f"CREATE TABLE `t{text}` (k ENUM('{text}', 'q') CHARACTER SET utf8) COMMENT '{text}' SELECT * FROM s",
                f"CREATE TABLE u SELECT 1 AS `{text}`",
                f"CREATE TABLE w (k ENUM('{text}', 'q') CHARACTER SET utf8) SELECT `{text}` FROM s WHERE 0",
            ),
            charset=charset,
        ),
        Form(
            f"{charset}: like a temporary one",
            (
                f"CREATE TEMPORARY TABLE `s{text}` ({columns})",
                f"CREATE TABLE `t{text}` LIKE `s{text}`",
                f"CREATE TABLE `u{text}` LIKE `t{text}`",
                f"CREATE TABLE v (k ENUM('{text}', 'q') CHARACTER SET utf8) SELECT * FROM `s{text}`",
            ),
            charset=charset,
            in_files=False,  # the CREATE TABLE that is logged lacks the temporary table's character set
        ),
        Form(
            f"{charset}: dropped with a temporary one and made again",
            (
                f"CREATE TABLE `t{text}` (a INT, b INT)",
                f"CREATE TEMPORARY TABLE `s{text}` (a INT)",
                f"DROP TABLE `t{text}`, `s{text}`",
                f"CREATE TABLE IF NOT EXISTS `t{text}` (c INT, d INT)",
            ),
            charset=charset,
        ),
        Form(
            f"{charset}: altered and renamed",
            (
                f"CREATE TABLE `t{text}` (a INT)",
                f"ALTER TABLE `t{text}` ADD `{text}` ENUM('{text}') CHARACTER SET utf8 FIRST",
                f"RENAME TABLE `t{text}` TO `u{text}`",
                f"ALTER TABLE `u{text}` CHANGE `{text}` `{text}2` SET('x', '{text}') CHARACTER SET utf8",
            ),
            charset=charset,
        ),
        Form(
            f"{charset}: replaced",
            (
                f"CREATE TABLE `t{text}` (a INT PRIMARY KEY)",
                f"CREATE OR REPLACE TABLE `t{text}` (a INT PRIMARY KEY) SELECT 7 AS `{text}`",
                f"CREATE SEQUENCE `q{text}`",
                f"DROP SEQUENCE `q{text}`",
            ),
            charset=charset,
            **_MARIA,
        ),
        Form(
            f"{charset}: mixed format",
            (
                "SET binlog_format = MIXED",
                f"CREATE TABLE t (e ENUM('{text}') CHARACTER SET utf8) SELECT UUID() AS `{text}`",
                f"CREATE TABLE `u{text}` (a ENUM('{text}') CHARACTER SET utf8)",
            ),
            charset=charset,
        ),
        Form(
            f"{charset}: generated key",
            (f"CREATE TABLE `t{text}` (`{text}` INT, e ENUM('{text}', 'x') CHARACTER SET utf8)",),
            charset=charset,
            settings=("SET sql_generate_invisible_primary_key = ON",),
            in_files=False,
            **_EIGHT,
        ),
    )


_SESSIONS: Final = (
    *(
        form
        for charset, text in (
            ("utf8mb4", "ü"),
            ("latin1", "ü"),
            ("gbk", "表"),
            ("sjis", "表"),
            ("cp1251", "ж"),
        )
        for form in _session(charset, text)
    ),
    *(
        form
        for charset, text in (
            *(
                ("utf8", "ü"),
                ("big5", "功"),
                ("koi8r", "ж"),
                ("ujis", "表"),
                ("euckr", "한"),
                ("cp850", "ü"),
            ),
            *(
                ("latin2", "ő"),
                ("greek", "λ"),
                ("hebrew", "ש"),
                ("cp932", "ソ"),
                ("gb2312", "表"),
                ("tis620", "ก"),
            ),
        )
        for form in _session(charset, text)[:2]
    ),
)
_LABELS: Final = (
    _t(
        "labels outside the BMP",
        "e ENUM('🐟', '?', '🐠'), s SET('🐟', '?', '𠀀')",
        "CHARACTER SET utf8mb4",
        in_listings=False,
    ),
    _t("one label outside the BMP", "e ENUM('🐟')", "CHARACTER SET utf8mb4", in_listings=False),
    _t("question marks", "e ENUM('?', '??', 'a?')", "CHARACTER SET utf8mb4", in_listings=False),
    _t(
        "outside the BMP in other sets",
        "e ENUM('🐟x', 'y') CHARACTER SET utf16, f ENUM('🐟z') CHARACTER SET utf32, g SET('🐟') CHARACTER SET utf16le",
        in_listings=False,
    ),
    _t(
        "outside the BMP in gb18030",
        "e ENUM('🐟x', 'y') CHARACTER SET gb18030",
        in_listings=False,
        **_EIGHT,
    ),
    _t(
        "comments outside the BMP",
        "a INT COMMENT '🐟', b VARCHAR(9) DEFAULT '🐟', e ENUM('🐟', 'b') DEFAULT '🐟'",
        "COMMENT '🐟'",
        in_listings=False,
    ),
    _t("labels that a set lacks", "e ENUM('ä', 'ж', 'b') CHARACTER SET latin1"),
    _t(
        "labels of wide sets",
        "e ENUM('ä', 'ж') CHARACTER SET ucs2, f SET('x', 'ß') CHARACTER SET utf32",
    ),
    _t("labels of bytes", "e ENUM('a', 'b') CHARACTER SET binary"),
    _t(
        "labels with commas and quotes",
        "e ENUM('a,b', 'c''d', '\"', ')', '(', '`'), s SET('x', 'y z', '''')",
    ),
    _t("hundreds of labels", "e ENUM(" + ", ".join(f"'l{n}'" for n in range(300)) + ")"),
    _t("labels with spaces", "e ENUM('a ', ' b', 'c\td '), s SET(' x ', 'y ')"),
    Form(
        "labels outside the BMP altered",
        (
            "CREATE TABLE t (a INT) CHARACTER SET utf8mb4",
            "ALTER TABLE t ADD e ENUM('🐟', '🐠', '?'), ADD f INT",
        ),
        in_listings=False,
    ),
    Form(
        "labels of a converted table",
        (
            "CREATE TABLE t (e ENUM('ä', 'b') CHARACTER SET utf8mb4)",
            "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
        ),
        in_files=False,
    ),
    Form(
        "selected labels outside the BMP",
        (
            "CREATE TABLE s (e ENUM('🐟x', 'b', '?') CHARACTER SET utf8mb4)",
            "CREATE TABLE t SELECT * FROM s",
        ),
        in_files=False,
        in_listings=False,
    ),
)
_CHARSETS: Final = (
    _t(
        "charset attributes",
        "a CHAR(3) ASCII, b CHAR(3) UNICODE, c NCHAR(3), d NATIONAL VARCHAR(3), e CHAR(3) BINARY, f CHAR(3) BYTE, g TEXT COLLATE latin2_bin",
    ),
    _t("charset of a collation", "a VARCHAR(3)", "COLLATE koi8r_bin"),
    _t("charset of the table", "a VARCHAR(3), b TEXT, c ENUM('ж')", "DEFAULT CHARSET=cp1251"),
    _t(
        "texts of a length",
        "a TEXT(63), b TEXT(64), c TEXT(20000), d BLOB(70000), e TEXT(300) CHARACTER SET latin1",
    ),
    _t("long varchar", "a VARCHAR(20000), b VARBINARY(70000)"),
    _t("longs", "a LONG, b LONG VARCHAR, c LONG VARBINARY, d TINYTEXT, e MEDIUMBLOB"),
    Form(
        "database of latin1",
        ("ALTER DATABASE `{d}` CHARACTER SET latin1", "CREATE TABLE t (a VARCHAR(3), e ENUM('ü'))"),
    ),
    Form(
        "collation_connection",
        ("CREATE TABLE t SELECT 'ü' AS a, CONCAT('a', 1) AS b",),
        settings=("SET collation_connection = latin2_bin",),
    ),
    Form(
        "collation_server",
        (
            "CREATE DATABASE `{d}_2`",
            "CREATE TABLE `{d}_2`.t (a VARCHAR(3), b TEXT)",
            "CREATE TABLE t LIKE `{d}_2`.t",
            "DROP DATABASE `{d}_2`",
        ),
        settings=("SET collation_server = cp1250_bin",),
    ),
    Form(
        "converted",
        (
            "CREATE TABLE t (a VARCHAR(3) CHARACTER SET latin1, b TEXT)",
            "ALTER TABLE t CONVERT TO CHARACTER SET ucs2",
        ),
    ),
    Form(
        "default of the table",
        (
            "CREATE TABLE t (a VARCHAR(3))",
            "ALTER TABLE t DEFAULT CHARACTER SET greek",
            "ALTER TABLE t ADD b CHAR(2)",
        ),
    ),
    _t(
        "uca1400",
        "a VARCHAR(3) COLLATE uca1400_ai_ci, b TEXT CHARACTER SET utf8mb3 COLLATE uca1400_as_cs",
        "COLLATE=utf8mb4_uca1400_ai_ci",
        since=(11, 8),
        **_MARIA,
    ),
    Form(
        "character_set_collations",
        ("CREATE TABLE t (a VARCHAR(3) CHARACTER SET latin1, b TEXT)",),
        settings=("SET character_set_collations = 'latin1=latin1_bin,utf8mb4=utf8mb4_bin'",),
        since=(11, 8),
        **_MARIA,
    ),
    Form("alias utf8", ("CREATE TABLE t (a VARCHAR(3) CHARACTER SET utf8, b NCHAR(3))",)),
)
_PERIODS: Final = (
    _t("implicit versions", "a INT, v VARCHAR(3)", "WITH SYSTEM VERSIONING", **_MARIA),
    _t(
        "explicit versions",
        "a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)",
        "WITH SYSTEM VERSIONING",
        **_MARIA,
    ),
    _t(
        "invisible versions",
        "a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (s, e)",
        "WITH SYSTEM VERSIONING",
        **_MARIA,
    ),
    _t(
        "versioned columns",
        "a INT WITH SYSTEM VERSIONING, b INT WITHOUT SYSTEM VERSIONING",
        **_MARIA,
    ),
    _t("application time", "a INT, s DATE, e DATE, PERIOD FOR p (s, e)", **_MARIA),
    _t(
        "application time of stamps",
        "a INT, s TIMESTAMP(6), e TIMESTAMP(6), PERIOD FOR p (s, e)",
        **_MARIA,
    ),
    _t(
        "application time, nullable said",
        "a INT, s DATETIME NULL DEFAULT NULL, e DATETIME DEFAULT NULL, PERIOD FOR p (s, e)",
        **_MARIA,
    ),
    _t(
        "both periods",
        "a INT, s DATE, e DATE, PERIOD FOR p (s, e)",
        "WITH SYSTEM VERSIONING",
        **_MARIA,
    ),
    Form(
        "application time added",
        ("CREATE TABLE t (a INT, s DATE, e DATE)", "ALTER TABLE t ADD PERIOD FOR p (s, e)"),
        **_MARIA,
    ),
    Form(
        "application time added with columns",
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD s DATE, ADD e DATE, ADD PERIOD FOR p (s, e)"),
        **_MARIA,
    ),
    Form(
        "application time altered",
        (
            "CREATE TABLE t (a INT, s DATE, e DATE, PERIOD FOR p (s, e))",
            "ALTER TABLE t MODIFY s DATETIME, MODIFY e DATETIME",
        ),
        **_MARIA,
    ),
    Form(
        "application time dropped",
        (
            "CREATE TABLE t (a INT, s DATE, e DATE, PERIOD FOR p (s, e))",
            "ALTER TABLE t DROP PERIOD FOR p",
        ),
        **_MARIA,
    ),
    Form(
        "application time like",
        ("CREATE TABLE s (a INT, s DATE, e DATE, PERIOD FOR p (s, e))", "CREATE TABLE t LIKE s"),
        **_MARIA,
    ),
    _t(
        "application key",
        "a INT, s DATE, e DATE, PERIOD FOR p (s, e), PRIMARY KEY (a, p WITHOUT OVERLAPS)",
        **_MARIA,
    ),
    Form(
        "versions added",
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD SYSTEM VERSIONING"),
        **_MARIA,
    ),
    Form(
        "versions added with columns",
        (
            "CREATE TABLE t (a INT)",
            "ALTER TABLE t ADD s TIMESTAMP(6) AS ROW START, ADD e TIMESTAMP(6) AS ROW END, ADD PERIOD FOR SYSTEM_TIME (s, e), ADD SYSTEM VERSIONING",
        ),
        **_MARIA,
    ),
    Form(
        "versions dropped",
        ("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", "ALTER TABLE t DROP SYSTEM VERSIONING"),
        **_MARIA,
    ),
    Form(
        "versions like",
        ("CREATE TABLE s (a INT) WITH SYSTEM VERSIONING", "CREATE TABLE t LIKE s"),
        **_MARIA,
    ),
    Form(
        "versions selected",
        (
            "CREATE TABLE s (a INT) WITH SYSTEM VERSIONING",
            "CREATE TABLE t WITH SYSTEM VERSIONING SELECT * FROM s",
            "CREATE TABLE u SELECT * FROM s",
        ),
        **_MARIA,
    ),
)
_HASHES: Final = (
    _t("unique text", "a INT, b TEXT UNIQUE", **_MARIA),
    _t("unique texts", "a INT, b TEXT, c BLOB, UNIQUE (b), UNIQUE k (c, a)", **_MARIA),
    _t("unique text and a bigint", "a BIGINT, b TEXT UNIQUE, c BIGINT", **_MARIA),
    _t("unique long varchar", "a VARCHAR(3000) CHARACTER SET utf8mb4, UNIQUE (a)", **_MARIA),
    _t("unique by hash", "a INT, b VARCHAR(9), UNIQUE (b) USING HASH", **_MARIA),
    _t("unique text of versions", "a INT, b TEXT UNIQUE", "WITH SYSTEM VERSIONING", **_MARIA),
    _t("unique json", "j JSON, UNIQUE (j)", **_MARIA),
    Form(
        "unique text added",
        ("CREATE TABLE t (a INT, b TEXT)", "ALTER TABLE t ADD UNIQUE (b)"),
        **_MARIA,
    ),
    Form(
        "unique text dropped",
        ("CREATE TABLE t (a INT, b TEXT UNIQUE)", "ALTER TABLE t DROP INDEX b"),
        **_MARIA,
    ),
    Form(
        "unique text and a column added",
        ("CREATE TABLE t (a INT, b TEXT UNIQUE)", "ALTER TABLE t ADD c BIGINT"),
        **_MARIA,
    ),
    Form(
        "unique text like",
        ("CREATE TABLE s (a INT, b TEXT UNIQUE)", "CREATE TABLE t LIKE s"),
        **_MARIA,
    ),
    Form(
        "unique text selected",
        ("CREATE TABLE s (b TEXT)", "CREATE TABLE t (UNIQUE (b)) SELECT * FROM s"),
        **_MARIA,
    ),
    _t("a column of that name", "DB_ROW_HASH_1 BIGINT UNSIGNED, b TEXT", **_MARIA),
    _t(
        "a column of that name and a hash",
        "b TEXT UNIQUE, DB_ROW_HASH_1 BIGINT UNSIGNED INVISIBLE",
        **_MARIA,
    ),
)
_OTHERS: Final = (
    _t(
        "generated",
        "a INT, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a * 2) VIRTUAL, d INT AS (a) STORED NOT NULL",
        **_EIGHT,
    ),
    _t(
        "generated MariaDB",
        "a INT, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a * 2) VIRTUAL, d INT AS (a) PERSISTENT",
        **_MARIA,
    ),
    _t(
        "expressions",
        "a INT DEFAULT (1 + 2), b VARCHAR(9) DEFAULT (concat('a', ',', ')')), c JSON DEFAULT (json_array())",
        since=(8, 0),
    ),
    _t("invisible", "a INT, b INT INVISIBLE", since=(8, 0)),
    _t(
        "checks",
        "a INT CHECK (a > 0), b VARCHAR(9), CONSTRAINT c CHECK (b <> ','), CHECK (a < 5)",
        since=(8, 0),
    ),
    _t("json", "j JSON, k JSON NOT NULL", since=(8, 0)),
    _t("geometries", "a POINT, b GEOMETRY NOT NULL, c MULTIPOLYGON, d GEOMETRYCOLLECTION"),
    _t("uuids", "a UUID, b INET6, c INET4 NOT NULL", **_MARIA),
    _t("vector", "a VECTOR(3)", since=(9, 0), flavor="mysql"),
    _t("vector of MariaDB", "a VECTOR(3) NOT NULL, VECTOR INDEX (a)", since=(11, 8), **_MARIA),
    _t("compressed", "a VARCHAR(99) COMPRESSED, b TEXT COMPRESSED=zlib", **_MARIA),
    _t("comments", "/* c */ a INT, -- x\n b INT COMMENT 'it''s, (a)' /*!50000 NOT NULL */ # y\n"),
    _t(
        "names",
        "`a``b` INT, `select` INT, `x y` INT, `größe` INT, `1` INT, 2a INT, `,` INT, `(` INT",
    ),
    _t(
        "words as names",
        "type INT, date DATE, time TIME, comment TEXT, value INT, period INT, start INT, `end` INT, year YEAR, text TEXT, json INT, bit BIT, enum ENUM('a'), position INT, visible INT, serial INT, sequence INT",
    ),
    _t(
        "partitions",
        "a INT NOT NULL, b VARCHAR(3)",
        "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    ),
    _t(
        "engines",
        "a INT, b VARCHAR(3)",
        "ENGINE=MyISAM DELAY_KEY_WRITE=1 ROW_FORMAT=DYNAMIC MAX_ROWS=9 CHECKSUM=1",
    ),
    _t("memory", "a INT, e ENUM('x')", "ENGINE=MEMORY"),
    _t("aria", "a INT, e ENUM('x')", "ENGINE=Aria TRANSACTIONAL=1 PAGE_CHECKSUM=1", **_MARIA),
    Form(
        "made if not there",
        (
            "CREATE TABLE IF NOT EXISTS t (a INT, b ENUM('x'))",
            "CREATE TABLE IF NOT EXISTS t (c INT)",
        ),
    ),
    Form(
        "replaced",
        ("CREATE TABLE t (a INT)", "CREATE OR REPLACE TABLE t (b INT, c ENUM('x'))"),
        **_MARIA,
    ),
    Form(
        "failed replacement",
        (
            "CREATE TABLE `tü` (a INT PRIMARY KEY)",
            "!CREATE OR REPLACE TABLE `tü` (a INT PRIMARY KEY) SELECT 1 AS a UNION ALL SELECT 1",
            "CREATE TABLE IF NOT EXISTS `tü` (b INT)",
        ),
        charset="latin1",
        **_MARIA,
    ),
    Form("dropped and made", ("CREATE TABLE t (a INT)", "DROP TABLE t", "CREATE TABLE t (b INT)")),
    Form(
        "like",
        (
            "CREATE TABLE s (a INT AUTO_INCREMENT UNIQUE, e ENUM('x') NOT NULL)",
            "CREATE TABLE t LIKE s",
            "CREATE TABLE u (LIKE s)",
        ),
    ),
    Form(
        "columns moved",
        (
            "CREATE TABLE t (a INT, b INT, c INT)",
            "ALTER TABLE t MODIFY c INT FIRST, ADD d INT AFTER c, DROP b, ADD (x INT, y INT)",
        ),
    ),
    Form(
        "columns renamed",
        (
            "CREATE TABLE t (a INT, b INT)",
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        ),
        since=(8, 0),
    ),
    Form(
        "tables swapped",
        ("CREATE TABLE t (a INT)", "CREATE TABLE u (b INT)", "RENAME TABLE t TO x, u TO t, x TO u"),
    ),
    Form(
        "generated key",
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT"),
        settings=("SET sql_generate_invisible_primary_key = ON",),
        **_EIGHT,
    ),
    Form(
        "instant",
        (
            "CREATE TABLE t (a INT, b INT)",
            "ALTER TABLE t ADD c INT FIRST, ALGORITHM=INSTANT",
            "ALTER TABLE t DROP b, ALGORITHM=INSTANT",
        ),
        **_EIGHT,
    ),
    Form(
        "nocopy",
        (
            "CREATE TABLE t (a INT, b INT)",
            "ALTER TABLE t ADD c INT FIRST, ALGORITHM=INSTANT, LOCK=NONE",
            "ALTER TABLE t WAIT 5 DROP b",
        ),
        **_MARIA,
    ),
    Form(
        "set statement",
        ("SET STATEMENT sql_mode='' FOR CREATE TABLE t (a INT)",),
        **_MARIA,
    ),
    Form(
        "selected",
        (
            "CREATE TABLE s (a INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(3) NOT NULL DEFAULT 'x', e ENUM('a'))",
            "CREATE TABLE t AS SELECT * FROM s",
            "CREATE TABLE u (z INT NOT NULL, KEY (z)) SELECT v, a FROM s",
            "CREATE TABLE w (a BIGINT) SELECT a, e FROM s",
        ),
    ),
    Form(
        "two-phase",
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT"),
        settings=("SET binlog_alter_two_phase = 1",),
        since=(10, 11),
        **_MARIA,
    ),
)
FORMS: Final[tuple[Form, ...]] = (
    *_KEYS,
    *_NUMBERS,
    *_TIMES,
    *_MODES,
    *_CTAS_MODES,
    *_CTAS_LITERALS,
    *_SESSIONS,
    *_LABELS,
    *_CHARSETS,
    *_PERIODS,
    *_HASHES,
    *_OTHERS,
)
"""All of them."""
