"""What holds for the whole package: sizes of files, their names, and what is done in one place only."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package_sources import PACKAGE, nodes, sources, trees

SOURCES = sources()
MOST_LINES = 500
# Each says in a comment at its top why it is not two. A file that is not here must not become longer.
LONG = {
    "protocol/binlog/decoder.py",
    "archive/key_scan.py",
    "protocol/binlog/values/json_writer.py",
    "protocol/binlog/values/temporal_storage.py",
    "cli/event_text.py",
    "errors.py",
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
    "service/running_snapshot.py",
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
                "lake/source/live_source.py",
                "stream/transport/driver_dump.py",
            },
        ),
        # One loop takes events of a dump one by one (DumpStream); a copy writes them as they come.
        (r"in await dump\.read\(\)|:= await dump\.read\(\)", set()),
        (r"secrets\.randbelow\(\(1 << 31\)|randrange\(1 << 31", {"stream/transport/dump.py"}),
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
                "server/accounts.py",
                "server/recovery.py",
                "storage/durable.py",
            },
        ),
        (r"[\"'}]\.(tmp|part|temp|new)\b", {"storage/durable.py"}),
    ],
)
def test_what_stands_in_one_place(pattern: str, modules: set[str]) -> None:
    assert found(pattern) == modules


@pytest.mark.parametrize("module", ["texts", "row_groups"])
def test_the_checker_of_lakes_has_rules_of_its_own(module: str) -> None:
    """A checker that converts values with the writer's code agrees with each of its mistakes."""
    allowed = (
        *("replica_client.protocol.codec.quick_dataclass", "replica_client.schema.model"),
        *("replica_client.errors", "replica_client.schema.names", "replica_client.lake.verify"),
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


# Names that nothing in the repository but a test uses, and why they stay.
KEPT = {
    # What events say to those who read them.
    *("is_standalone", "row_images", "view_id_text", "xid_text"),
    # Names of the protocol and of servers.
    *(
        "FLAG_IGN_GTIDS",
        "LOCAL_INFILE_HEADER",
        "MODE_NO_FIELD_OPTIONS",
        "OP_YEAR",
        "PARTIAL_JSON_UPDATES",
    ),
    # Found by a name that is put together, or called by a class of another package with the same name as one of ours.
    *("migrate_canal", "migrate_debezium", "migrate_maxwell", "pushFilters", "_show_warnings"),
    # Values of a kind, for code to come.
    *("ADDRESSES", "INTEGERS", "target_type"),
    # One value or one result alone: what the tests of each type and packet begin with.
    *(
        "decode_binary",
        "decode_bit",
        "decode_char",
        "decode_date",
        "decode_datetime2",
        "decode_double",
    ),
    *("decode_enum", "decode_file", "decode_integer", "decode_row", "decode_set", "decode_time2"),
    *(
        "decode_timestamp2",
        "decode_year",
        "decrypt_file",
        "seal",
    ),
    # The other direction: a value that is encoded again to the same bytes was decoded whole.
    *("encode_binary", "encode_hires_datetime", "encode_hires_time", "encode_hires_timestamp"),
    *("encode_old_datetime", "encode_old_time", "encode_old_timestamp", "encode_set"),
    *(
        "compress_rows",
        "make_payload",
        "encode_compressed",
        "encode_old_decimal",
        "encode_diffs",
        "encode_enum",
    ),
}


def _defined(path: str, classes: set[str]) -> Iterator[tuple[str, int]]:
    """Names of functions, classes and variables, but what a base class of another package or a decorator calls."""
    for node in nodes()[path]:
        body = getattr(node, "body", [])
        if not isinstance(node, ast.Module | ast.ClassDef):
            continue
        bases = {ast.unparse(base).split("[")[0] for base in getattr(node, "bases", [])}
        is_foreign = not bases <= classes
        for one in body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                called = any(isinstance(decorator, ast.Call) for decorator in one.decorator_list)
                if not (called or is_foreign) or isinstance(one, ast.ClassDef):
                    yield one.name, one.lineno
            elif isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Module):
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                yield from (
                    (target.id, one.lineno) for target in targets if isinstance(target, ast.Name)
                )


