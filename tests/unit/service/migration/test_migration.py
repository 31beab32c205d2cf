"""Configurations of other tools as ours: what is taken is right, what is not is named, and no secret is written."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from replica_client.cli.main import main
from replica_client.errors import ConfigError
from replica_client.service.checking import check
from replica_client.service.config_file import read_config
from replica_client.service.migration.debezium_offsets import read_offset
from replica_client.service.migration.from_canal import migrate_canal, read_meta
from replica_client.service.migration.from_debezium import migrate_debezium
from replica_client.service.migration.from_maxwell import migrate_maxwell, read_maxwell_position
from replica_client.service.migration.migrated import Migrated, list_of, names_of, read_properties

# Written by the engine 3.6.3 while it followed a MySQL 9.7.
OFFSETS = Path(__file__).parent / "data" / "debezium-3.6.3-offsets.dat"
SECRET = "hunter2-do-not-show"
UUID = "61d0fe8f-e924-11f1-ba66-02fc00000001"


def accepted(made: Migrated, directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The configuration, after our own checker has found no fault in it."""
    assert SECRET not in made.text()
    path = directory / "made.toml"
    path.write_text(made.text())
    values = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "NATS_URL": "nats://nats:4222"}
    values["SCHEMA_REGISTRY_URL"] = "http://registry:8081"
    for name in made.variables:
        monkeypatch.setenv(name, values.get(name, "https://x/" if name == "HTTP_URL" else "x"))
    assert check(read_config(path)) == []
    return tomllib.loads(made.text())


def written(path: Path, text: str | dict[str, Any]) -> Path:
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def keys_of(made: Migrated) -> set[str]:
    return {one.key for one in made.not_taken}


CONNECTOR_ALONE = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "database.hostname": "db1",
    "database.user": "repl",
    "topic.prefix": "shop",
    "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
}
CONNECTOR = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "tasks.max": "1",
    "database.hostname": "db1",
    "database.port": "3307",
    "database.user": "repl@x",
    "database.password": SECRET,
    "database.server.id": "85744",
    "topic.prefix": "shop",
    "table.include.list": "shop\\.orders,shop\\.(users|items),crm[.].*",
    "column.exclude.list": "shop\\.users\\.password",
    "column.mask.with.5.chars": "shop.users.name",
    "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
    "schema.history.internal.kafka.topic": "history",
    "snapshot.mode": "initial",
    "tombstones.on.delete": "false",
    "decimal.handling.mode": "string",
    "provide.transaction.metadata": "true",
    "message.key.columns": "shop.orders:customer,id",
    "heartbeat.interval.ms": "5000",
    "max.queue.size": "8192",
    "some.new.key": SECRET,
}


def test_a_connector_of_kafka_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "shop.json", {"name": "shop-connector", "config": CONNECTOR})
    made = migrate_debezium(path, OFFSETS)
    found = accepted(made, tmp_path, monkeypatch)
    (source,) = found["source"]
    (sink,) = source.pop("sink")
    transforms = source.pop("transform")
    assert source == {
        "name": "shop",
        "url": "mysql://repl%40x@db1:3307/",
        "password": "${SOURCE_PASSWORD}",
        "server_id": 85744,
        "tables": ["shop.orders", "shop.users", "shop.items", "crm.*"],
        "heartbeat": 5.0,
        "start": f"{UUID}:1-6",
    }
    assert transforms == [
        {
            "tables": ["shop.users"],
            "keep": ["*"],
            "drop": ["password"],
            "mask": {"name": "*****"},
        }
    ]
    assert sink == {
        "type": "kafka",
        "bootstrap_servers": "kafka:9092",
        "topic_prefix": "shop",
        "tombstones_on_delete": False,
        "key_columns": {"shop.orders": ["customer", "id"]},
        "format": "debezium",
        "format_options": {
            "decimal_handling_mode": "string",
            "skipped_operations": "t",
            "provide_transaction_metadata": True,
        },
    }
    # Every key is either in the configuration, or named.
    assert keys_of(made) == {
        *("tasks.max", "name", "schema.history.internal.kafka.topic", "max.queue.size"),
        "some.new.key",
    }
    assert any("inside a transaction" in remark for remark in made.remarks)


