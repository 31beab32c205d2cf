"""The rows of the threat model have tests, and temporary files are made in one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import replica_client

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
    "storage/durable.py": "the one place: random names, O_EXCL and O_NOFOLLOW",
    "storage/file_names.py": "a probe of the file system: mkstemp",
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
