"""Secrets in files and variables that commands read: configurations of every sink, option files, other tools' files.

Every document fails in a way of its own: nothing answers at its hosts, a key is unknown, a value has another type, or
the file is broken at the very line of the secret.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from replica_client.sinks.registry import _OWN
from tests.source.planted_secrets import MARK, output_of

_SOURCE = 'name = "shop"\nurl = "mysql://u@127.0.0.1:1/"\ntables = ["a.*"]\n'
# Keys of each sink that hold a secret, as TOML, next to what the sink needs anyway.
_SINKS: dict[str, tuple[str, ...]] = {
    "file": ('path = "x"\npassword = "{}"',),
    "stdout": ('password = "{}"',),
    "sqlite": ('path = "x.db"\nkey = "{}"',),
    "duckdb": ('path = "x.db"\npassword = "{}"',),
    "parquet": ('path = "s3://b/x?secret={}"', 'path = "x"\ntoken = "{}"'),
    "mysql": ('url = "mysql://u:{}@127.0.0.1:1/"', 'url = "mysql://u@127.0.0.1:1/"\npassword = "{}"'),
    "postgres": (
        'url = "postgresql://u:{}@127.0.0.1:1/d"',
        'url = "host=127.0.0.1 port=1 user=u password={}"',
        'url = "postgresql://u@127.0.0.1:1/d"\npassword = "{}"',
        'url = "postgresql://127.0.0.1:1/d?sslpassword={}"',
    ),
    "clickhouse": (
        'url = "http://u:{}@127.0.0.1:1/"',
        'url = "http://127.0.0.1:1/"\nuser = "u"\npassword = "{}"',
        'url = "http://127.0.0.1:1/?password={}"',
    ),
    "redis": ('url = "redis://:{}@127.0.0.1:1/0"', 'url = "redis://127.0.0.1:1/0"\npassword = "{}"',
              'url = "rediss://127.0.0.1:1/?ssl_password={}"'),
    "kafka": (
        'bootstrap_servers = "127.0.0.1:1"\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\n'
        'username = "u"\npassword = "{}"\ntimeout = 1.0\ntransaction_timeout = 1.0',
        'bootstrap_servers = "127.0.0.1:1"\nsecurity_protocol = "SSL"\ntls_key = "/nonexistent"\n'
        'tls_certificate = "/nonexistent"\ntls_key_password = "{}"\ntimeout = 1.0\ntransaction_timeout = 1.0',
        'bootstrap_servers = "127.0.0.1:1"\nclient = {{ "sasl.password" = "{}" }}',
        'bootstrap_servers = "127.0.0.1:1"\nclient = {{ "sasl.oauthbearer.client.secret" = "{}" }}\ntimeout = 1.0',
        'bootstrap_servers = "127.0.0.1:1"\nclient = {{ "sasl.jaas.config" = "x password={};" }}\ntimeout = 1.0',
        'bootstrap_servers = "127.0.0.1:1"\nformat = "avro"\ntimeout = 1.0\n'
        'registry = {{ url = "http://127.0.0.1:1", user = "u", password = "{}" }}',
        'bootstrap_servers = "127.0.0.1:1"\nformat = "avro"\nregistry = {{ url = "http://u:{}@127.0.0.1:1" }}',
    ),
    "http": (
        'url = "http://u:{}@127.0.0.1:1/"',
        'url = "http://127.0.0.1:1/"\nkey = "{}"',
        'url = "http://127.0.0.1:1/?access_token={}"',
        'url = "http://127.0.0.1:1/"\nheaders = {{ Authorization = "Bearer {}" }}',
        'url = "http://127.0.0.1:1/"\nheaders = {{ X-Api-Key = "{}\\u00e9" }}',
    ),
    "nats": ('url = "nats://u:{}@127.0.0.1:1"\nsubject = "x"\nstream = "x"', 'url = "nats://{}@127.0.0.1:1"',
             'url = "nats://u@127.0.0.1:1"\npassword = "{}"', 'url = "nats://127.0.0.1:1"\ntoken = "{}"'),
}  # fmt: skip
# What is wrong next to the secret.
_FAULTS = {
    "unreachable": "{}",
    "unknown key": "{}\nno_such_key = 1",
    "another type": "{}\nbatch_rows = 'many'",
}


@dataclasses.dataclass(frozen=True)
class Document:
    """A file with a secret, and what the program reads it with.

    Attributes:
        name: of the case.
        file: the file's name.
        text: its text.
        commands: what fails at it; ``{}`` is its path.
        environment: variables that hold a secret.
    """

    name: str
    file: str
    text: str
    commands: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


SERVICE = (
    "run --check {}",
    "run --check --connect {}",
    "snapshot {} --sink shop.x --table a.b",
    "snapshot {} --sink shop.none --table a.b",
    "position show {}",
    "position show {}#shop.none",
    "position take-over {} --sink shop.x",
    "position set {} binlog.000001:4",
    "pipeline {}",
    "lake status {}",
    "relay --check {}",
    "verify {}",
    "migrate debezium {}",
)
RELAY = ("relay --check {}", "relay --check --connect {}", "run --check {}", "pipeline {}")
LAKE = (
    "pipeline {}", "lake status {}", "lake copy {} a.b", "lake compact {}", "lake vacuum {}",
    "lake read {} --at latest --output /nonexistent/x", "verify {}", "run --check {}", "relay --check {}",
)  # fmt: skip
TOOLS = ("migrate debezium {}", "migrate maxwell {}", "migrate canal {}", "run --check {}")
_URL = "mysql://u@127.0.0.1:1/"
SOURCE = (
    "changes {}", "events {}", "doctor {}", "init {}", "backup {} /nonexistent/x", "schema show {}",
)  # fmt: skip


def _service(sink: str, source: str = _SOURCE, rest: str = "") -> str:
    return f'[daemon]\nlisten = ""\n{rest}\n[[source]]\n{source}\n[[source.sink]]\nname = "x"\n{sink}\n'


def _sinks() -> Iterator[Document]:
    assert set(_SINKS) == set(_OWN), "a sink has no row of its own here"
    for kind, forms in _SINKS.items():
        for number, form in enumerate(forms):
            text = f'type = "{kind}"\n{form.format(MARK)}'
            for fault, pattern in _FAULTS.items():
                yield Document(
                    f"{kind} {number}: {fault}", "c.toml", _service(pattern.format(text)), SERVICE
                )
            line = next(one for one in form.format(MARK).splitlines() if MARK in one)
            broken = _service(f'type = "{kind}"\n{line}"""\n')
            yield Document(f"{kind} {number}: broken", "c.toml", broken, SERVICE[:5])
            listed = _service(f'type = "{kind}"\n{form.format(MARK)}\npassword = ["{MARK}", 5]')
            yield Document(f"{kind} {number}: a list", "c.toml", listed, SERVICE[:3])


