"""Conversion of Debezium's configuration: a connector's JSON or properties, or the server's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from replica_client.errors import ConfigError
from replica_client.service.migration.debezium_history import read_history
from replica_client.service.migration.debezium_offsets import (
    TRANSFORMS,
    read_offset,
    take_columns,
    take_transform,
)
from replica_client.service.migration.migrated import (
    Keys,
    Migrated,
    list_of,
    name_of,
    names_of,
    read_properties,
)
from replica_client.sinks.formats.debezium_values import (
    BigintMode,
    BinaryMode,
    DecimalMode,
    TimeMode,
)

_SOURCE: Final = "debezium.source."
_SINK: Final = "debezium.sink."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_PLAIN_CONVERTERS: Final = (
    *(
        "org.apache.kafka.connect.",
        "io.confluent.connect.",
        "io.debezium.converters.",
        "io.apicurio.",
    ),
)
"""Beginnings of the classes of converters that write values as they are."""
_MODES: Final[dict[str, tuple[str, ...]]] = {
    "decimal.handling.mode": get_args(DecimalMode),
    "binary.handling.mode": get_args(BinaryMode),
    "time.precision.mode": get_args(TimeMode),
    "bigint.unsigned.handling.mode": get_args(BigintMode),
}
_FLAG_KEYS: Final = (
    *("provide.transaction.metadata", "include.schema.changes", "include.schema.comments"),
)
_SCHEMAS: Final = (
    *("value.converter.schemas.enable", "debezium.format.value.schemas.enable"),
    *("debezium.format.schemas.enable", "converter.schemas.enable"),
)
_SSL: Final = {
    "disabled": "disabled",
    "preferred": "preferred",
    "required": "required",
    "verify_ca": "verify-ca",
    "verify_identity": "verify-identity",
}
_SNAPSHOTS: Final = {
    "initial": True,
    "when_needed": True,
    "no_data": False,
    "schema_only": False,
    "never": False,
}
_LOCKING: Final = {"none": "never", "minimal": "brief", "minimal_at_least": "brief"}
_NO_CHANNEL: Final = "only the channel source: a table of the source"
_NOT_NEEDED: Final = {
    "tasks.max": "a sink is one task",
    "name": "not needed",
    "offset.": "the position is in the state directory, or in the sink",
    "schema.history.": "saved with the position; --schema-history takes over what Debezium has",
    "database.history.": "saved with the position; --schema-history takes over what Debezium has",
    "signal.": _NO_CHANNEL,
    "transforms": TRANSFORMS,
    "predicates": "write it as where of a [[source.transform]]",
    "key.converter": "keys are JSON or Avro, as values are",
    "value.converter": "values are JSON, or Avro in the sink kafka",
    "errors.": "on_poison of the sink says what becomes of a change that cannot be written",
    "topic.creation.": "partitions, replication_factor and topic_config of the sink kafka",
    "producer.": "client of the sink kafka takes properties of librdkafka",
    "gtid.source.": "all GTIDs are followed",
    "database.ssl.": "tls_fingerprint, or tls_ca in the URL, of the source",
    "debezium.format.": "formats are JSON, or Avro in the sink kafka",
    "quarkus.": "[daemon] has log_level, log_format and listen",
    f"{_SINK}kafka.producer.": "client of the sink kafka takes properties of librdkafka",
    "max.batch.size": "batch_rows of the sink",
    "max.queue.size": "the queue is bounded by bytes",
    "poll.interval.ms": "changes are taken as they come",
    "connect.timeout.ms": "connect_timeout in the URL",
    "connect.keep.alive": "always on",
    "snapshot.": "see snapshot, snapshot_rows and snapshot_locking of the sink",
    "heartbeat.": "heartbeats are of the protocol: no event is written",
    "event.processing.failure.handling.mode": "record_losses of the source: counted, not only logged",
    "inconsistent.schema.handling.mode": "record_losses of the source: counted, not only logged",
}


def migrate_debezium(path: Path, offset: Path | None, history: str = "") -> Migrated:
    """Convert a configuration of Debezium, and its offset, to ours.

    Args:
        path: the configuration.
        offset: a file with the offset; None: there is none.
        history: see :func:`read_history`; empty: not known.

    Raises:
        ConfigError: it is not of a MySQL or MariaDB connector; the message says why, and shows no
            value.
        OSError: a file cannot be read.
    """
    values = read_properties(path)
    # Debezium Server prefixes the connector's keys.
    keys = Keys({key.removeprefix(_SOURCE): value for key, value in values.items()})
    made = Migrated("Debezium")
    scheme = _scheme(path, keys)
    prefix = keys.take("topic.prefix", "database.server.name")
    made.source["name"] = name_of(prefix, "source")
    _connection(made, keys, scheme)
    _tables(made, keys)
    take_columns(made, keys)
    _stream(made, keys)
    _sink(made, keys, prefix)
    _format(made, keys, scheme, prefix)
    _outbox(made, keys)
    if offset is not None:
        saved = read_offset(offset, prefix)
        made.source["start"] = saved.start
        made.remarks += saved.remarks
        if made.sink.pop("snapshot", False) and not saved.remarks:
            made.remarks.append("The snapshot is done: the sink begins at the offset, without one.")
        if history:
            is_mariadb = scheme == "mariadb"
            made.schema = read_history(history, prefix, saved.start, is_mariadb=is_mariadb)
        else:
            made.remarks.append(
                "Without --schema-history, tables that were altered after the offset stop the source, unless it has "
                "binlog_row_metadata=FULL."
            )
    elif history:
        raise ConfigError("--schema-history is of an offset: give --offset, too")
    keys.give_up_rest(_NOT_NEEDED)
    made.finish(keys)
    return made


def _scheme(path: Path, keys: Keys) -> str:
    connector = keys.take("connector.class")
    for name, scheme in (("MySqlConnector", "mysql"), ("MariaDbConnector", "mariadb")):
        if connector.endswith(name):
            return scheme
    raise ConfigError(
        f"{path}: connector.class must be a MySqlConnector or MariaDbConnector; other databases are not read"
    )


def _connection(made: Migrated, keys: Keys, scheme: str) -> None:
    user, password = keys.take("database.user"), keys.take("database.password")
    host, port = keys.take("database.hostname"), keys.take("database.port")
    made.set_url(scheme, user, host, port)
    if password:
        made.source["password"] = made.secret(
            password, "SOURCE_PASSWORD", "the password of the source"
        )
    if server_id := keys.number("database.server.id"):
        made.source["server_id"] = server_id
    mode = keys.take("database.ssl.mode")
    if mode:
        if mode.lower() in _SSL:
            made.source["tls"] = _SSL[mode.lower()]
        else:
            keys.give_up("database.ssl.mode", "not one of its values")


def _tables(made: Migrated, keys: Keys) -> None:
    for ours, theirs in (("tables", "include"), ("exclude", "exclude")):
        found: list[str] = []
        tables = f"table.{theirs}.list"
        databases = f"database.{theirs}.list"
        if keys.take(tables):
            found += _patterns(made, keys, tables, 2)
        if theirs == "include" and keys.take(tables) and keys.take(databases):
            # Debezium reads what both name.
            known = list(_patterns(made, keys, databases, 1))
            found = [one for table in found for one in _inside(table, known)]
        elif keys.take(databases):
            found += [f"{name}.*" for name in _patterns(made, keys, databases, 1)]
        if not found and theirs == "include" and (keys.take(tables) or keys.take(databases)):
            found = made.no_table()
        if found:
            made.source[ours] = found


def _patterns(made: Migrated, keys: Keys, key: str, parts: int) -> Iterator[str]:
    for expression in list_of(keys.take(key)):
        names = names_of(expression, parts)
        if names is None:
            keys.give_up(key, "a regular expression in it has no pattern: tables and exclude")
            if "exclude" in key:
                made.unprotected.append(key)
        for one in names or ():
            yield ".".join(one)


def _inside(table: str, databases: Sequence[str]) -> Iterator[str]:
    """Yield the patterns of tables that a pattern and one of some databases match."""
    database, _, name = table.partition(".")
    if any(fnmatchcase(database, one) for one in databases):
        yield table
    else:
        yield from (f"{one}.{name}" for one in databases if fnmatchcase(one, database))


def _stream(made: Migrated, keys: Keys) -> None:
    signals = keys.take("signal.data.collection")
    if signals:
        made.source["signals"] = signals
    channels = keys.take("signal.enabled.channels")
    if channels not in ("", "source"):
        keys.give_up("signal.enabled.channels", _NO_CHANNEL)
    if heartbeat := keys.number("heartbeat.interval.ms"):
        made.source["heartbeat"] = heartbeat / 1000


def _sink(made: Migrated, keys: Keys, prefix: str) -> None:
    kind = keys.take(f"{_SINK}type")
    sink = made.sink
    if kind == "kafka" or not (kind or _is_engine(keys)):
        servers = keys.take(
            f"{_SINK}kafka.producer.bootstrap.servers",
            "producer.override.bootstrap.servers",
            "schema.history.internal.kafka.bootstrap.servers",
            "database.history.kafka.bootstrap.servers",
        )
        what = "the brokers, as host:port"
        servers = servers or made.secret("", "KAFKA_BOOTSTRAP_SERVERS", what)
        sink.update(type="kafka", bootstrap_servers=servers)
        if prefix:
            sink["topic_prefix"] = prefix
        _kafka(sink, keys)
    elif kind == "redis":
        address = keys.take(f"{_SINK}redis.address") or "localhost:6379"
        password = keys.take(f"{_SINK}redis.password")
        user = keys.take(f"{_SINK}redis.user")
        login = ""
        if password:
            secret = made.secret(password, "REDIS_PASSWORD", "the password of Redis")
            login = f"{user}:{secret}@"
        secure = keys.flag(f"{_SINK}redis.ssl.enabled")
        sink.update(type="redis", url=f"redis{'s' if secure else ''}://{login}{address}/0")
        sink["stream"] = prefix or "replica_client"
        made.remarks.append("All tables go to one stream of Redis, and not each to its own.")
    elif kind == "http":
        # A URL may hold a secret.
        keys.take(f"{_SINK}http.url")
        sink.update(type="http", url=made.secret("", "HTTP_URL", "the receiver's URL"))
    elif kind == "nats-jetstream":
        url = keys.take(f"{_SINK}nats-jetstream.url")
        if urlsplit(url).password or not url:
            url = made.secret("", "NATS_URL", "the URL of NATS")
        sink.update(type="nats", url=url, stream=name_of(prefix, "changes").replace(".", "_"))
    else:
        sink.update(type="file", path="changes")
        if kind:
            keys.give_up(f"{_SINK}type", "no such sink; changes go to files")
        else:
            made.remarks.append("An embedded engine has no sink: changes go to files.")
    mode = keys.take("snapshot.mode") or "initial"
    if mode in _SNAPSHOTS:
        sink["snapshot"] = _SNAPSHOTS[mode]
    else:
        sink["snapshot"] = False
        keys.give_up("snapshot.mode", "snapshot of the sink is true or false")
    if keys.take("snapshot.select.statement.overrides"):
        keys.give_up("snapshot.select.statement.overrides", "where of a [[source.transform]]")
        if sink["snapshot"]:
            sink["snapshot"] = False
            made.remarks.append(
                "Debezium's snapshot leaves out rows: here there is none until `snapshot` is set."
            )
    if rows := keys.number("incremental.snapshot.chunk.size"):
        sink["snapshot_rows"] = rows
    locking = keys.take("snapshot.locking.mode")
    if locking in _LOCKING:
        sink["snapshot_locking"] = _LOCKING[locking]
    elif locking:
        keys.give_up("snapshot.locking.mode", "snapshot_locking is never or brief")


def _is_engine(keys: Keys) -> bool:
    return "offset.storage" in keys or "converter.schemas.enable" in keys


def _kafka(sink: dict[str, Any], keys: Keys) -> None:
    for ours, theirs in (
        ("security_protocol", "security.protocol"),
        ("sasl_mechanism", "sasl.mechanism"),
    ):
        value = keys.take(f"{_SINK}kafka.producer.{theirs}", f"producer.override.{theirs}")
        if value:
            sink[ours] = value
    tombstones = keys.flag("tombstones.on.delete")
    if tombstones is not None:
        sink["tombstones_on_delete"] = tombstones
    chosen: dict[str, list[str]] = {}
    for one in filter(None, keys.take("message.key.columns").split(";")):
        table, _, columns = one.partition(":")
        names = names_of(table, 2)
        for found in names or ():
            chosen[".".join(found)] = [name.strip() for name in columns.split(",")]
        if names is None:
            keys.give_up("message.key.columns", "key_columns of the sink kafka, by pattern")
    if chosen:
        sink["key_columns"] = chosen


def _format(made: Migrated, keys: Keys, scheme: str, prefix: str) -> None:
    options: dict[str, Any] = {}
    if prefix and made.sink["type"] != "kafka":
        options["topic_prefix"] = prefix
    if scheme == "mariadb":
        options["connector"] = scheme
    for key, known in _MODES.items():
        value = keys.take(key)
        if value in known:
            options[key.replace(".", "_")] = value
        elif value:
            keys.give_up(key, f"there are {', '.join(known)}")
    skipped = [one.strip() for one in keys.take("skipped.operations").split(",") if one.strip()]
    if set(skipped) <= {"c", "u", "d", "t", "none"}:
        options.update({"skipped_operations": ",".join(skipped)} if skipped else {})
    else:
        keys.give_up("skipped.operations", "a list of c, u, d and t, or none")
    # Debezium skips TRUNCATE by default.
    options.setdefault("skipped_operations", "t")
    for key in _FLAG_KEYS:
        wanted = keys.flag(key)
        if wanted is not None:
            options[key.replace(".", "_")] = wanted
    schemas = keys.flag(*_SCHEMAS)
    converter = keys.take("value.converter")
    is_avro = converter == _AVRO or keys.take("debezium.format.value") == "avro"
    is_avro = is_avro and made.sink["type"] == "kafka"
    if not is_avro and (schemas or (converter == _JSON and schemas is None)):
        options["schemas_enable"] = True
    known_converter, known_format = (_AVRO, "avro") if is_avro else (_JSON, "json")
    for key in ("value.converter", "key.converter"):
        if keys.take(key) not in ("", known_converter):
            keys.give_up(key, _NOT_NEEDED[key])
            if not keys.take(key).startswith(_PLAIN_CONVERTERS):
                made.unprotected.append(key)  # it may encrypt
    for name in list_of(keys.take("converters")):
        kind = keys.take(f"{name}.type")
        keys.give_up(f"{name}.type", "no converters of columns: a [[source.transform]]")
        if not kind.startswith("io.debezium."):
            made.unprotected.append(f"{name}.type")  # it may mask
    for key in ("debezium.format.value", "debezium.format.key"):
        if keys.take(key) not in ("", known_format):
            keys.give_up(key, _NOT_NEEDED["debezium.format."])
    made.sink["format"] = "avro" if is_avro else "debezium"
    made.sink["format_options"] = options
    if is_avro:
        made.sink["registry"] = _registry(made, keys)


def _registry(made: Migrated, keys: Keys) -> dict[str, Any]:
    """Return the options of the schema registry that Confluent's converter uses."""

    def taken(name: str) -> str:
        parts = ("value", "key")
        converters = [f"{part}.converter.{name}" for part in parts]
        return keys.take(*converters, *(f"debezium.format.{part}.{name}" for part in parts))

    url, login = taken("schema.registry.url"), taken("basic.auth.user.info")
    if not url or urlsplit(url).password:
        url = made.secret("", "SCHEMA_REGISTRY_URL", "the URL of the schema registry")
    registry: dict[str, Any] = {"url": url}
    taken("basic.auth.credentials.source")
    if login:
        user, _, password = login.partition(":")
        what = "the password of the schema registry"
        registry |= {
            "username": user,
            "password": made.secret(password, "SCHEMA_REGISTRY_PASSWORD", what),
        }
    return registry


