"""Findings about the settings of a source."""

from __future__ import annotations

from collections.abc import Iterator

from replica_client.protocol.codec.charsets import UnknownCollationError, charset_named
from replica_client.service.doctor.source_facts import (
    Finding,
    SourceFacts,
    grants,
    note,
    ok,
    problem,
    warning,
)

_OLDEST_MYSQL = (5, 5, 0)
_OLDEST_MARIADB = (5, 5, 0)
_SHOWN_TABLES = 5
_PASSING_SKEW = 2.0
_NO_SKEW = 0.05
_SHOWING_PLUGINS = ("caching_sha2_password", "sha256_password", "mysql_clear_password", "dialog")


def settings(facts: SourceFacts) -> Iterator[Finding]:
    """Return findings from the source's variables and tables, in the order of reading."""
    yield _version(facts)
    yield _tls(facts)
    yield _binlog(facts)
    if facts.is_on("log_bin"):
        yield _format(facts)
        yield _image(facts)
        yield from _unlogged(facts)
        yield _metadata(facts)
        yield from _filters(facts)
        yield _checksum(facts)
        yield _compression(facts)
        yield _partial_json(facts)
        yield _encryption(facts)
        yield _gtids(facts)
        yield _durability(facts)
        yield _chain(facts)
    yield _clock(facts)
    yield _charsets(facts)
    yield _keys(facts)


