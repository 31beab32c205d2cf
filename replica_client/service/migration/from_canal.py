"""Conversion of Canal's configuration: instance.properties, canal.properties and meta.dat."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from replica_client.errors import ConfigError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.service.migration.debezium_offsets import SavedOffset
from replica_client.service.migration.migrated import (
    Keys,
    Migrated,
    list_of,
    name_of,
    names_of,
    read_bounded,
    read_properties,
)

_I: Final = "canal.instance."
_NOT_NEEDED: Final = {
    f"{_I}gtidon": "GTIDs are followed where the source has them",
    f"{_I}tsdb": "the schema history is saved with the position",
    f"{_I}standby": "several hosts in the URL: mysql://user@first,second/",
    f"{_I}memory": "the queue is bounded by bytes",
    f"{_I}parser": "not needed",
    f"{_I}detecting": "heartbeats are of the protocol",
    f"{_I}network": "connect_timeout in the URL, read_timeout of the source",
    f"{_I}fallback": "the position is at a transaction's end",
    f"{_I}transaction": "part_size of the source",
    f"{_I}get.ddl": "schema changes are always delivered",
    f"{_I}filter.query": "statements that are not row changes of selected tables are left out, or an error",
    f"{_I}filter.druid": "not needed",
    f"{_I}filter.table.error": "on_unknown_table of the source",
    f"{_I}filter.rows": "tables and exclude of the source",
    f"{_I}filter.transaction": "no such entries",
    f"{_I}binlog": "all are read",
    f"{_I}global": "one configuration, without Spring",
    f"{_I}rds": "no binlog files of object stores of a vendor",
    f"{_I}multi.stream": "one stream",
    f"{_I}enableDruid": "a password stands in the environment, or in a file",
    f"{_I}pwdPublicKey": "a password stands in the environment, or in a file",
    f"{_I}dbPassword": "a password stands in the environment, or in a file",
    f"{_I}connectionCharset": "character sets are those of the columns",
    f"{_I}defaultDatabaseName": "tables are named with their database",
    "canal.mq.partition": "key_columns of the sink kafka",
    "canal.mq.": "see the options of the sink kafka",
    "kafka.": "client of the sink kafka takes properties of librdkafka",
    "canal.zkServers": "two services must not run at once; no ZooKeeper",
    "canal.zookeeper": "two services must not run at once; no ZooKeeper",
    "canal.destinations": "each instance is a [[source]]: migrate each one's instance.properties",
    "canal.": "the service has its own: replica-client run --example",
    "rocketmq.": "no such sink",
    "rabbitmq.": "no such sink",
    "pulsarmq.": "no such sink",
}


def migrate_canal(paths: Sequence[Path], offset: Path | None) -> Migrated:
    """Convert a configuration of Canal, and its position, to ours.

    Args:
        paths: instance.properties, and optionally canal.properties; the first file with a key
            counts.
        offset: meta.dat.

    Raises:
        ConfigError: it is no such configuration; the message says why, and shows no value.
        OSError: a file cannot be read.
    """
    values: dict[str, str] = {}
    for path in paths:
        values = {**read_properties(path), **values}
    keys, made = Keys(values), Migrated("Canal")
    address = keys.take(f"{_I}master.address")
    if not address and f"{_I}dbUsername" not in keys:
        raise ConfigError(
            f"{paths[0]}: canal.instance.master.address: missing; is this instance.properties?"
        )
    made.source["name"] = name_of(paths[0].absolute().parent.name, "canal")
    host, _, port = address.rpartition(":") if ":" in address else (address, "", "")
    made.set_url("mysql", keys.take(f"{_I}dbUsername"), host, port)
    if password := keys.take(f"{_I}dbPassword"):
        made.source["password"] = made.secret(
            password, "SOURCE_PASSWORD", "the password of the source"
        )
        if keys.take(f"{_I}enableDruid") == "true":
            made.remarks.append("Canal has the password encrypted: the variable holds it in plain.")
    if server_id := keys.number(f"{_I}mysql.slaveId"):
        made.source["server_id"] = server_id
    _tables(made, keys)
    _sink(made, keys)
    start = _start(keys)
    if offset is not None:
        saved = read_meta(offset)
        start = saved.start
        made.remarks += saved.remarks
    if start:
        made.source["start"] = start
    keys.give_up_rest(_NOT_NEEDED)
    made.finish(keys)
    return made


def _tables(made: Migrated, keys: Keys) -> None:
    for ours, theirs in (("tables", "regex"), ("exclude", "black.regex")):
        key = f"{_I}filter.{theirs}"
        found = list(_patterns(made, keys, key))
        if not found and ours == "tables" and keys.take(key):
            found = made.no_table()
        if found and found != ["*.*"]:
            made.source[ours] = found
    _fields(made, keys)


def _fields(made: Migrated, keys: Keys) -> None:
    """Convert the lists of wanted and unwanted columns: ``db.table:column/column,…``."""
    for name in ("field", "black.field"):
        key = f"{_I}filter.{name}"
        for one in list_of(keys.take(key)):
            expression, _, columns = one.partition(":")
            tables = names_of(expression, 2)
            names = [column.strip() for column in columns.split("/") if column.strip()]
            if tables is None or not names:
                keys.give_up(key, "columns of the source, or drop of a [[source.transform]]")
                made.unprotected.append(key)
                continue
            for table in tables:
                pattern = ".".join(table)
                if name == "field":
                    made.transforms.append({"tables": [pattern], "keep": names})
                else:
                    made.drop({pattern: names})


def _patterns(made: Migrated, keys: Keys, key: str) -> Iterator[str]:
    for expression in list_of(keys.take(key)):
        names = names_of(expression, 2)
        if names is None:
            keys.give_up(key, "a regular expression in it has no pattern: tables and exclude")
            if "black" in key:
                made.unprotected.append(key)
        for one in names or ():
            yield ".".join(one)


def _sink(made: Migrated, keys: Keys) -> None:
    sink, mode = made.sink, keys.take("canal.serverMode")
    if mode.lower() == "kafka":
        servers = keys.take("kafka.bootstrap.servers")
        servers = servers or made.secret("", "KAFKA_BOOTSTRAP_SERVERS", "the brokers, as host:port")
        sink.update(type="kafka", bootstrap_servers=servers, topic_prefix="canal")
        topic = keys.take("canal.mq.topic") or "canal"
        sink.update(topic=topic, schema_topic=topic)
        if keys.take("canal.mq.dynamicTopic") in (".*\\..*", ".*\\\\..*"):
            sink["topic"] = "{database}_{table}"
        elif keys.take("canal.mq.dynamicTopic"):
            keys.give_up("canal.mq.dynamicTopic", "topic of the sink kafka is a template")
        if keys.take("canal.mq.flatMessage") == "false":
            keys.give_up("canal.mq.flatMessage", "messages are JSON (flatMessage = true)")
    else:
        sink.update(type="file", path="changes")
        if mode and mode.lower() != "tcp":
            keys.give_up("canal.serverMode", "no such sink; changes go to files")
        else:
            made.remarks.append("Clients of Canal's TCP server read from a sink: here files.")
    sink["format"] = "canal"


def _start(keys: Keys) -> str:
    """Return the start that an instance without meta.dat is configured with."""
    gtid = keys.take(f"{_I}master.gtid")
    file, at = keys.take(f"{_I}master.journal.name"), keys.take(f"{_I}master.position")
    when = keys.take(f"{_I}master.timestamp")
    if gtid:
        return gtid
    if file:
        return f"{file}:{at or 4}"
    if when.isdecimal() and int(when):
        moment = datetime.datetime.fromtimestamp(int(when) / 1000, datetime.UTC)
        return moment.isoformat(timespec="seconds")
    return ""


def read_meta(path: Path) -> SavedOffset:
    """Read the position of the only client in an instance's meta.dat.

    Raises:
        ConfigError: there is no position, or there are several.
        OSError: the file cannot be read.
    """
    try:
        found: Any = json.loads(read_bounded(path).decode("utf-8-sig"))
        clients = found["clientDatas"]
        if len(clients) != 1:
            raise ConfigError(
                f"{path}: it must hold the position of one client, not of {len(clients)}"
            )
        cursor = clients[0]["cursor"]
        # "postion" is Canal's own spelling.
        entry = cursor.get("postion") or cursor["position"]
        gtid = str(entry.get("gtid") or "")
        if gtid:
            (GtidSet if ":" in gtid else MariadbGtidSet).parse(gtid)
            return SavedOffset(gtid)
        file, at = str(entry["journalName"]), int(entry["position"])
        if not file or ":" in file or at < 0:
            raise ValueError
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{path}: this is not a meta.dat of Canal") from None
    remark = (
        "Canal's position is the beginning of the last entry that was taken. Where that is no end of a transaction, "
        "the first run says so and stops: write a GTID set, or the beginning of the transaction."
    )
    return SavedOffset(f"{file}:{at}", (remark,))