@pytest.mark.parametrize(
    ("more", "registry"),
    [
        (
            {
                "key.converter": "io.confluent.connect.avro.AvroConverter",
                "key.converter.schema.registry.url": "http://registry:8081",
                "value.converter": "io.confluent.connect.avro.AvroConverter",
                "value.converter.schema.registry.url": "http://registry:8081",
                "value.converter.basic.auth.credentials.source": "USER_INFO",
                "value.converter.basic.auth.user.info": f"writer:{SECRET}",
            },
            {
                "url": "http://registry:8081",
                "username": "writer",
                "password": "${SCHEMA_REGISTRY_PASSWORD}",
            },
        ),
        (
            {
                "debezium.format.key": "avro",
                "debezium.format.value": "avro",
                "value.converter.schema.registry.url": f"http://writer:{SECRET}@registry:8081",
            },
            {"url": "${SCHEMA_REGISTRY_URL}"},
        ),
    ],
)
def test_a_connector_that_writes_avro(
    more: dict[str, str],
    registry: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = written(tmp_path / "shop.json", {"name": "x", "config": {**CONNECTOR, **more}})
    made = migrate_debezium(path, None)
    ((sink,),) = (one["sink"] for one in accepted(made, tmp_path, monkeypatch)["source"])
    assert sink["format"] == "avro"
    assert sink["registry"] == registry
    assert "schemas_enable" not in sink["format_options"]
    assert not {key for key in keys_of(made) if "converter" in key or "format" in key}


@pytest.mark.parametrize(
    ("keys", "taken", "not_taken"),
    [
        # The sets of options that the captured output of the real engine was made with.
        (
            {"include.schema.changes": "true", "converter.schemas.enable": "true"}
            | {"provide.transaction.metadata": "true", "skipped.operations": "none"},
            {"schemas_enable": True, "skipped_operations": "none", "include_schema_changes": True}
            | {"provide_transaction_metadata": True},
            set(),
        ),
        (
            {"converter.schemas.enable": "false", "decimal.handling.mode": "string"}
            | {"time.precision.mode": "connect", "bigint.unsigned.handling.mode": "precise"}
            | {"binary.handling.mode": "base64", "skipped.operations": "none"},
            {"decimal_handling_mode": "string", "time_precision_mode": "connect"}
            | {"bigint_unsigned_handling_mode": "precise", "binary_handling_mode": "base64"}
            | {"skipped_operations": "none"},
            set(),
        ),
        (
            {"snapshot.mode": "no_data", "converter.schemas.enable": "false"}
            | {"decimal.handling.mode": "double", "time.precision.mode": "isostring"}
            | {"binary.handling.mode": "hex", "tombstones.on.delete": "false"},
            {"decimal_handling_mode": "double", "time_precision_mode": "isostring"}
            | {"binary_handling_mode": "hex", "skipped_operations": "t"},
            {"tombstones.on.delete"},
        ),
        (
            {"include.schema.changes": "false", "converter.schemas.enable": "false"}
            | {"decimal.handling.mode": "string", "transforms": "unwrap"}
            | {"transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
            | {"transforms.unwrap.add.fields": "op,table", "skipped.operations": "none"},
            {"include_schema_changes": False, "decimal_handling_mode": "string"}
            | {"skipped_operations": "none"},
            {"transforms.unwrap.type", "transforms.unwrap.add.fields"},
        ),
    ],
)
def test_embedded_engines(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: dict[str, str],
    taken: dict[str, Any],
    not_taken: set[str],
) -> None:
    whole = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "topic.prefix": "dbz",
        "database.server.id": "85744",
        **keys,
    }
    made = migrate_debezium(written(tmp_path / "engine.json", whole), None)
    (source,) = accepted(made, tmp_path, monkeypatch)["source"]
    assert source["url"] == "mysql://${SOURCE_USER}@${SOURCE_HOST}/"
    (sink,) = source["sink"]
    assert sink["format_options"] == {"topic_prefix": "dbz", **taken}
    assert sink["type"] == "file"
    assert sink["snapshot"] is (keys.get("snapshot.mode") != "no_data")
    assert keys_of(made) == not_taken


def test_the_server_with_redis_and_an_outbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""\
# a comment
debezium.sink.type=redis
debezium.sink.redis.address = redis:6380
debezium.sink.redis.password : {SECRET}
debezium.source.connector.class=io.debezium.connector.mariadb.MariaDbConnector
debezium.source.offset.storage.file.filename=data/offsets.dat
debezium.source.database.hostname=db1
debezium.source.database.user=repl
debezium.source.database.password=${{env:DB_SECRET}}
debezium.source.topic.prefix=app
debezium.source.table.include.list=app\\\\.outbox, \\
    app\\\\.outbox_old
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.route.by.field=kind
debezium.transforms.outbox.route.topic.replacement=events.${{routedByValue}}
debezium.transforms.outbox.table.fields.additional.placement=type:header:eventType,x:envelope
debezium.format.value=json
quarkus.log.level=INFO
"""
    made = migrate_debezium(written(tmp_path / "application.properties", text), None)
    (source,) = accepted(made, tmp_path, monkeypatch)["source"]
    assert source["url"] == "mariadb://repl@db1/"
    assert source["password"] == "${DB_SECRET}"
    assert source["tables"] == ["app.outbox", "app.outbox_old"]
    assert source["transform"] == [
        {
            "tables": ["app.outbox", "app.outbox_old"],
            "outbox": {
                "route": "kind",
                "topic": "events.{route}",
                "headers": {"eventType": "type"},
            },
        }
    ]
    (sink,) = source["sink"]
    assert sink["url"] == "redis://:${REDIS_PASSWORD}@redis:6380/0"
    assert keys_of(made) == {
        *("offset.storage.file.filename", "quarkus.log.level"),
        "debezium.transforms.outbox.table.fields.additional.placement",
    }


def test_values_that_are_none_of_ours_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are neither written, which our checker would refuse, nor left out silently."""
    wrong = {
        "time.precision.mode": "adaptive",
        "provide.transaction.metadata": "perhaps",
        "heartbeat.interval.ms": "5s",
        "skipped.operations": "r",
        "database.ssl.mode": "some",
        "snapshot.mode": "custom",
        "snapshot.locking.mode": "extended",
        "signal.enabled.channels": "kafka",
    }
    made = migrate_debezium(written(tmp_path / "a.json", {**CONNECTOR, **wrong}), None)
    accepted(made, tmp_path, monkeypatch)
    assert set(wrong) <= keys_of(made)


def test_what_no_pattern_says_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving the list out would read all tables."""
    keys = {**CONNECTOR, "table.include.list": "shop\\.(?!secret).*"}
    made = migrate_debezium(written(tmp_path / "a.json", keys), None)
    (source,) = accepted(made, tmp_path, monkeypatch)["source"]
    assert source["tables"] == ["fill_in.these_tables"]
    assert "table.include.list" in keys_of(made)


def test_maxwell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""\
host=db1
user=maxwell
password={SECRET}
producer=kafka
kafka.bootstrap.servers=kafka:9092
kafka.linger.ms=5
kafka_topic=mx_%{{database}}_%{{table}}
filter=exclude: *.*, include: shop.*, include: crm./user.*/, exclude: shop.secrets
output_binlog_position=true
output_xoffset=true
output_push_timestamp=true
ssl=VERIFY_CA
gtid_mode=true
javascript={SECRET}
init_position=binlog.000007:1234:0
"""
    made = migrate_maxwell(written(tmp_path / "config.properties", text), None)
    (source,) = accepted(made, tmp_path, monkeypatch)["source"]
    (sink,) = source.pop("sink")
    assert source == {
        "name": "maxwell",
        "url": "mysql://maxwell@db1/",
        "password": "${SOURCE_PASSWORD}",
        "tls": "verify-ca",
        # The program in `javascript` may hide values.
        "tables": ["fill_in.these_tables"],
        "exclude": ["shop.secrets"],
        "start": "binlog.000007:1234",
    }
    assert sink["topic"] == "mx_{database}_{table}"
    assert sink["format_options"] == {
        "output_ddl": False,
        "output_binlog_position": True,
        "output_xoffset": True,
    }
    assert keys_of(made) == {
        *("kafka.linger.ms", "output_push_timestamp", "gtid_mode", "javascript")
    }


_SMT = "org.apache.kafka.connect.transforms."
_NOTHING = ["fill_in.these_tables"]
_DROPPED = [{"tables": ["shop.users"], "keep": ["*"], "drop": ["email"]}]
PROTECTIONS: dict[str, tuple[str, dict[str, str], Any]] = {
    "hash": (
        "debezium",
        {"column.mask.hash.SHA-256.with.salt.x": "shop\\.users\\.email"},
        _DROPPED,
    ),
    "hash v2": (
        "debezium",
        {"column.mask.hash.v2.SHA-256.with.salt.x": "shop.users.email"},
        _DROPPED,
    ),
    "hash by regex": ("debezium", {"column.mask.hash.SHA-256.with.salt.x": "(?i)shop.*mail"}, None),
    "mask by regex": ("debezium", {"column.mask.with.5.chars": "shop\\.[a-z]+\\.email"}, None),
    "long mask": ("debezium", {"column.mask.with.10000.chars": "shop\\.users\\.email"}, _DROPPED),
    "excluded by regex": ("debezium", {"column.exclude.list": "shop\\.(?!t).*\\.email"}, None),
    "included": (
        "debezium",
        {"column.include.list": "shop\\.users\\.id,shop\\.users\\.name"},
        [{"tables": ["shop.users"], "keep": ["id", "name"]}],
    ),
    "tables excluded by regex": ("debezium", {"table.exclude.list": "shop\\.(?!t).*"}, None),
    "field masked": (
        "debezium",
        {
            "transforms": "m",
            "transforms.m.type": f"{_SMT}MaskField$Value",
            "transforms.m.fields": "email",
        },
        _DROPPED,
    ),
    "field left out": (
        "debezium",
        {
            "transforms": "m",
            "transforms.m.type": f"{_SMT}ReplaceField$Value",
            "transforms.m.exclude": "email",
        },
        _DROPPED,
    ),
    "filter": (
        "debezium",
        {"transforms": "f", "transforms.f.type": "io.debezium.transforms.Filter"},
        None,
    ),
    "transform of their own": (
        "debezium",
        {"transforms": "f", "transforms.f.type": "com.example.Encrypt"},
        None,
    ),
    "converter of their own": ("debezium", {"value.converter": "com.example.Encrypting"}, None),
    "column converter": ("debezium", {"converters": "c", "c.type": "com.example.Mask"}, None),
    "encrypted": ("maxwell", {"encrypt": "data", "secret_key": "k"}, None),
    "program": ("maxwell", {"javascript": "filter.js"}, None),
    "excluded columns": (
        "maxwell",
        {"exclude_columns": "email", "filter": "exclude: *.*, include: shop.users"},
        _DROPPED,
    ),
    "tables excluded by regex of Maxwell": ("maxwell", {"filter": "exclude: shop./[ab]c/"}, None),
    "excluded fields": (
        "canal",
        {"canal.instance.filter.black.field": "shop.users:email"},
        _DROPPED,
    ),
    "wanted fields": (
        "canal",
        {"canal.instance.filter.field": "shop.users:id/name"},
        [{"tables": ["shop.users"], "keep": ["id", "name"]}],
    ),
    "fields by regex": (
        "canal",
        {"canal.instance.filter.black.field": "shop\\.[a-z]+:email"},
        None,
    ),
    "tables excluded by regex of Canal": (
        "canal",
        {"canal.instance.filter.black.regex": "shop\\.[ab]+"},
        None,
    ),
}


@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_hides_values_is_taken_over_or_nothing_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, keys, transforms = PROTECTIONS[name]
    path = tmp_path / "a.properties"
    if tool == "debezium":
        given = {"table.include.list": "shop\\.users", **CONNECTOR_ALONE, **keys}
        made = migrate_debezium(written(tmp_path / "a.json", given), None)
    elif tool == "maxwell":
        lines = {"host": "db1", "user": "maxwell", "producer": "stdout", **keys}
        made = migrate_maxwell(
            written(path, "".join(f"{one}={lines[one]}\n" for one in lines)), None
        )
    else:
        lines = {
            "canal.instance.master.address": "db1:3306",
            "canal.instance.dbUsername": "c",
            **keys,
        }
        text = "".join(f"{one}={value}\n".replace("\\", "\\\\") for one, value in lines.items())
        made = migrate_canal([written(path, text)], None)
    (source,) = accepted(made, tmp_path, monkeypatch)["source"]
    if transforms is None:
        assert source["tables"] == _NOTHING
        assert any("hides values or rows" in one for one in made.remarks)
    else:
        assert source.get("tables") != _NOTHING
        assert source["transform"] == transforms


def test_a_condition_on_a_value_leaves_out_the_table(tmp_path: Path) -> None:
    text = "host=db1\nuser=m\nproducer=stdout\nfilter=exclude: shop.users.state = draft\n"
    made = migrate_maxwell(written(tmp_path / "a.properties", text), None)
    assert made.source["exclude"] == ["shop.users"]


def test_tables_are_those_that_both_lists_name(tmp_path: Path) -> None:
    keys = {"table.include.list": ".*\\.users,crm\\.orders", "database.include.list": "shop"}
    made = migrate_debezium(written(tmp_path / "a.json", {**CONNECTOR_ALONE, **keys}), None)
    assert made.source["tables"] == ["shop.users"]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('{"binlog_file": "b.000001", "binlog_position": 77, "gtid_set": null}', "b.000001:77"),
        (
            f'[{{"binlog_file": "b.1", "binlog_position": 7, "gtid_set": "{UUID}:1-5"}}]',
            f"{UUID}:1-5",
        ),
        (
            "server_id\tbinlog_file\tbinlog_position\tgtid_set\n1\tb.000002\t4\tNULL\n",
            "b.000002:4",
        ),
        ("binlog_file\tbinlog_position\tgtid_set\nb.1\t4\t0-1-77\n", "0-1-77"),
    ],
)
def test_positions_of_maxwell(tmp_path: Path, text: str, start: str) -> None:
    assert read_maxwell_position(written(tmp_path / "row", text)).start == start