def _both(name: str, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the statement that sets a variable now, and the line that keeps it in the configuration file."""
    return (f"SET GLOBAL {name} = {value}",), (f"{name} = {value}",)


def _logs_updates(facts: SourceFacts) -> tuple[str, ...]:
    # Before 5.7 GTIDs need it.
    return ("log_slave_updates = ON",) if facts.server.version < (5, 7) else ()


def _version(facts: SourceFacts) -> Finding:
    server = facts.server
    name = "MariaDB" if server.is_mariadb else "MySQL"
    number = ".".join(map(str, server.version))
    text = f"{name} {number}" + f" ({server.version_text})" * (server.version_text != number)
    oldest = _OLDEST_MARIADB if server.is_mariadb else _OLDEST_MYSQL
    if server.version < oldest:
        return warning("version", f"{text} is older than what is tested", "upgrade the source")
    return ok("version", text)


def _tls(facts: SourceFacts) -> Finding:
    if facts.server.tls:
        text = f"the connection is encrypted with {facts.server.tls}"
        if facts.server.verified_by:
            return ok("tls", f"{text}; the certificate is verified by {facts.server.verified_by}")
        shown = facts.server.auth_plugin in _SHOWING_PLUGINS
        how = note if facts.is_local or not shown else warning
        return how(
            "tls",
            f"{text}, but nothing verified the server's certificate"
            + f": {facts.server.auth_plugin} gives the password to whoever answers" * shown,
            "put tls=verify-identity (and tls_ca, unless its CA is the system's) into the URL, or "
            f"tls_fingerprint={facts.server.fingerprint} if the certificate is the server's own",
        )
    if facts.needs_tls:
        return warning(
            "tls",
            "the connection is not encrypted, and caching_sha2_password works only while the server "
            "has this account in its cache: not after its restart or FLUSH PRIVILEGES",
            "use tls=required, or server_public_key with the server's public_key.pem",
        )
    if facts.is_local:
        return note("tls", "the connection is not encrypted; it stays on this machine")
    return warning(
        "tls",
        "the connection is not encrypted: changes travel in clear",
        "give the source a certificate (ssl_cert, ssl_key), and put tls=required into the URL",
    )


def _binlog(facts: SourceFacts) -> Finding:
    if not facts.is_on("log_bin"):
        return problem(
            "binlog",
            "the source writes no binlog",
            "start it with --log-bin and a --server-id",
            settings=("log_bin = binlog", "server_id = 1"),
        )
    if facts.variable("binlog_storage_engine") == "INNODB":
        return problem(
            "binlog",
            "binlog_storage_engine is innodb: those files are of another format",
            "start the source without binlog_storage_engine",
        )
    if facts.variable("server_id") == "0":
        return problem(
            "binlog",
            "server_id is 0: the source serves no replicas",
            "SET GLOBAL server_id = 1",
            *_both("server_id", "1"),
        )
    return ok("binlog", "log_bin is on")


def _format(facts: SourceFacts) -> Finding:
    value = facts.variable("binlog_format")
    if value == "ROW":
        return ok("binlog_format", "ROW")
    return problem(
        "binlog_format",
        f"{value}: statements are logged as text, and are not rows",
        "SET GLOBAL binlog_format = ROW (also in the configuration file), and reconnect the clients",
        *_both("binlog_format", "ROW"),
    )


def _image(facts: SourceFacts) -> Finding:
    value = facts.variable("binlog_row_image") or "FULL"
    if value in ("FULL", "FULL_NODUP"):
        return ok("binlog_row_image", value)
    replaced = ", and in a REPLACE those that got their defaults" if facts.server.is_mariadb else ""
    return warning(
        "binlog_row_image",
        f"{value}: columns that did not change are left out of rows{replaced}",
        "SET GLOBAL binlog_row_image = FULL (also in the configuration file)",
        *_both("binlog_row_image", "FULL"),
    )


def _unlogged(facts: SourceFacts) -> Iterator[Finding]:
    names = [".".join(map(str, row)) for row in facts.unlogged.rows]
    if names:
        yield note(
            "generated_columns",
            f"logged of plain INSERTs only, as this version does: {_listed(names)}",
            "leave them out of mirrors (drop in the sink's transforms); the lake cannot have their tables",
        )


def _metadata(facts: SourceFacts) -> Finding:
    value = facts.variable("binlog_row_metadata")
    if value == "FULL":
        return ok("binlog_row_metadata", value)
    if not value:
        return note(
            "binlog_row_metadata",
            "this version cannot write column names into the binlog: names and ENUM labels are not there",
            "MySQL has it from 8.0.1 on, MariaDB from 10.5 on",
        )
    return warning(
        "binlog_row_metadata",
        f"{value}: column names and ENUM labels are not in the binlog",
        "SET GLOBAL binlog_row_metadata = FULL (also in the configuration file)",
        *_both("binlog_row_metadata", "FULL"),
    )


def _filters(facts: SourceFacts) -> Iterator[Finding]:
    if not facts.status.rows:
        return
    do, ignore = (str(value or "") for value in (*facts.status.rows[0][2:4], "", "")[:2])
    if not do and not ignore:
        return
    what = f"only of {do}" if do else f"not of {ignore}"
    if facts.variable("binlog_row_metadata") == "FULL":
        yield warning(
            "binlog_filters",
            f"the source logs changes {what}: others are never seen",
            "remove binlog-do-db and binlog-ignore-db at the source if they are wanted",
        )
        return
    # stream/live/source_start.py refuses such a source.
    yield problem(
        "binlog_filters",
        f"the source logs changes {what}, and leaves out statements that alter their tables from another default "
        "database: rows after them cannot be read without binlog_row_metadata = FULL",
        "SET GLOBAL binlog_row_metadata = FULL (also in the configuration file), or remove binlog-do-db and "
        "binlog-ignore-db at the source",
        *_both("binlog_row_metadata", "FULL"),
    )


def _checksum(facts: SourceFacts) -> Finding:
    value = facts.variable("binlog_checksum")
    if value == "CRC32":
        return ok("binlog_checksum", value)
    return warning(
        "binlog_checksum",
        f"{value or 'not there'}: damaged events cannot be distinguished from valid ones",
        "SET GLOBAL binlog_checksum = CRC32",
        *_both("binlog_checksum", "CRC32"),
    )


def _compression(facts: SourceFacts) -> Finding:
    for name in ("binlog_transaction_compression", "log_bin_compress"):
        if facts.is_on(name):
            return note("compression", f"{name} is on; compressed events are decoded")
    return ok("compression", "the binlog is not compressed")


def _partial_json(facts: SourceFacts) -> Finding:
    if "PARTIAL_JSON" in facts.variable("binlog_row_value_options"):
        return note(
            "partial_json",
            "updates of JSON columns are logged as differences, which need the row before",
            "keep binlog_row_image = FULL",
        )
    return ok("partial_json", "JSON columns are logged whole")


def _encryption(facts: SourceFacts) -> Finding:
    if facts.is_on("binlog_encryption") or facts.is_on("encrypt_binlog"):
        return note(
            "encryption",
            "the source encrypts its files; it sends them in clear, and copies of them are in clear",
            "use TLS, and keep backups where the source's data could be",
        )
    return ok("encryption", "the binlog files are not encrypted")


def _gtids(facts: SourceFacts) -> Finding:
    if facts.server.is_mariadb:
        strict = "on" if facts.is_on("gtid_strict_mode") else "off"
        return ok("gtids", f"MariaDB GTIDs; gtid_strict_mode is {strict}")
    value = facts.variable("gtid_mode")
    if value == "ON":
        return ok("gtids", "gtid_mode is ON")
    return warning(
        "gtids",
        f"gtid_mode is {value or 'not there'}: positions are by file, and hold at this server only",
        "switch GTIDs on: enforce_gtid_consistency, then gtid_mode step by step to ON",
        settings=("gtid_mode = ON", "enforce_gtid_consistency = ON", *_logs_updates(facts)),
    )


def _durability(facts: SourceFacts) -> Finding:
    value = facts.variable("sync_binlog")
    if value == "1":
        return ok("sync_binlog", "1")
    return note(
        "sync_binlog",
        f"{value}: after a power cut the source may lack transactions that replicas have",
        "SET GLOBAL sync_binlog = 1",
        *_both("sync_binlog", "1"),
    )


def _chain(facts: SourceFacts) -> Finding:
    if facts.is_on("log_replica_updates") or facts.is_on("log_slave_updates"):
        return ok("replica_updates", "what the source itself replicates is in its binlog")
    return note(
        "replica_updates",
        "if the source is a replica itself, what it applies is not in its binlog",
        "start it with --log-replica-updates (older: --log-slave-updates) if it should be one",
    )


def _clock(facts: SourceFacts) -> Finding:
    skew = facts.clock_skew
    if abs(skew) <= max(facts.clock_error, _NO_SKEW):
        return ok("clock", f"the source's clock agrees with ours (± {facts.clock_error:.3f} s)")
    side = "ahead of" if skew > 0 else "behind"
    text = f"the source's clock is {abs(skew):.1f} s {side} ours (± {facts.clock_error:.3f} s)"
    if abs(skew) - facts.clock_error < _PASSING_SKEW:
        return ok("clock", text)
    return warning(
        "clock",
        f"{text}: times of changes and delays are off by that",
        "run an NTP client on both machines",
    )


def _charsets(facts: SourceFacts) -> Finding:
    if facts.charsets.refusal:
        return note(
            "charsets",
            f"not known: {facts.charsets.refusal}",
            "grant SELECT on the tables",
            grants(facts, "SELECT"),
        )
    used = {str(name): int(count) for name, count in facts.charsets.rows}
    server = facts.variables.get("character_set_server", "")
    unknown = [name for name in (*used, server) if name and not _is_known(name)]
    if unknown:
        return problem(
            "charsets",
            f"columns in character sets that are not known: {', '.join(sorted(set(unknown)))}",
            "convert these columns to utf8mb4, or leave their tables out",
        )
    listed = ", ".join(f"{name} ({count})" for name, count in used.items())
    return ok("charsets", f"server {server}; columns: {listed or 'this account sees none'}")


def _is_known(name: str) -> bool:
    try:
        charset_named(name)
    except UnknownCollationError:
        return False
    return True


def _keys(facts: SourceFacts) -> Finding:
    if facts.keyless.refusal:
        return note(
            "primary_keys",
            f"not known: {facts.keyless.refusal}",
            "grant SELECT on the tables",
            grants(facts, "SELECT"),
        )
    if facts.tables.rows and not int(facts.tables.rows[0][0]):
        if facts.may_select:
            return ok("primary_keys", "the source has no tables")
        return note(
            "primary_keys",
            "this account sees no table: whether they have primary keys is not known",
            f"if there are some: GRANT SELECT ON *.* TO {facts.user}, or on those that are wanted",
            grants(facts, "SELECT"),
        )
    tables = [f"{schema}.{table}" for schema, table in facts.keyless.rows]
    if not tables:
        seen = f"{facts.tables.rows[0][0]} tables" if facts.tables.rows else "tables"
        return ok("primary_keys", f"all {seen} that this account sees have a primary key")
    return warning(
        "primary_keys",
        f"{len(tables)} {'table has' if len(tables) == 1 else 'tables have'} none: {_listed(tables)}",
        "add a primary key: without one, rows of a table cannot be distinguished",
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN_TABLES
    return ", ".join(names[:_SHOWN_TABLES]) + (f" and {more} more" if more > 0 else "")
