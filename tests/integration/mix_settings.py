"""How servers are started for mixed statements, and what an epoch of them sets."""

from __future__ import annotations

import random

from tests.servers.server import Server

QUICK = ("sync-binlog=0", "innodb-flush-log-at-trx-commit=0")

VARIANTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mysql-9.7": (
        ("binlog-row-event-max-size=256",),
        ("gtid-mode=OFF", "enforce-gtid-consistency=OFF"),
    ),
    "mysql-5.6": (
        ("binlog-row-event-max-size=256",),
        ("gtid-mode=OFF", "enforce-gtid-consistency=OFF"),
        ("gtid-mode=OFF", "enforce-gtid-consistency=OFF", "lower-case-table-names=1"),
    ),
    "mariadb-10.11": (
        (),
        ("binlog-row-event-max-size=256", "lower-case-table-names=1"),
    ),
    "mariadb-11.8": (
        (),
        ("binlog-row-event-max-size=256", "lower-case-table-names=1"),
    ),
}
"""Options of the servers among which the transactions of a proof are shared out."""

MODES = (
    *(
        "",
        "",
        "",
        "ANSI_QUOTES",
        "NO_BACKSLASH_ESCAPES",
        "STRICT_ALL_TABLES",
        "PAD_CHAR_TO_FULL_LENGTH",
    ),
    *("NO_ZERO_DATE", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "NO_AUTO_VALUE_ON_ZERO", "IGNORE_SPACE"),
)
_OLD_MODES = (
    "MYSQL40",
    "MYSQL323",
    "MAXDB",
    "ORACLE",
    "MSSQL",
    "DB2",
    "POSTGRESQL",
    "NO_FIELD_OPTIONS",
)


def modes(server: Server) -> tuple[str, ...]:
    """Values of ``sql_mode``; one that the server does not know is refused by it."""
    if server.flavor == "mysql" and server.version >= (8, 0):
        return MODES
    return (*MODES, *_OLD_MODES)


def global_settings(server: Server, rng: random.Random) -> list[str]:
    """Statements that set global variables for the sessions of an epoch."""
    found = [
        f"SET GLOBAL binlog_cache_size = {rng.choice((4096, 4096, 32768))}",
        f"SET GLOBAL binlog_stmt_cache_size = {rng.choice((4096, 4096, 32768))}",
        f"SET GLOBAL binlog_row_image = '{rng.choice(('FULL', 'FULL', 'FULL', 'MINIMAL', 'NOBLOB'))}'",
    ]
    maria = server.flavor == "mariadb"
    if maria:
        found.append(f"SET GLOBAL log_bin_compress = {rng.choice((0, 0, 1))}")
        found.append("SET GLOBAL log_bin_compress_min_len = 10")
        metadata = rng.choice(("NO_LOG", "MINIMAL", "FULL"))
        found.append(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
        annotated = rng.choice((0, 1))
        found.append(f"SET GLOBAL binlog_annotate_row_events = {annotated}")
    elif server.version >= (8, 0):
        found.append(f"SET GLOBAL binlog_transaction_compression = {rng.choice((0, 0, 1))}")
        found.append(f"SET GLOBAL binlog_row_metadata = '{rng.choice(('MINIMAL', 'FULL'))}'")
    if not maria:
        found.append(f"SET GLOBAL binlog_rows_query_log_events = {rng.choice((0, 1))}")
    return found


def unsaid_replaces(server: Server) -> frozenset[str]:
    """``unsaid`` where REPLACE has to name all columns: MariaDB logs it as an UPDATE that leaves out the others.

    Under ``binlog_row_image`` MINIMAL and NOBLOB its after image lacks the columns that got their defaults (10.11,
    11.8; not MySQL): its own replicas keep the old values there. Readers deliver what is logged.
    """
    image = str(server.query("SELECT @@GLOBAL.binlog_row_image")[0][0])
    is_whole = image.upper() == "FULL"
    return frozenset() if is_whole or server.flavor != "mariadb" else frozenset(("unsaid",))


def session_settings(server: Server) -> tuple[str, ...]:
    """What each session sets before anything else."""
    found = [
        "SET time_zone = '+00:00'",
        "SET sql_mode = ''",
        "SET SESSION foreign_key_checks = 0",
        "SET SESSION lock_wait_timeout = 1",
        "SET SESSION innodb_lock_wait_timeout = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ]
    if server.flavor == "mariadb" or server.version < (8, 0):
        found.append("SET SESSION binlog_format = ROW")
    if server.flavor == "mariadb":
        found.append("SET system_versioning_alter_history = KEEP")
    return tuple(found)
