"""Debezium's schema history: the DDL statements that its connector had read, from its file or its Kafka topic.

A record is a line of JSON (the value of a record of the topic)::

    {"source": {"server": "shop"}, "position": {"file": "binlog.000003", "pos": 1472, "gtids": "…", "snapshot": true},
     "databaseName": "shop", "ddl": "ALTER TABLE orders ADD COLUMN note TEXT", "tableChanges": […]}

A record has the position before its statement. The statements before an offset are applied to an empty history, as if
the binlog had been read from its begin. A statement that is not understood leaves its table unproven, as in a stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from replica_client.errors import ConfigError, GtidFormatError, install_command
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.protocol.position import Position, split_file_name
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.stream.transactions.arguments import parse_start

_MAX_BYTES: Final = 1 << 30
_SECONDS: Final = 20.0
_DEFAULTS: Final = re.compile(r"SET\s.*\bcharacter_set_server\s*=\s*(\w+)", re.IGNORECASE)
_FORM: Final = "is no record of Debezium's schema history"


def read_history(origin: str, server: str, start: str, *, is_mariadb: bool) -> SchemaHistory:
    """Read the table definitions at an offset.

    Args:
        origin: a file, or ``kafka://HOST:PORT/TOPIC``.
        server: ``topic.prefix`` of the connector; records of others are left out.
        start: the offset: a GTID set, or ``FILE:OFFSET``.
        is_mariadb: whether the source is a MariaDB.

    Raises:
        ConfigError: it is no schema history, or has no table before the offset.
        OSError: the file cannot be read.
    """
    lines = _of_topic(origin) if origin.startswith("kafka://") else _of_file(Path(origin))
    offset = parse_start(start, "latest")
    if not isinstance(offset, Position):
        raise ConfigError(f"{start!r} is no offset")
    history = SchemaHistory()
    flavor = ServerFlavor.MARIADB if is_mariadb else ServerFlavor.MYSQL
    charset: str | None = None
    for number, line in enumerate(lines, 1):
        where = f"{origin}, record {number}"
        record = _record(line, where)
        if record is None or str(record["source"].get("server", server)) != server:
            continue
        if not _is_before(record["position"], offset, where):
            continue
        statement = str(record.get("ddl") or "")
        if found := _DEFAULTS.match(statement):
            charset = found[1].lower()
            continue
        database = str(record.get("databaseName") or "")
        history.run(statement, StatementContext(database, flavor, server_charset=charset))
    if not any(isinstance(history.table(name), TableModel) for name in history.known_tables()):
        raise ConfigError(
            f"{origin}: no table of the server {server!r} is defined before the offset {start:.80}; "
            "give the schema history of the same connector as the offset"
        )
    return history


def _record(line: str, where: str) -> dict[str, Any] | None:
    """Parse a record; return None for an empty line, and for a record without a statement."""
    if not line.strip():
        return None
    try:
        found: Any = json.loads(line)
        if isinstance(found, dict) and "payload" in found and "position" not in found:
            found = found["payload"]  # a converter with schemas
        if not isinstance(found["source"], dict) or not isinstance(found["position"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{where} {_FORM}") from None
    return found if found.get("ddl") else None


def _is_before(at: Mapping[str, Any], offset: Position, where: str) -> bool:
    """Return whether a statement was read before an offset.

    A record of the snapshot is of the offset itself. The statement of any other one comes right after the record's
    position, so at the same position it comes again with the binlog.

    Raises:
        ConfigError: the positions cannot be compared.
    """
    in_snapshot = str(at.get("snapshot") or "false").lower() not in ("false", "")
    gtids = str(at.get("gtids") or "").replace("\n", "")
    try:
        if offset.gtid_set is not None:
            if not gtids:
                return True  # of a time before the source had GTIDs
            mine = parse_gtid_set(gtids)
            return _is_part(mine, offset.gtid_set) and (in_snapshot or mine != offset.gtid_set)
        record = Position(str(at["file"]), int(at["pos"]))
    except (GtidFormatError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{where} {_FORM}: it has no position") from None
    if split_file_name(record.file)[0] != split_file_name(offset.file)[0]:
        raise ConfigError(
            f"{where}: it is in {record.file}, and the offset in {offset.file}: files of another name cannot be "
            "compared; take snapshot = true instead of the offset"
        )
    return record < offset or (in_snapshot and record == offset)


def _is_part(mine: GtidSet | MariadbGtidSet, other: GtidSet | MariadbGtidSet) -> bool:
    if isinstance(mine, GtidSet) and isinstance(other, GtidSet):
        return mine.issubset(other)
    if isinstance(mine, MariadbGtidSet) and isinstance(other, MariadbGtidSet):
        return mine.issubset(other)
    raise ValueError


def _of_file(path: Path) -> Iterator[str]:
    if path.stat().st_size > _MAX_BYTES:
        raise ConfigError(f"{path}: more than {_MAX_BYTES >> 30} GiB; this is no schema history")
    try:
        with path.open(encoding="utf-8-sig") as lines:
            yield from lines
    except UnicodeDecodeError:
        raise ConfigError(f"{path} {_FORM}: it is not UTF-8 text") from None


def _of_topic(url: str) -> Iterable[str]:
    """Read the values of a topic with one partition, to its present end.

    Raises:
        ConfigError: the topic cannot be read.
    """
    try:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
    except ImportError:
        raise ConfigError(f"{url}: {install_command('kafka')}") from None
    parts = urlsplit(url)
    topic = parts.path.strip("/")
    if not parts.hostname or not topic or "/" in topic:
        raise ConfigError(f"{url}: write kafka://HOST:PORT/TOPIC")
    consumer = Consumer(
        {
            "bootstrap.servers": parts.netloc,
            "group.id": "replica_client.migrate",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    found, size = [], 0
    try:
        partition = TopicPartition(topic, 0, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(partition, timeout=_SECONDS)
        consumer.assign([partition])
        reached = 0
        while reached < end:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise ConfigError(f"{url}: no record came within {_SECONDS:g} s")
            if (error := message.error()) is not None:
                raise ConfigError(f"{url}: {error.str()}")
            value = message.value() or b""
            if (size := size + len(value)) > _MAX_BYTES:
                raise ConfigError(
                    f"{url}: more than {_MAX_BYTES >> 30} GiB; this is no schema history"
                )
            found.append(value.decode("utf-8", "replace"))
            reached = message.offset() + 1
    except KafkaException as error:
        raise ConfigError(
            f"{url}: {error.args[0].str()}; a broker with TLS or a login: write the topic to a file with "
            "kafka-console-consumer"
        ) from None
    finally:
        consumer.close()
    return found
