"""The rows of the threat model have tests, and what is dangerous is done in one place each.

The places: bounded answers of HTTP, temporary files, text for a terminal, patterns, and texts without passwords.
"""

from __future__ import annotations

import ast
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import replica_client
from replica_client.errors import ConfigError

ROOT = Path(replica_client.__file__).parent
TESTS = ROOT.parent / "tests"

THREATS: dict[str, tuple[str, ...]] = {
    "filters of signals": (
        "unit/service/test_signals.py::test_sql_is_no_filter_unless_the_configuration_says_so",
        "unit/service/test_signals.py::test_a_filter_is_never_sql_of_its_author",
    ),
    "patterns of signals, and every text that meets an expression": (
        "unit/service/test_signals.py::test_no_text_makes_a_comparison_long",
        "unit/test_expressions.py::test_no_text_from_outside_becomes_an_expression",
        "unit/test_expressions.py::test_every_expression_takes_linear_time",
    ),
    "names in scripts of undo": (
        "integration/test_scripts_in_clients.py::test_no_name_is_a_command",
    ),
    "time and memory of an account of the relay": (
        "source/test_hostile_clients.py::test_one_statement_gets_neither_the_loop_nor_the_memory",
        "source/test_hostile_clients.py::test_an_account_that_works_much_waits",
        "source/test_hostile_clients.py::test_variables_of_an_account_are_bounded",
        "source/test_hostile_clients.py::test_half_packets_end",
    ),
    "the place of another account's replica": (
        "source/test_hostile_clients.py::test_another_accounts_replica_keeps_its_place",
        "source/test_hostile_clients.py::test_a_uuid_is_a_uuid",
    ),
    "answers of receivers": (
        "unit/sinks/test_hostile_receivers.py::test_the_sink_http",
        "unit/sinks/test_hostile_receivers.py::test_the_client_of_clickhouse",
        "unit/sinks/test_hostile_receivers.py::test_the_client_of_the_registry",
        "unit/sinks/test_hostile_receivers.py::test_the_exporter_of_telemetry",
    ),
    "links in place of temporary files": (
        "unit/storage/test_durable.py::test_a_link_that_waits_is_neither_followed_nor_replaced",
        "unit/test_threats.py::test_temporary_files_are_made_in_one_way",
    ),
    "names in a terminal": ("unit/cli/test_hostile_names.py::test_no_command_lets_a_name_steer",),
    "names in sinks": (
        "integration/test_hostile_names.py::test_every_sink_shows_what_the_source_has",
    ),
    "clients of TLS": ("unit/sinks/test_tls_clients.py::test_a_rogue_reads_nothing",),
    "names of the relay's accounts": (
        "source/test_hostile_clients.py::test_names_are_not_revealed",
        "source/test_hostile_clients.py::test_stand_ins_are_like_the_accounts_and_stay_so",
        "source/test_hostile_clients.py::test_a_flood_from_one_address_leaves_the_others_their_queue",
    ),
    "passwords in errors": (
        "unit/test_secrets.py::test_no_error_has_it",
        "unit/test_secrets.py::test_no_command_prints_it",
        "unit/test_secrets.py::test_no_command_prints_what_its_file_has",
    ),
    "damaged and hostile bytes": (
        "fuzz/test_crashers.py::test_crashers",
        "fuzz/test_file_crashers.py::test_crashers",
        "fuzz/test_sealed.py::test_payloads_that_were_changed_before_they_were_compressed",
        "fuzz/test_sealed.py::test_indexes_that_were_changed_before_their_checksum_was_made",
    ),
}


@pytest.mark.parametrize("threat", THREATS)
def test_every_threat_has_its_tests(threat: str) -> None:
    for one in THREATS[threat]:
        path, _, name = one.partition("::")
        tree = ast.parse((TESTS / path).read_text())
        assert any(getattr(node, "name", None) == name for node in tree.body), one


# mkstemp, mktemp and files named .tmp stand in one module; a probe of the file system has a random name of its own.
_MAKERS = frozenset(("mkstemp", "mktemp", "NamedTemporaryFile"))
_ALLOWED = {
    "storage/durable.py": "the one place: random names, O_EXCL and O_NOFOLLOW; a probe of the file system: mkstemp",
    "compat/duckdb_views.py": "a directory of its own, with a random name, from storage/durable.py",
}


