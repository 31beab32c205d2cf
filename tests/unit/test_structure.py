"""What holds for the whole package: sizes of files, their names, and what is done in one place only."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import replica_client

PACKAGE = Path(replica_client.__file__).parent
SOURCES = {
    str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}
MOST_LINES = 500
# Each says in a comment at its top why it is not two. A file that is not here must not become longer.
LONG = {
    "archive/key_scan.py",
    "protocol/binlog/values/json_writer.py",
    "protocol/binlog/values/temporal_storage.py",
    "cli/event_text.py",
    "protocol/codec/charsets/tables/differences.py",
    "compat/pymysqlreplication/binlogstream.py",
    "compat/pymysqlreplication/event.py",
    "compat/row_dicts.py",
    "service/route.py",
    "options.py",
    "stream/transactions/assembler.py",
    "stream/fast/column_fast_path.py",
    "stream/fast/fast_path.py",
    "stream/files/binlog_file.py",
    "stream/live/follow.py",
    "stream/live/source_stream.py",
    "stream/transactions/transaction.py",
    "rows/change.py",
    "rows/column_writer.py",
    "rows/columnar.py",
    "rows/image.py",
    "schema/history.py",
    "sinks/mirror/mysql_database.py",
    "sinks/mirror/table_store.py",
    "stream/transport/connection.py",
}


def found(pattern: str) -> set[str]:
    """The modules in which something stands."""
    return {name for name, text in SOURCES.items() if re.search(pattern, text)}


def test_files_over_500_lines_are_known_and_say_why() -> None:
    long = {name for name, text in SOURCES.items() if text.count("\n") > MOST_LINES}
    assert long <= LONG, "split it where a subject falls apart, or say why not and list it here"
    assert found("(?m)^# Over 500 lines: [a-z]") == long


def test_few_modules_have_the_same_file_name() -> None:
    names = Counter(Path(name).name for name in SOURCES)
    twice = {name for name, count in names.items() if count > 1} - {"__init__.py", "__main__.py"}
    assert len(twice) < 15, sorted(twice)


@pytest.mark.parametrize(
    ("pattern", "modules"),
    [
        # A dump is opened beside the stream's own by one function; these have a connection already.
        (
            r"\.start_dump\(",
            {
                "archive/backup/engine.py",
                "stream/live/source_link.py",
                "server/relay/upstream.py",
                "lake/spark/source/live_source.py",
                "stream/transport/driver_dump.py",
            },
        ),
        # One loop takes events of a dump one by one (DumpStream); a copy writes them as they come.
        (r"in await dump\.read\(\)|:= await dump\.read\(\)", set()),
        (r"secrets\.randbelow\(\(1 << 31\)|randrange\(1 << 31", {"stream/transport/request.py"}),
        # Definitions of columns are read from information_schema once; others ask for names or counts.
        (r"IS_NULLABLE, EXTRA", {"schema/information_schema.py"}),
        (r"def __class__", set()),
        # Files that are made next to others under another name have one maker; the others make files of their own name.
        (
            r"\bO_EXCL\b",
            {
                "cli/init.py",
                "cli/migrate.py",
                "stream/position/stores/file.py",
                "storage/durable.py",
            },
        ),
        # Names that nobody can guess, for what wants a name: a probe of letter case, DuckDB, a certificate's loader.
        (
            r"\b(mkstemp|NamedTemporaryFile|mkdtemp|TemporaryDirectory)\(",
            {
                "archive/as_of/net_images.py",
                "cli/as_of.py",
                "cli/migrate.py",
                "compat/duckdb_views.py",
                "server/certificates.py",
                "storage/file_names.py",
            },
        ),
        (r"[\"'}]\.(tmp|part|temp|new)\b", {"storage/durable.py", "storage/file_names.py"}),
    ],
)
def test_what_stands_in_one_place(pattern: str, modules: set[str]) -> None:
    assert found(pattern) == modules


@pytest.mark.parametrize("module", ["texts", "row_groups"])
def test_the_checker_of_lakes_has_rules_of_its_own(module: str) -> None:
    """A checker that converts values with the writer's code agrees with each of its mistakes."""
    allowed = (
        *("replica_client.protocol.codec.quick_dataclass", "replica_client.schema.model"),
        *("replica_client.schema.kinds", "replica_client.schema.names"),
        "replica_client.lake.verify",
    )
    imported = re.findall(
        r"^\s*(?:from|import) (replica_client[\w.]*)",
        SOURCES[f"lake/verify/{module}.py"],
        re.MULTILINE,
    )
    assert [name for name in imported if not name.startswith(allowed)] == []


@pytest.mark.parametrize("module", ["sides", "verification"])
def test_what_compares_lakes_converts_no_values(module: str) -> None:
    forbidden = (
        "lake_columns|typed_columns|copied_columns|to_arrow|json_values import row_to_json|value_to_json|"
        r"column_selects|\.decode\("
    )
    assert re.findall(forbidden, SOURCES[f"lake/verify/{module}.py"]) == []