META = {
    "clientDatas": [
        {
            "clientIdentity": {"clientId": 1001, "destination": "example", "filter": ""},
            "cursor": {
                "identity": {
                    "slaveId": -1,
                    "sourceAddress": {"address": "localhost", "port": 3306},
                },
                "postion": {
                    "gtid": "",
                    "included": False,
                    "journalName": "mysql-bin.000003",
                    "position": 12345,
                    "serverId": 1,
                    "timestamp": 1567580900000,
                },
            },
        }
    ],
    "destination": "example",
}


def test_canal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "example"
    directory.mkdir()
    instance = f"""\
canal.instance.gtidon=false
canal.instance.master.address=127.0.0.1:3306
canal.instance.master.journal.name=
canal.instance.tsdb.enable=true
canal.instance.dbUsername=canal
canal.instance.dbPassword={SECRET}
canal.instance.connectionCharset = UTF-8
canal.instance.enableDruid=false
canal.instance.filter.regex=shop\\\\..*,crm\\\\.users
canal.instance.filter.black.regex=shop\\\\.slave_.*
canal.mq.topic=example
canal.mq.dynamicTopic=.*\\\\..*
canal.mq.partition=0
"""
    server = f"""\
canal.serverMode = kafka
kafka.bootstrap.servers = kafka:9092
canal.mq.flatMessage = true
canal.zkServers =
canal.aliyun.secretKey = {SECRET}
"""
    paths = [
        written(directory / "instance.properties", instance),
        written(tmp_path / "canal.properties", server),
    ]
    made = migrate_canal(paths, written(tmp_path / "meta.dat", META))
    (source,) = accepted(made, tmp_path, monkeypatch)["source"]
    (sink,) = source.pop("sink")
    assert source == {
        "name": "example",
        "url": "mysql://canal@127.0.0.1:3306/",
        "password": "${SOURCE_PASSWORD}",
        "tables": ["shop.*", "crm.users"],
        "exclude": ["shop.slave_*"],
        "start": "mysql-bin.000003:12345",
    }
    assert sink == {
        "type": "kafka",
        "bootstrap_servers": "kafka:9092",
        "topic_prefix": "canal",
        "topic": "{database}_{table}",
        "schema_topic": "example",
        "format": "canal",
    }
    assert keys_of(made) == {
        *(
            "canal.instance.gtidon",
            "canal.instance.tsdb.enable",
            "canal.instance.connectionCharset",
            "canal.mq.partition",
        ),
        *("canal.zkServers", "canal.aliyun.secretKey"),
    }
    assert any("first run says so" in remark for remark in made.remarks)