_FILE = 'type = "file"\npath = "x"'


def _sources() -> Iterator[Document]:
    for name, source in {
        "url": 'name = "shop"\nurl = "mysql://u:{}@127.0.0.1:1/"',
        "password": _SOURCE + 'password = "{}"',
        "parameter": 'name = "shop"\nurl = "mysql://u@127.0.0.1:1/?password={}"',
        "key": 'name = "shop"\nurl = "mysql://u@127.0.0.1:1/?tls_key_password={}"',
        "no scheme": 'name = "shop"\nurl = "u:{}@127.0.0.1:1"',
        "wrong type": _SOURCE + 'password = ["{}"]',
        "two": 'name = "shop"\nurl = ["mysql://u:{}@127.0.0.1:1/"]',
        "transform": _SOURCE + '[[source.transform]]\ntables = ["a.b"]\nhash = ["x"]\nkey = "{}"',
        "transform of a list": _SOURCE + '[[source.transform]]\ntables = ["a.b"]\nkey = ["{}"]',
        "short key": _SOURCE
        + '[[source.transform]]\ntables = ["a.b"]\ntokenise = ["x"]\nkey = "{}"\nno = 1',
        "broken": 'name = "shop"\nurl = "mysql://u:{}@127.0.0.1:1/',
        "broken password": _SOURCE + "password = '{}",
        "no quotes": _SOURCE + "password = {}",
    }.items():
        yield Document(f"source: {name}", "c.toml", _service(_FILE, source.format(MARK)), SERVICE)
    for name, rest in {
        "store url": '[store]\ntype = "mysql"\nurl = "mysql://u:{}@127.0.0.1:1/meta"',
        "store password": '[store]\ntype = "mysql"\nurl = "mysql://u@127.0.0.1:1/meta"\npassword = "{}"',
        "store unused": '[store]\ntype = "file"\nurl = "mysql://u:{}@127.0.0.1:1/meta"',
        "store type": '[store]\ntype = "mysql"\nurl = 5\npassword = "{}"',
        "otlp": 'otlp = "http://u:{}@127.0.0.1:1"',
        "otlp parameter": 'otlp = "http://127.0.0.1:1/?token={}"',
        "listen": 'password = "{}"',
    }.items():
        yield Document(
            f"service: {name}", "c.toml", _service(_FILE, rest=rest.format(MARK)), SERVICE
        )