def makes_temporary_names(source: str) -> bool:
    """Whether a module makes a temporary file that has a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in _MAKERS:
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.endswith((".tmp", ".temp", ".partial")) and " " not in node.value:
                return True
    return False


def test_temporary_files_are_made_in_one_way() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if makes_temporary_names(path.read_text())
    }
    assert found <= _ALLOWED.keys()


@pytest.mark.parametrize(
    "text", ["open(path + '.tmp')", "import tempfile\ntempfile.mkstemp()", "p.with_suffix('.tmp')"]
)
def test_the_search_finds_one(text: str) -> None:
    assert makes_temporary_names(text)


Found = Iterator[tuple[str, int]]


Nodes = list[ast.AST]


def nodes_of(source: str) -> Nodes:
    """The calls, imports and classes of a module."""
    kinds = (ast.Call, ast.keyword, ast.Import, ast.ImportFrom, ast.ClassDef)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


@cache
def modules() -> dict[str, Nodes]:
    """The package's modules, by path."""
    return {
        file.relative_to(ROOT).as_posix(): nodes_of(file.read_text()) for file in ROOT.rglob("*.py")
    }


def dotted(node: ast.expr) -> str:
    """A name, with points; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        of = dotted(node.value)
        return f"{of}.{node.attr}" if of else node.attr
    return ""


_HTTP = frozenset(("httpx", "requests", "aiohttp", "urllib3", "urllib.request", "http.client"))
_BOUNDED = {
    "sinks/bounded_http.py": "the one place: sizes, one deadline, no decompression",
    "sinks/webhook_sink.py": "exchange() of bounded_http",
    "sinks/kafka/avro_messages.py": "BoundedTransport",
    "sinks/mirror/clickhouse_client.py": "BoundedTransport",
    "service/telemetry.py": "an adapter of requests over BoundedTransport",
    "cli/orders.py": "orders to a service that the user names: bytes and seconds are bounded, nothing is redirected",
}
_SENDS = frozenset(("get", "post", "put", "patch", "delete", "head", "request", "send", "stream"))


def unbounded_answers(path: str, nodes: Nodes) -> Found:
    """HTTP requests whose answers nothing bounds."""
    bounds = path == "sinks/bounded_http.py" or any(
        isinstance(node, ast.keyword) and node.arg == "transport" for node in nodes
    )
    for node in nodes:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        if path not in _BOUNDED and any(_HTTP & {one, one.partition(".")[0]} for one in names):
            yield "imports a client of HTTP", node.lineno
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = dotted(node.func)
        given = {one.arg for one in node.keywords}
        if called == "httpx.Client" and "transport" not in given:
            yield "a client without BoundedTransport", node.lineno
        if called in {f"httpx.{one}" for one in _SENDS} or called == "urllib.request.urlopen":
            yield "a request without limits", node.lineno
        is_client = dotted(node.func.value).lower().endswith("client")
        if path in _BOUNDED and node.func.attr in _SENDS and is_client and not bounds:
            yield "a request that exchange() does not send", node.lineno


_PRINTS = {
    "cli/output.py": "the one place: printable() and without_secrets()",
    "cli/app.py": "the version",
    "cli/demo.py": "an empty line",
    "cli/doctor.py": "a count, and a table of printable() cells",
    "cli/demonstration/proof.py": "rows of the demonstration",
    "cli/lake.py": "a console; verification prints printable() cells",
    "cli/run.py": "the examples and the unit",
    "lake/pipeline/runner.py": "a console; printable() lines",
    "testing/source.py": "the URL of a test's own source",
    "compat/__main__.py": "for programs that are changed over",
    "compat/pymysqlreplication/event.py": "dump(), as python-mysql-replication has it",
    "compat/pymysqlreplication/row_event.py": "dump(), as python-mysql-replication has it",
    "compat/pymysqlreplication/optional_metadata.py": "dump(), as python-mysql-replication has it",
}


def prints(path: str, nodes: Nodes) -> Found:
    """Text that goes to a terminal past cli/output.py."""
    for node in nodes:
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            writes = called.endswith(("stdout.write", "stderr.write", "stdout.buffer.write"))
            if writes or called in ("print", "typer.echo", "typer.secho", "rich.print", "Console"):
                yield f"{called}()", node.lineno


_MATCHES = {
    "stream/transforms/declaration.py": "patterns of the configuration",
    "service/tables_set_aside.py": "patterns of the configuration",
    "service/migration/from_debezium.py": "patterns of the configuration",
    "sinks/formats/message.py": "patterns of the configuration",
    "storage/files.py": "arguments of a command",
}


def patterns(path: str, nodes: Nodes) -> Found:
    """Patterns that rows/selection.py does not take; expressions are in test_expressions.py."""
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [one.name for one in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {"fnmatch", "glob"} & {*names}:
                yield "fnmatch or glob", node.lineno


_BARE = {
    "errors.py": "the one place: every error of the package passes without_secrets()",
    "schema/ddl/lexer.py": "caught in schema/ddl",
    "sinks/formats/avro.py": "caught in sinks/formats",
    "sinks/mirror/mirror_database.py": "caught by the mirror",
    "sinks/mirror/clickhouse_client.py": "caught by the mirror, which makes a SinkError of it",
    "sinks/mirror/mysql_rows.py": "caught by the mirror",
    "lake/verify/verification.py": "caught by verify",
    "compat/asyncmy/errors.py": "asyncmy's classes",
    "compat/pymysqlreplication/exceptions.py": "python-mysql-replication's classes",
    "compat/row_dicts.py": "caught there",
    "service/route.py": "caught there, without text",
    "testing/sink_conformance.py": "for tests",
    "stream/tables/alterations.py": "caught by mirrors and lakes, which name the statement",
    "service/process.py": "the one place: formatters that mask",
}
_ERRORS = frozenset(
    ("Exception", "BaseException", "RuntimeError", "ValueError", "OSError", "TypeError", "KeyError")
)
_FORMATTERS = frozenset(("LineFormatter", "JsonFormatter", "_TerminalFormatter"))


def unmasked(path: str, nodes: Nodes) -> Found:
    """Errors and lines of a log that may show a password."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(one) for one in node.bases}
            if bases & _ERRORS and "ReplicaClientError" not in ast.unparse(node):
                yield f"class {node.name}", node.lineno
            if "logging.Formatter" in bases:
                yield f"class {node.name}", node.lineno
        if isinstance(node, ast.Call) and dotted(node.func).endswith(".setFormatter"):
            if not any(ast.unparse(one).split("(")[0] in _FORMATTERS for one in node.args):
                yield "a formatter that masks nothing", node.lineno