@pytest.mark.parametrize(
    ("position", "start"),
    [
        ({"gtid": f"{UUID}:1-9", "journalName": "b.1", "position": 4}, f"{UUID}:1-9"),
        ({"gtid": "", "journalName": "b.1", "position": 4}, "b.1:4"),
    ],
)
def test_positions_of_canal(tmp_path: Path, position: dict[str, Any], start: str) -> None:
    meta = {"clientDatas": [{"cursor": {"postion": position}}]}
    assert read_meta(written(tmp_path / "meta.dat", meta)).start == start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('{"file": "b.1", "pos": 4}', "b.1:4"),
        ('["shop",{"server":"shop"}]\t{"file":"b.1","pos":4}', "b.1:4"),
        (
            '["shop",{"server":"shop"}]\t{"file":"b.1","pos":4}\n'
            '["shop",{"server":"other"}]\t{"file":"b.9","pos":4}\n'
            '["shop",{"server":"shop"}]\t{"file":"b.1","pos":99}\n',
            "b.1:99",
        ),
        (
            '{"offsets": [{"partition": {"server": "shop"}, "offset": {"file": "b", "pos": 5, '
            '"gtids": "0-1-7"}}]}',
            "0-1-7",
        ),
    ],
)
def test_offsets_of_kafka(tmp_path: Path, text: str, start: str) -> None:
    assert read_offset(written(tmp_path / "offsets", text), "shop").start == start