def _relays() -> Iterator[Document]:
    head = '[relay]\ndirectory = "relay"\nlisten = "127.0.0.1:0"\nstatus = ""\n'
    source = '[source]\nurl = "mysql://u@127.0.0.1:1/"\n'
    account = '[[account]]\nuser = "r"\npassword = "{}"\n'
    for name, text in {
        "account": head + source + account,
        "account of a wrong plugin": head + source + account + 'plugin = "none"\n',
        "account with two": head + source + account + 'hash = "5A"\n',
        "account twice": head + source + account + account,
        "hash": head + source + '[[account]]\nuser = "r"\nhash = "{}"\n',
        "source": head + '[source]\nurl = "mysql://u:{}@127.0.0.1:1/"\n' + account.format("x" * 20),
        "source password": head + source + 'password = "{}"\nno = 1\n' + account.format("x" * 20),
        "archive": head
        + 'archive = "s3://b/x?aws_secret_access_key={}"\n'
        + source
        + account.format("x" * 20),
        "tls": head
        + source
        + account
        + '[tls]\ncertificate = "/nonexistent"\nkey_password = "{}"\n',
    }.items():
        yield Document(f"relay: {name}", "r.toml", text.format(*(MARK,) * 2), RELAY)


def _lakes() -> Iterator[Document]:
    head = f'[source]\nurl = "{_URL}"\n[pipeline]\noutput = '
    for name, text in {
        "url": '[source]\nurl = "mysql://u:{}@127.0.0.1:1/"\n[pipeline]\noutput = "lake"\n',
        "password": f'[source]\nurl = "{_URL}"\npassword = "{{}}"\n[pipeline]\noutput = "lake"\n',
        "output": head + '"s3://b/x?secret={}"\n',
        "storage": head + '"s3://b/x"\n[storage]\nsecret_access_key = "{}"\n',
        "catalogue": head + '"lake"\n[catalogue]\nuri = "http://u:{}@h/"\n',
        "catalog of a type": head
        + '"lake"\nformat = "iceberg"\ncatalog = {{type = "rest", uri = 5, token = "{}"}}\n',
        "catalog of REST": head
        + '"lake"\nformat = "iceberg"\ncatalog = {{type = "rest", uri = "http://127.0.0.1:1", '
        'token = "{}"}}\n',
        "catalog's credential": head + '"lake"\nformat = "iceberg"\ncatalog = {{type = "rest", '
        'uri = "http://u:{}@127.0.0.1:1", credential = "a:{}"}}\n',
        "catalog of SQL": head + '"lake"\nformat = "iceberg"\ncatalog = {{type = "sql", '
        'uri = "postgresql+psycopg://u:{}@127.0.0.1:1/d"}}\n',
        "catalog of no SQL": head
        + '"lake"\nformat = "iceberg"\ncatalog = {{type = "sql", uri = "u:{}@127.0.0.1"}}\n',
        "catalog without a format": head + '"lake"\ncatalog = {{type = "rest", token = "{}"}}\n',
        "catalog's store": head
        + '"s3://b/x"\nformat = "iceberg"\ncatalog = {{type = "rest", uri = "http://127.0.0.1:1", '
        '"s3.secret-access-key" = "{}", "s3.session-token" = "{}", no = ["{}"]}}\n',
        "spark": head + '5\n[spark]\n"spark.hadoop.fs.s3a.secret.key" = "{}"\n',
    }.items():
        yield Document(f"lake: {name}", "p.toml", text.format(*(MARK,) * 3), LAKE)


