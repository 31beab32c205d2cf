"""Secrets in all places where people put them, handed to commands that fail: none may be printed."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

import replica_client
from replica_client.cli.app import make_app

MARK = "s3cr3tMARK"
PASSWORDS = (
    MARK,
    f"{MARK}@x",
    f"a:{MARK}",
    f"a/{MARK}",
    f"{MARK}#b",
    f"{MARK}?c",
    quote(f"ä@{MARK}"),
)
_ACCOUNTS = (
    "mysql://u:{}@127.0.0.1:1/", "mariadb://u:{}@127.0.0.1:1/", "mysql:/u:{}@127.0.0.1", "mysql:u:{}@127.0.0.1",
    "u:{}@127.0.0.1:1", "u:{}@h/x", ":{}@h", "jdbc:mysql://u:{}@127.0.0.1:1/d", "mysql+pymysql://u:{}@127.0.0.1:1/",
    "redis://:{}@h/0", "postgresql://u:{}@h/d", "https://u:{}@h/x", "mysql://u:{}@[::1]:1/", "file://u:{}@h/x",
    "/proc/none/u:{}@h", "mysq://u:{}@h/", "mysql://u:{} x@h/", "mysql://u:x {}@h/", "//u:{}@h/", "mysql:://u:{}@h/",
    "mysql://u/{}@127.0.0.1:1/", "mysql://u;{}@127.0.0.1:1/", "mysql://u：{}@h/",
    "postgresql+psycopg2://u:{}@h/d", "kafka://u:{}@h:9092/t",
)  # fmt: skip
_PARAMETERS = (
    "jdbc:mysql://127.0.0.1:1/?user=u&password={}", "mysql://u@127.0.0.1:1/?password={}", "s3://bucket/x?secret={}",
    "s3://bucket/x?aws_secret_access_key={}", "mysql://127.0.0.1:1/?passwd={}", "mysql://127.0.0.1:1/?pwd={}",
    "host=h user=u password={}", "host=h password='{}'", "password={}", "az://c/x?sas_token={}",
    "gs://b/x?token={}", "http://h/x?api_key={}", "AccountKey={};x", "/proc/none/x?access_token={}",
    "mysql://u@127.0.0.1:1/?tls_key_password={}", "mysql://u:{}", "mysql://u:{}/shop",
    "https://c.blob.core.windows.net/x?sig={}",
    "abfss://c@a/x?sv=1&sig={}", "https://h/x?key={}", "host=h user=u pass={}", "authorization: Bearer {}",
    "x-api-key: {}", "private_key={}", "CREATE USER a IDENTIFIED BY '{}'", '{{"password": "{}"}}',
)  # fmt: skip


_TOKENS = ("https://{}@h/x", "https://{}@h:1/x?a=b", "nats://{}@h:4222", "tls://{}@h")


def places() -> Iterator[str]:
    """Arguments with a secret, more than 60."""
    for form in _ACCOUNTS:
        for password in PASSWORDS:
            yield form.format(password)
    for form in _PARAMETERS:
        yield form.format(MARK)
        yield form.format(quote(f"{MARK}/@:"))
    for form in _TOKENS:
        yield form.format(MARK)
        yield form.format(f"a%2F{MARK}")


# Forms of options that have others inside, and what the program's own list of options has not.
_MORE = (
    "run {}", "run --check {}", "relay --check {}", "position diff {} {}", "sql {} SELECT", "{}", "changes --{}",
    "changes --password {} x", "changes -p{} x", "dead-letters {}", "unit {}", "find {file} --table a.b --key {}={}",
    "recover {file} --to {url} --dump {}", "recover {file} --to {} --since binlog.000001:4",
    "undo {file} --table shop.* --apply {}", "as-of {file} --table shop.orders --at latest --live {}",
    "as-of {file} --table shop.orders --at latest --copy {}", "backup {url} x --store {}",
    "backup {url} x --encrypt --key-file {}", "service pause {} --token-file /nonexistent",
    "service pause {} --token-file {}",
)  # fmt: skip
FILE = "shop-bin.000001"
"""A copy of the demonstration's, in the directory where commands run."""

_FILLED = {
    "sources": FILE, "paths": FILE, "path": FILE, "table": "shop.orders", "tables": "shop.orders",
    "key": "1", "at": "latest", "sink": "shop.x", "position": "binlog.000001:4", "statement": "SELECT 1", "to": "{url}",
    "url": "{url}", "urls": "{url}", "first": "/nonexistent/x", "tool": "debezium", "action": "status", "column": "id",
}  # fmt: skip
_DATA = Path(replica_client.__file__).parent / "testing" / "data"
_URL = "mysql://u@127.0.0.1:1/"
_IDLE = frozenset(("demo", "serve"))
"""Commands that go on for long where nothing is wrong."""


def program() -> Iterator[tuple[list[str], Any]]:
    """Every command with what it takes, as the program itself lists them."""
    for name in typer.main.get_command(make_app()).commands:  # type: ignore[attr-defined]
        group = typer.main.get_command(make_app(name)).commands[name]  # type: ignore[attr-defined]
        for inner, command in (getattr(group, "commands", None) or {None: group}).items():
            yield [name] if inner is None else [name, inner], command


def commands() -> Iterator[list[str]]:
    """Every command with ``{}`` in each place that takes a text, and what it needs besides."""
    for words, command in program():
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        options = [one for one in command.params if one.param_type_name == "option"]
        for tried in (*arguments, *(one for one in options if not one.is_flag)):
            if words[0] == "demo" and tried.name == "output":
                continue  # runs for half a minute
            line = list(words)
            for one in (*arguments, *options):
                value = "{}" if one is tried else _FILLED.get(one.name, "/nonexistent/x")
                if words[0] in _IDLE and value == FILE:
                    value = "/nonexistent/x"
                if one is not tried and not one.required:
                    continue
                line += [value] if one in arguments else [one.opts[0], value]
            yield line
    for text in _MORE:
        yield text.split()


def _filled(word: str, given: Mapping[str, str]) -> str:
    return re.sub(r"\{(?:url|file)?\}", lambda one: given[one[0]], word)


def output_of(command: list[str], place: str) -> str:
    """What a command prints and logs, and what warnings say, with its exit status in front."""
    from replica_client.cli.main import main

    said = io.StringIO()
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers[:] = [logging.StreamHandler(said)]
    try:
        with (
            tempfile.TemporaryDirectory() as directory,
            contextlib.chdir(directory),  # a place may be taken for the name of a file to write
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")
            shutil.copy(_DATA / FILE, directory)
            try:
                given = {"{}": place, "{url}": _URL, "{file}": FILE}
                status: object = main([_filled(word, given) for word in command])
            except SystemExit as ended:
                status = ended.code
    finally:
        root.handlers[:] = handlers
    return f"{status}\n{said.getvalue()}"