def test_offsets_of_the_real_engine() -> None:
    found = read_offset(OFFSETS, "dbz")
    assert found.start == f"{UUID}:1-6"


def test_hostile_bytes_are_refused_with_one_line(tmp_path: Path) -> None:
    """Cut, changed and random offsets: a text that names the file, and never another error."""
    data, chance = OFFSETS.read_bytes(), random.Random(1)
    path = tmp_path / "offsets.dat"
    refused = 0
    for number in range(3000):
        made = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            made[chance.randrange(len(made))] = chance.randrange(256)
        if number % 3 == 0:
            del made[chance.randrange(len(made)) :]
        path.write_bytes(made)
        try:
            read_offset(path, "dbz")
        except ConfigError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 1500


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_meta, "{}"),
        (read_meta, '{"clientDatas": [1]}'),
        (read_meta, '{"clientDatas": []}'),
        (read_maxwell_position, ""),
        (read_maxwell_position, "[1]"),
        (read_maxwell_position, '{"binlog_file": "a"}'),
    ],
)
def test_other_positions_that_are_none(tmp_path: Path, read: Any, text: str) -> None:
    with pytest.raises(ConfigError, match="position"):
        read(written(tmp_path / "position", text))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("shop\\.orders", [["shop", "orders"]]),
        ("shop.orders", [["shop", "orders"]]),
        ("shop[.]order_.*", [["shop", "order_*"]]),
        ("^shop\\..+$", [["shop", "?*"]]),
        ("shop\\.(a|b)", [["shop", "a"], ["shop", "b"]]),
        ("(shop\\.a|crm\\.b)", [["shop", "a"], ["crm", "b"]]),
        ("a\\.b|c\\.d", [["a", "b"], ["c", "d"]]),
        (".*\\..*", [["*", "*"]]),
        (".*", [["*", "*"]]),
        ("shop_\\w*\\.t", [["shop_*", "t"]]),
        ("shop\\.orders?", None),
        ("shop\\.[a-c]+", None),
        ("shop\\.(?!x).*", None),
        ("shop", None),
        ("a\\.b\\.c", None),
        ("shop\\.a{2}", None),
        ("shop\\.((a|b)c|d)", None),
    ],
)
def test_expressions(expression: str, names: list[list[str]] | None) -> None:
    assert names_of(expression, 2) == names