RULES: dict[str, tuple[Callable[[str, Nodes], Found], dict[str, str], tuple[str, ...]]] = {
    "bounded answers": (
        unbounded_answers, {},
        ("import requests", "import urllib.request", "from http.client import HTTPConnection", "httpx.Client()",
         "httpx.get(url)", "urllib.request.urlopen(url)"),
    ),
    "text for a terminal": (
        prints, _PRINTS, ("print(name)", "typer.echo(name)", "sys.stdout.write(name)", "Console()"),
    ),
    "patterns": (patterns, _MATCHES, ("import fnmatch", "from fnmatch import translate", "import glob")),
    "masks": (
        unmasked, _BARE,
        ("class MyError(Exception): ...", "class F(logging.Formatter): ...", "h.setFormatter(logging.Formatter())"),
    ),
}  # fmt: skip
"""What is done in one place: the search, the files that may do it and why, and what the search must find."""


@pytest.mark.parametrize("rule", RULES)
def test_what_is_dangerous_is_done_in_one_place(rule: str) -> None:
    search, allowed, examples = RULES[rule]
    found: dict[str, list[tuple[str, int]]] = {}
    for path, nodes in modules().items():
        for what in search(path, nodes):
            found.setdefault(path, []).append(what)
    assert {path: what for path, what in found.items() if path not in allowed} == {}
    assert allowed.keys() <= found.keys(), "a file is allowed that does not do it any more"
    for text in examples:
        assert list(search("some/module.py", nodes_of(text))), text


def test_a_stranger_on_the_port_of_the_page_takes_neither_time_nor_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``replica-client service`` gives orders to a URL; another program may have its port."""
    from replica_client.cli import orders

    monkeypatch.setattr(orders, "_HTTP_SECONDS", 1.0)
    monkeypatch.setattr(orders, "_MAX_ANSWER", 1 << 20)
    monkeypatch.setenv("REPLICA_CLIENT_CONTROL_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    def answer(listener: socket.socket, drips: bool) -> None:
        peer, _ = listener.accept()
        with peer:
            try:
                peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    peer.sendall(b"[" * (1 if drips else 1 << 16))
                    time.sleep(0.05 if drips else 0)
            except OSError:
                return

    for drips in (False, True):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=answer, args=(listener, drips), daemon=True).start()
            begun = time.monotonic()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with pytest.raises(ConfigError, match="too long"):
                orders._post(url, {"command": "status"}, None, None)
            assert time.monotonic() - begun < 15