def _outbox(made: Migrated, keys: Keys) -> None:
    """Convert the outbox event router to a transform."""
    for name in list_of(keys.take("transforms", "debezium.transforms")):
        start = f"transforms.{name}."
        if start + "type" not in keys:
            start = "debezium." + start
        kind = keys.take(start + "type")
        if not kind.endswith(".EventRouter"):
            take_transform(made, keys, start, kind)
            continue
        tables = made.source.get("tables", [])
        if len(tables) != 1:
            tables = [one for one in tables if "outbox" in one]
        if not tables:
            keys.give_up(start + "type", "outbox of a [[source.transform]] names its tables")
            continue
        outbox: dict[str, Any] = {}
        for ours, theirs in (
            ("id", "table.field.event.id"),
            ("key", "table.field.event.key"),
            ("payload", "table.field.event.payload"),
            ("route", "route.by.field"),
        ):
            value = keys.take(start + theirs)
            if value:
                outbox[ours] = value
        topic = keys.take(start + "route.topic.replacement")
        if topic:
            outbox["topic"] = topic.replace("${routedByValue}", "{route}")
        headers = {}
        key = start + "table.fields.additional.placement"
        for one in list_of(keys.take(key)):
            column, _, rest = one.partition(":")
            where, _, header = rest.partition(":")
            if where == "header":
                headers[header or column] = column
            else:
                keys.give_up(key, "only headers: a payload stays as it is")
        if headers:
            outbox["headers"] = headers
        made.transforms.append({"tables": tables, "outbox": outbox or True})
