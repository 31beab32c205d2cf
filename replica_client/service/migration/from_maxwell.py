"""Conversion of Maxwell's configuration: config.properties, and the row of its position table."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from replica_client.errors import ConfigError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.service.migration.debezium_offsets import SavedOffset
from replica_client.service.migration.migrated import (
    Keys,
    Migrated,
    list_of,
    name_of,
    read_bounded,
    read_properties,
)
from replica_client.sinks.formats.maxwell import MaxwellOptions

_FIELDS: Final = frozenset(one.name for one in msgspec.structs.fields(MaxwellOptions))
_SSL: Final = frozenset(("disabled", "preferred", "required", "verify-ca", "verify-identity"))
_NAME: Final = re.compile(r"`?([\w$-]+)`?|(\*)|/([\w$*.\\+]+)/")
_PART: Final = re.compile(r"/[^/]*/|[^.]+")
_NOT_NEEDED: Final = {
    "schema_": "the schema history is saved with the position; the source is only read",
    "replication_": "the source is one URL",
    "client_id": "positions have the name of source and sink",
    "gtid_mode": "GTIDs are followed where the source has them",
    "metrics_": "always there, at listen of [daemon]",
    "http_": "always there, at listen of [daemon]",
    "log_level": "log_level of [daemon]",
    "bootstrapper": "snapshot of the sink, and replica-client snapshot",
    "javascript": "do it in the consumer, or write it as [[source.transform]]",
    "jdbc_options": "options of the URL",
    "encrypt": "no encryption of values; mask or hash in a [[source.transform]]",
    "secret_key": "no encryption of values; mask or hash in a [[source.transform]]",
    "kafka.": "client of the sink kafka takes properties of librdkafka",
    "kafka_": "see the options of the sink kafka",
    "producer_": "the sink has its own limits",
    "output_": "the format maxwell has no such field",
    "redis_": "see the options of the sink redis",
    "nats_": "see the options of the sink nats",
    "ddl_": "schema_topic of the sink kafka",
    "env_config": "write ${NAME} in the configuration",
    "buffer_memory_usage": "the queue is bounded by bytes",
    "daemon": "the service is started by systemd: run --systemd-unit",
}


def migrate_maxwell(path: Path, offset: Path | None) -> Migrated:
    """Convert a configuration of Maxwell, and its position, to ours.

    Raises:
        ConfigError: it is no such configuration; the message says why, and shows no value.
        OSError: a file cannot be read.
    """
    keys, made = Keys(read_properties(path)), Migrated("Maxwell")
    made.source["name"] = name_of(keys.take("client_id"), "maxwell")
    host, port = keys.take("replication_host", "host"), keys.take("replication_port", "port")
    user = keys.take("replication_user", "user")
    made.set_url("mysql", user or "maxwell", host or "localhost", port)
    password = keys.take("replication_password", "password")
    if password:
        made.source["password"] = made.secret(
            password, "SOURCE_PASSWORD", "the password of the source"
        )
    if server_id := keys.number("replica_server_id"):
        made.source["server_id"] = server_id
    mode = keys.take("replication_ssl", "ssl").lower().replace("_", "-")
    if mode in _SSL:
        made.source["tls"] = mode
    elif mode:
        keys.give_up("ssl", "not one of its values")
    _filter(made, keys)
    _sink(made, keys)
    _format(made, keys)
    begin = keys.take("init_position")
    if begin:
        file, _, rest = begin.partition(":")
        made.source["start"] = f"{file}:{rest.partition(':')[0]}"
    if offset is not None:
        saved = read_maxwell_position(offset)
        made.source["start"] = saved.start
    _hidden(made, keys)
    keys.give_up_rest(_NOT_NEEDED)
    made.finish(keys)
    return made


def _filter(made: Migrated, keys: Keys) -> None:
    """Convert the filter rules to ``tables`` and ``exclude``.

    Of Maxwell's rules the last match decides; here an exclusion always wins.
    """
    tables: list[str] = []
    exclude: list[str] = []
    whole = True
    for at, rule in enumerate(list_of(keys.take("filter"))):
        verb, _, pattern = rule.partition(":")
        names = [one[0] for one in _PART.finditer(pattern.strip())]
        found = [_pattern(name) for name in names]
        if len(names) != 2 or None in found:
            whole = False
            if verb.strip() == "include":
                continue  # fewer rows are read
            if len(names) < 2 or None in found[:2]:
                made.unprotected.append("filter")
            else:
                # A condition on a value: the table goes as a whole.
                exclude.append(f"{found[0]}.{found[1]}")
            continue
        text = f"{found[0]}.{found[1]}"
        if verb.strip() == "exclude" and text == "*.*" and at == 0:
            tables.clear()
            continue
        if verb.strip() == "include":
            tables.append(text)
            # Here an earlier exclusion would win over this rule.
            whole = whole and not exclude
        elif verb.strip() in ("exclude", "blacklist"):
            exclude.append(text)
    if not whole:
        keys.give_up("filter", "not all of its rules: tables and exclude of the source")
    rules = list_of(keys.take("filter"))
    closed = bool(rules) and re.fullmatch(r"exclude:\s*\*\.\*", rules[0]) is not None
    if closed:
        made.source["tables"] = tables or made.no_table()
    if exclude:
        made.source["exclude"] = exclude
    for key, ours in (("include_dbs", "tables"), ("exclude_dbs", "exclude")):
        given = [_pattern(name) for name in list_of(keys.take(key))]
        names = [name for name in given if name is not None]
        if len(names) < len(given):
            keys.give_up(key, "a regular expression in it has no pattern")
            if ours == "exclude":
                made.unprotected.append(key)
            if not names and ours == "tables":
                made.source.setdefault("tables", made.no_table())
        if names:
            made.source.setdefault(ours, []).extend(f"{name}.*" for name in names)


def _hidden(made: Migrated, keys: Keys) -> None:
    """Convert what hides values; read nothing where that cannot be."""
    if columns := list_of(keys.take("exclude_columns")):
        made.drop(dict.fromkeys(made.source.get("tables", ["*.*"]), columns))
    for key in ("encrypt", "javascript", "include_column_values"):
        if keys.take(key) not in ("", "none", "false"):
            keys.give_up(key, _NOT_NEEDED.get(key, "where of a [[source.transform]]"))
            made.unprotected.append(key)


def _pattern(name: str) -> str | None:
    found = _NAME.fullmatch(name.strip())
    if found is None:
        return None
    if found[3] is None:
        return found[1] or "*"
    expression = found[3].replace(".*", "*")
    return expression if re.fullmatch(r"[\w$*-]+", expression) and "." not in expression else None


def _sink(made: Migrated, keys: Keys) -> None:
    kind, sink = keys.take("producer") or "stdout", made.sink
    if kind == "kafka":
        servers = keys.take("kafka.bootstrap.servers", "kafka_bootstrap_servers")
        servers = servers or made.secret("", "KAFKA_BOOTSTRAP_SERVERS", "the brokers, as host:port")
        sink.update(type="kafka", bootstrap_servers=servers, topic_prefix="maxwell")
        topic = _topic(keys.take("kafka_topic") or "maxwell")
        sink["topic"] = topic
        sink["schema_topic"] = _topic(keys.take("ddl_kafka_topic")) or topic
        for ours, theirs in (
            ("security_protocol", "kafka.security.protocol"),
            ("sasl_mechanism", "kafka.sasl.mechanism"),
        ):
            if value := keys.take(theirs):
                sink[ours] = value
    elif kind == "redis":
        password = keys.take("redis_auth")
        login = ""
        if password:
            login = f":{made.secret(password, 'REDIS_PASSWORD', 'the password of Redis')}@"
        host, port = keys.take("redis_host") or "localhost", keys.take("redis_port") or "6379"
        database = keys.take("redis_database") or "0"
        sink.update(type="redis", url=f"redis://{login}{host}:{port}/{database}")
        sink["stream"] = keys.take("redis_stream_key", "redis_key") or "maxwell"
        if keys.take("redis_type") != "xadd":
            keys.give_up("redis_type", "changes are entries of a stream (XADD)")
    elif kind == "file":
        sink.update(type="file", path="changes")
        keys.give_up("output_file", "path of the sink file is a directory")
    elif kind == "stdout":
        sink["type"] = "stdout"
    elif kind == "nats":
        keys.take("nats_url")
        sink.update(type="nats", url=made.secret("", "NATS_URL", "the URL of NATS"))
        sink["stream"] = "maxwell"
        made.remarks.append("Messages go to a JetStream, with subjects of its own.")
    else:
        sink.update(type="file", path="changes")
        keys.give_up("producer", "no such sink; changes go to files")
    sink["format"] = "maxwell"


def _topic(text: str) -> str:
    return re.sub(r"%\{(database|table)\}", r"{\1}", text)


def _format(made: Migrated, keys: Keys) -> None:
    options: dict[str, Any] = {"output_ddl": bool(keys.flag("output_ddl"))}
    for name in sorted(_FIELDS - {"output_ddl"}):
        value = keys.flag(name)
        if value is not None:
            options[name] = value
    made.sink["format_options"] = options


def read_maxwell_position(path: Path) -> SavedOffset:
    """Read the row of ``maxwell.positions``: as JSON, or as ``mysql --batch`` prints it.

    Raises:
        ConfigError: there is no row, or there are several.
        OSError: the file cannot be read.
    """
    try:
        text = read_bounded(path).decode("utf-8-sig")
        if text.lstrip()[:1] in ("{", "["):
            found = json.loads(text)
            rows = found if isinstance(found, list) else [found]
        else:
            rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
        if len(rows) != 1 or not isinstance(rows[0], Mapping):
            raise ConfigError(f"{path}: it must be one row of maxwell.positions, not {len(rows)}")
        row = rows[0]
        gtids = str(row.get("gtid_set") or "").replace("\\n", "").replace("\n", "")
        if gtids and gtids != "NULL":
            (GtidSet if ":" in gtids else MariadbGtidSet).parse(gtids)
            return SavedOffset(gtids)
        file, at = str(row["binlog_file"]), int(row["binlog_position"])
        if not file or ":" in file or at < 0:
            raise ValueError
        return SavedOffset(f"{file}:{at}")
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError, csv.Error, RecursionError):
        raise ConfigError(
            f"{path}: it must be a row of maxwell.positions with binlog_file and binlog_position"
        ) from None