def _tools() -> Iterator[Document]:
    json_text = (
        '{{"name": "x", "config": {{"database.hostname": "h", "database.password": "{}", "x": '
    )
    yield Document("debezium", "d.json", json_text.format(MARK) + "1}}", TOOLS)
    yield Document("debezium, broken", "d.json", json_text.format(MARK), TOOLS)
    jaas = "database.history.producer.sasl.jaas.config=x password={};\n"
    properties = "database.hostname=h\ndatabase.password={}\n" + jaas
    yield Document("debezium properties", "d.properties", properties.format(MARK, MARK), TOOLS)
    maxwell = "host=h\nuser=u\npassword={}\nkafka.sasl.password={}\nproducer=kafka\nredis_auth={}\n"
    yield Document("maxwell", "m.properties", maxwell.format(*(MARK,) * 3), TOOLS)
    canal = "canal.instance.master.address=h:1\ncanal.instance.dbUsername=u\ncanal.instance.dbPassword={}\n"
    yield Document("canal", "instance.properties", canal.format(MARK), TOOLS)
    url = "mysql://127.0.0.1:1/?option_file={}"
    files = {
        "option file": "[client]\nuser=u\npassword={}\n",
        "option file with an unknown option": "[client]\nuser=u\npassword={}\nno-such=1\nport=none\n",
        "option file that is broken": "[client\npassword={}\n",
        "option file without a group": "password={}\n",
        "option file with a quote": "[client]\npassword='{}\nport=x\n",
        "option file with an escape": '[client]\npassword="{}\\s\nssl-ca=/nonexistent\n',
    }
    for name, text in files.items():
        commands = tuple(command.replace("{}", url) for command in SOURCE)
        yield Document(name, "my.cnf", text.format(MARK), commands)


def _variables() -> Iterator[Document]:
    text = _service(_FILE, _SOURCE + 'password = "${SHOP_PASSWORD}"\nheartbeat = "x"')
    good = _service(_FILE, _SOURCE + 'password = "${SHOP_PASSWORD}"')
    inside = _service(_FILE, 'name = "shop"\nurl = "mysql://u:${SHOP_PASSWORD}@127.0.0.1:1/"')
    bare = _service(_FILE, 'name = "shop"\nurl = "${SHOP_URL}"')
    for name, document, variables in (
        ("of the password", good, {"SHOP_PASSWORD": MARK}),
        ("of the password, another key wrong", text, {"SHOP_PASSWORD": MARK}),
        ("in the URL", inside, {"SHOP_PASSWORD": MARK}),
        ("of the URL", bare, {"SHOP_URL": f"mysql://u:{MARK}@127.0.0.1:1/"}),
        ("of a wrong URL", bare, {"SHOP_URL": f"u:{MARK}@127.0.0.1:1"}),
        ("that overrides", good, {"SHOP_PASSWORD": "x", "REPLICA_CLIENT__SOURCE__SHOP__PASSWORD": MARK}),
        ("that overrides the URL", good, {"SHOP_PASSWORD": "x",
         "REPLICA_CLIENT__SOURCE__SHOP__URL": f"mysql:/u:{MARK}@127.0.0.1"}),
        ("that overrides what is not there", good, {"SHOP_PASSWORD": "x",
         "REPLICA_CLIENT__SOURCE__NONE__PASSWORD": MARK}),
        ("of a proxy", good, {"SHOP_PASSWORD": "x", "HTTPS_PROXY": f"http://u:{MARK}@127.0.0.1:1/",
         "HTTP_PROXY": f"http://u:{MARK}@127.0.0.1:1/", "ALL_PROXY": f"socks5://u:{MARK}@127.0.0.1:1/"}),
        ("of MYSQL_PWD", good, {"SHOP_PASSWORD": "x", "MYSQL_PWD": MARK}),
        ("of a store", good, {"SHOP_PASSWORD": "x", "AWS_SECRET_ACCESS_KEY": MARK, "AWS_ACCESS_KEY_ID": "a",
         "AZURE_STORAGE_ACCOUNT_KEY": MARK, "GOOGLE_SERVICE_ACCOUNT_KEY": '{"private_key": "' + MARK + '"}'}),
        ("of OTLP", good, {"SHOP_PASSWORD": "x", "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {MARK}"}),
    ):  # fmt: skip
        yield Document(f"variable {name}", "c.toml", document, SERVICE, tuple(variables.items()))