def test_lists_with_commas_in_expressions() -> None:
    assert list_of("a\\.b{1,2}, c\\.(d,e) ,f") == ["a\\.b{1,2}", "c\\.(d,e)", "f"]


def test_properties_as_java_reads_them(tmp_path: Path) -> None:
    text = (
        "a=1\n  b : two words \n!c\n# d=4\ne\\ f=\\u00e4\\tx\\\\\ng=h\\\n   i\nalone\nurl=a=b:c\n"
    )
    assert read_properties(written(tmp_path / "p", text)) == {
        "a": "1",
        "b": "two words ",
        "e f": "ä\tx\\",
        "g": "hi",
        "alone": "",
        "url": "a=b:c",
    }


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "shop.json", CONNECTOR)
    output = tmp_path / "shop.toml"
    words = ["migrate", "debezium", str(path), "--offset", str(OFFSETS), "--output", str(output)]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "not taken over: some.new.key: nothing here does this" in shown.err
    assert "SOURCE_PASSWORD" in shown.err
    assert SECRET not in shown.out + shown.err + output.read_text()
    assert main(words) == 2  # it is there
    assert "this file exists" in capsys.readouterr().err
    assert main(words[:3]) == 0
    assert tomllib.loads(capsys.readouterr().out)["source"][0]["name"] == "shop"
    bad = written(tmp_path / "bad.json", {**CONNECTOR, "connector.class": "PostgresConnector"})
    assert main(["migrate", "debezium", str(bad)]) == 2
    assert "must be a MySqlConnector or MariaDbConnector" in capsys.readouterr().err
    wrong = written(tmp_path / "wrong.json", {**CONNECTOR, "database.server.id": "99999999999"})
    assert main(["migrate", "debezium", str(wrong)]) == 2
    assert "cannot be taken over" in capsys.readouterr().err
