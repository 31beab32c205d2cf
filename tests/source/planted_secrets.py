"""Secrets in all places where people put them, handed to commands that fail: none may be printed."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from urllib.parse import quote

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
    "/data/u:{}@h", "mysq://u:{}@h/",
)  # fmt: skip
_PARAMETERS = (
    "jdbc:mysql://127.0.0.1:1/?user=u&password={}", "mysql://u@127.0.0.1:1/?password={}", "s3://bucket/x?secret={}",
    "s3://bucket/x?aws_secret_access_key={}", "mysql://127.0.0.1:1/?passwd={}", "mysql://127.0.0.1:1/?pwd={}",
    "host=h user=u password={}", "host=h password='{}'", "password={}", "az://c/x?sas_token={}",
    "gs://b/x?token={}", "http://h/x?api_key={}", "AccountKey={};x", "/data/x?access_token={}",
    "mysql://u@127.0.0.1:1/?tls_key_password={}", '{{"password": "{}"}}',
)  # fmt: skip


def places() -> Iterator[str]:
    """Arguments with a secret, more than 60."""
    for form in _ACCOUNTS:
        for password in PASSWORDS:
            yield form.format(password)
    for form in _PARAMETERS:
        yield form.format(MARK)
        yield form.format(quote(f"{MARK}/@:"))


_SINGLE = (
    "changes {}", "events {}", "check {}", "annotate {}", "verify {}", "doctor {}", "run {}", "run --check {}",
    "pipeline {}", "index {}", "stats {}", "serve {}", "relay {}", "init {}", "backup {} /nonexistent/x",
    "schema show /nonexistent --tables {}", "schema import {} /nonexistent",
    "schema rebuild {}", "schema export /nonexistent --tables {}",
    "position show {}", "position diff {} {}", "migrate maxwell {}",
    "migrate debezium {}", "migrate canal {}", "sql {} SELECT", "lake copy {} a.b", "lake compact {}", "lake vacuum {}",
    "lake read {}", "snapshot {} --sink x --table a.b", "dead-letters {}", "unit {}",
)  # fmt: skip
_OPTIONS = (
    "changes /nonexistent --where {}", "changes /nonexistent --tables {}", "changes /nonexistent --schema {}",
    "changes /nonexistent --position-file {}", "changes /nonexistent --since {}", "find /nonexistent --table {}",
    "find {} --table a.b", "find /nonexistent --table a.b --where {}", "find /nonexistent --table a.b --gtid {}",
    "history {} --table a.b --key 1", "undo {} --table a.b", "redo {} --table a.b",
    "undo /nonexistent --table a.b --apply {}", "recover {} --to mysql://u@127.0.0.1:1/ --since a.1:4",
    "recover /nonexistent --to {} --since a.1:4", "service status {}",
    "as-of {} --table a.b --at 2026-01-01", "as-of /nonexistent --table a.b --at {}",
    "as-of /nonexistent --table a.b --at 2026-01-01 --live {}", "changes /nonexistent --limit {}", "{}", "changes --{}",
    "events /nonexistent --key-file {}",
)  # fmt: skip


def commands() -> Iterator[list[str]]:
    """More than 40 commands, with ``{}`` where a place goes."""
    for text in (*_SINGLE, *_OPTIONS):
        yield text.split()


def output_of(command: list[str], place: str) -> str:
    """What a command prints and logs, and what warnings say, with its exit status in front."""
    from replica_client.cli.main import main

    said = io.StringIO()
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers[:] = [logging.StreamHandler(said)]
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")
            try:
                status: object = main([word.replace("{}", place) for word in command])
            except SystemExit as ended:
                status = ended.code
    finally:
        root.handlers[:] = handlers
    return f"{status}\n{said.getvalue()}"