def _used(path: str) -> Iterator[str]:
    for node in nodes()[path]:
        kind = type(node)
        if kind is ast.Name and isinstance(node.ctx, ast.Load):
            yield node.id
        elif kind is ast.Attribute:
            yield node.attr
        elif kind is ast.keyword and node.arg is not None:
            yield node.arg
        elif kind is ast.alias:
            yield node.name.rpartition(".")[2]
        elif kind is ast.Constant and isinstance(node.value, str) and len(node.value) < 200:
            yield from re.findall(r"\w+", node.value)


def test_every_name_is_used_outside_the_tests() -> None:
    """By the package, its scripts, its documents or its list of public names; names of the protocol are all there."""
    classes = {
        node.name for found in nodes().values() for node in found if isinstance(node, ast.ClassDef)
    } | {"object", "Protocol", "Exception"}
    used = {name for path in trees() for name in _used(path)}
    others = [
        *PACKAGE.rglob("*.pxd"),
        *(PACKAGE.parent / "docs").rglob("*.md"),
        PACKAGE.parent / "pyproject.toml",
    ]
    others += [
        path
        for path in (PACKAGE.parent / "scripts").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    for path in [*others, PACKAGE.parent / "tests" / "public_names.txt"]:
        words = Counter(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        # A declaration is no use.
        used |= {word for word, count in words.items() if count > 1 or path.suffix != ".pxd"}
    unused = [
        f"{path}:{line} {name}"
        for path in trees()
        if not path.startswith(("protocol/constants/", "compat/", "_cython"))
        for name, line in _defined(path, classes)
        if name not in used | KEPT and not re.match(r"__|test_|_repr_pretty_", name)
    ]
    assert unused == []


def _names_of_bases(node: ast.ClassDef) -> list[str]:
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return [base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in bases]


def test_methods_without_a_text_have_it_in_their_class_a_base_or_a_protocol() -> None:
    classes: dict[str, list[ast.ClassDef]] = {}
    for found_nodes in nodes().values():
        for node in found_nodes:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)

    def methods(node: ast.ClassDef, *, documented: bool) -> set[str]:
        functions = [
            one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        return {one.name for one in functions if bool(ast.get_docstring(one)) is documented}

    def described(name: str) -> set[str]:
        found: set[str] = set()
        for node in classes.get(name, []):
            found |= methods(node, documented=True)
            found |= set(re.findall(r"(?m)^\s*(\w+): ", ast.get_docstring(node) or ""))
            found |= {
                member
                for base in _names_of_bases(node)
                if base != name
                for member in described(base)
            }
        return found

    protocols = {
        member
        for nodes in classes.values()
        for node in nodes
        if {"Protocol", "ABC"} & set(_names_of_bases(node))
        for member in methods(node, documented=True)
    }
    lacking = {
        f"{node.name}.{member}"
        for name, nodes in classes.items()
        for node in nodes
        if not name.startswith("_")
        and set(_names_of_bases(node)) <= {*classes, "Protocol", "ABC", "object"}
        for member in methods(node, documented=False) - protocols - described(name)
        if not member.startswith("_")
    }
    assert lacking == set()
    assert found(r'(?m)^\s+"""See (the (base|class)|there|:class:`[^`]*`)\.') == set()


def test_each_room_has_one_logger() -> None:
    for path, text in SOURCES.items():
        inside = path.split("/")
        if len(inside) < 2 or (inside[0] == "compat" and len(inside) > 2):
            continue  # the originals' names
        for name in re.findall(r"_LOG\b.*getLogger\((.*)\)", text):
            assert name == f'"replica_client.{inside[0]}"', path