_KEYS = tuple(
    f"{command} --key-file {{}}"
    for command in ("events {file}", "check {file}", "find {file} --table shop.orders", "backup {url} x --encrypt",
                    "recover {file} --to {url} --since binlog.000001:4", "as-of {file} --table shop.orders --at latest")
)  # fmt: skip
_READ = ("recover {file} --to {url} --dump {}", "schema import {} --position-file x", "changes {file} --schema {}",
         "migrate debezium {} --offset {} --schema-history {}", "service status http://127.0.0.1:1 --token-file {}",
         "position show {}", "serve {}", "annotate {}", "sql SELECT {}", "index {}")  # fmt: skip


def _others() -> Iterator[Document]:
    """Key files, token files, dumps, exports, what has secrets inside and is read for something else."""
    for name, text in {
        "a key": MARK, "a long key": MARK * 9, "MariaDB's key": f"1;{MARK}\n2;{MARK}",
        "a keyring": f"Keyring file version:2.0{MARK}", "no UTF-8": f"{MARK}\udcff", "JSON": f'{{"keys": "{MARK}"}}',
    }.items():  # fmt: skip
        yield Document(f"key file: {name}", "k", text, _KEYS + _READ)
    for name, text in {
        "of mysqldump": f"-- MySQL dump\nCHANGE MASTER TO MASTER_LOG_FILE='binlog.000009', MASTER_PASSWORD='{MARK}';\n",
        "without a position": f"-- dump\nCREATE USER a IDENTIFIED BY '{MARK}';\n",
        "of mydumper": f"[source]\nSOURCE_PASSWORD = '{MARK}'\nSOURCE_LOG_POS = {MARK}\n",
        "of xtrabackup": f"binlog.000009\t{MARK}\n",
        "an export": f'{{"tables": [{{"password": "{MARK}", "name": 5}}]}}',
        "a history": f'{{"source": {{"server": "x"}}, "position": {{}}, "ddl": "SET PASSWORD = \'{MARK}\'"}}\n',
    }.items():
        yield Document(f"file: {name}", "d", text, _READ)
    for name in (
        "REPLICA_CLIENT_ARCHIVE_KEY",
        "REPLICA_CLIENT_ARCHIVE_KEY_FILE",
        "REPLICA_CLIENT_CONTROL_TOKEN",
    ):
        lines = (*_KEYS, "backup {url} x --encrypt", "service status http://127.0.0.1:1")
        yield Document(f"variable {name}", "k", "x", lines, ((name, MARK),))


def documents() -> Iterator[Document]:
    """Give every file with a secret."""
    for kind in (_sinks, _sources, _relays, _lakes, _tools, _variables, _others):
        yield from kind()


def outputs_of(document: Document, directory: Path) -> Iterator[tuple[str, str]]:
    """Give each command of a document with what it printed, logged and warned of."""
    path = directory / document.file
    path.write_text(document.text, encoding="utf-8", errors="surrogateescape")
    changed = dict(document.environment) | {"PYTHONASYNCIODEBUG": "1", "PIP_NO_INPUT": "1"}
    with mock.patch.dict(os.environ, changed):
        for command in document.commands:
            words = [word.replace("{}", str(path)) for word in command.split()]
            yield command, output_of(words, "")
