"""Statements that a mirror must follow: every type, keys that change, tables without key, DDL."""

VALUES = (
    """CREATE TABLE {db}.kinds (
        id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b MEDIUMINT UNSIGNED, c BIGINT UNSIGNED,
        d DECIMAL(30,10), e FLOAT, f DOUBLE, g BIT(13), h BIT(64), i DATE, j TIME, k DATETIME,
        l TIMESTAMP NULL, m YEAR, n CHAR(7), o VARCHAR(300), p BINARY(5), q VARBINARY(20), r TEXT,
        s BLOB, t ENUM('x','y''z','ä'), u SET('p','q','r'), w POINT
    ) CHARSET utf8mb4""",
    """INSERT INTO {db}.kinds VALUES
        (18446744073709551615, -128, 16777215, 9223372036854775808, '-12345678901234567890.0123456789',
         0.1, 1e308, 8191, 18446744073709551615, '9999-12-31', '-838:59:59', '1000-01-01 00:00:00',
         '2038-01-19 03:14:07', 2155, 'a', 'ä€ü', 'a', 'b\\0c', 'text', x'00ff', 'y''z', 'p,r',
         ST_GeomFromText('POINT(1 2)')),
        (0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL, NULL, NULL),
        (5, 1, 2, 3, 4.5, -2.5, 0.30000000000000004, 0, 1, '2020-02-29', '00:00:00', '2020-01-01 10:11:12',
         '2020-01-01 00:00:00', 1901, '', '', '', '', '', '', 'ä', '', NULL)""",
    "UPDATE {db}.kinds SET a = 7, o = 'other' WHERE id = 5",
    "UPDATE {db}.kinds SET id = 6 WHERE id = 5",
    "DELETE FROM {db}.kinds WHERE id = 0",
)
KEYS = (
    "CREATE TABLE {db}.pair (a INT, b VARCHAR(20), n INT, PRIMARY KEY (a, b)) CHARSET utf8mb4",
    "INSERT INTO {db}.pair VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3), (3, 'c', 4)",
    "UPDATE {db}.pair SET b = 'A' WHERE b = 'a'",
    "UPDATE {db}.pair SET a = a + 10 ORDER BY a DESC",
    "DELETE FROM {db}.pair WHERE n = 4",
    "INSERT INTO {db}.pair VALUES (13, 'c', 9)",
    "CREATE TABLE {db}.bag (a INT, f FLOAT, t VARCHAR(10)) CHARSET utf8mb4",
    "INSERT INTO {db}.bag VALUES (1, 0.1, 'x'), (1, 0.1, 'x'), (1, 0.1, 'x'), (2, NULL, NULL), (2, NULL, NULL)",
    "DELETE FROM {db}.bag WHERE a = 1 LIMIT 1",
    "UPDATE {db}.bag SET t = 'y' WHERE a = 2 LIMIT 1",
)
DDL = (
    "CREATE TABLE {db}.moves (id INT PRIMARY KEY, a INT, b VARCHAR(10)) CHARSET utf8mb4",
    "INSERT INTO {db}.moves VALUES (1, 10, 'one'), (2, 20, NULL)",
    "ALTER TABLE {db}.moves ADD COLUMN c INT NOT NULL DEFAULT 5 AFTER a, ADD d DECIMAL(6,2) DEFAULT '1.5'",
    "INSERT INTO {db}.moves VALUES (3, 30, 6, 'three', 2.25)",
    "ALTER TABLE {db}.moves DROP COLUMN a, CHANGE b bb VARCHAR(20) FIRST",
    "UPDATE {db}.moves SET bb = 'changed' WHERE id = 1",
    "ALTER TABLE {db}.moves MODIFY c BIGINT, ADD e VARCHAR(5) NOT NULL, ADD f DATETIME DEFAULT '2020-01-02 03:04:05'",
    "INSERT INTO {db}.moves (id, bb, e) VALUES (4, 'four', '')",
    "RENAME TABLE {db}.moves TO {db}.moved",
    "INSERT INTO {db}.moved (id, e, c) VALUES (5, 'five', 1)",
    "ALTER TABLE {db}.moved DROP PRIMARY KEY",
    "INSERT INTO {db}.moved (id, e, c) VALUES (6, 'six', 2), (6, 'six', 2)",
    "DELETE FROM {db}.moved WHERE id = 6 LIMIT 1",
    "ALTER TABLE {db}.moved ADD PRIMARY KEY (id)",
    "CREATE TABLE {db}.other (id INT PRIMARY KEY, t TEXT) CHARSET utf8mb4",
    "INSERT INTO {db}.other VALUES (1, 'x')",
    "TRUNCATE TABLE {db}.other",
    "INSERT INTO {db}.other VALUES (2, 'y')",
    "CREATE TABLE {db}.gone LIKE {db}.other",
    "INSERT INTO {db}.gone SELECT * FROM {db}.other",
    "RENAME TABLE {db}.other TO {db}.between, {db}.gone TO {db}.other, {db}.between TO {db}.gone",
    "INSERT INTO {db}.other VALUES (7, 'z')",
    "DROP TABLE {db}.gone",
    "CREATE INDEX i ON {db}.moved (e)",
    "ALTER TABLE {db}.moved ENGINE=InnoDB",
)
JSON = (
    "CREATE TABLE {db}.documents (id INT PRIMARY KEY, j JSON)",
    """INSERT INTO {db}.documents VALUES (1, '{{"a": [1, 2.5, null], "b": "ä"}}'), (2, NULL), (3, '[]')""",
    """UPDATE {db}.documents SET j = '{{"a": 2}}' WHERE id = 1""",
)
