"""A mistyped question to an archive is an error of one line, and not an empty answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import replica_client as rc
from replica_client.cli.app import make_app

DEMO = sorted((Path(rc.__file__).parent / "testing" / "data").glob("shop-bin.0*"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["find", "--table", "shop.ordres"], "did you mean shop.orders"),
        (["undo", "--table", "shop.ordres"], "did you mean shop.orders"),
        (["redo", "--table", "nosuch.*"], "no table nosuch.*"),
        (["history", "--table", "shop.ordres", "--key", "1"], "did you mean shop.orders"),
        (["find", "--gtid", "4587bb45-e52d-11f1-971d-02fc00000001:999999"], "no such transaction"),
        (["undo", "--gtid", "0-1-5"], "no such transaction"),
        (["find", "--thread", "987654"], "thread 987654"),
        (["undo", "--thread", "987654"], "thread 987654"),
        (["find", "--since", "2050-01-01"], "the last transaction of the archive"),
        (["redo", "--until", "1999-01-01"], "the first transaction of the archive"),
        (["find", "--until", "shop-bin.000001:4"], "the first transaction of the archive"),
        (["find", "--gtid", "4587bb45-e52d-11f1-971d-02fc00000001"], "UUID alone names no"),
        (["history", "--table", "shop.*", "--key", "1"], "did you mean shop.orders"),
    ],
)
def test_a_typing_error_is_one_line(
    arguments: list[str], reason: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    command, *given = arguments
    where = [*DEMO, "--index-directory", tmp_path]
    result = run(command, *where, *given)
    assert (result.status, result.out) == (2, "")
    assert reason in " ".join(result.err.split())
    assert run(command, *where, *given, "--allow-empty", *_count(command)).status == 0


def _count(command: str) -> list[str]:
    return ["--count"] if command == "find" else []


@pytest.mark.parametrize(
    "given",
    [
        ["--kind", "updat"],
        ["--since", "shop-bin.009999:4"],
        ["--since", "shop-bin.000001:99999"],
        ["--until", "shop-bin.000002:99999"],
        ["--column", "stat"],
        ["--where", "stat = 'x'"],
    ],
)
def test_what_cannot_be_meant_is_an_error_in_any_case(
    given: list[str], run: Callable[..., Any], tmp_path: Path
) -> None:
    where = [*DEMO, "--index-directory", tmp_path, "--table", "shop.orders", "--allow-empty"]
    assert run("find", *where, *given).status == 2


@pytest.mark.parametrize("command", ["stats", "undo", "redo"])
@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_position_after_the_end_of_its_file(
    command: str, option: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    result = run(command, *DEMO, "--index-directory", tmp_path, option, "shop-bin.000002:99999")
    assert (result.status, result.out) == (2, "")
    assert f"{option[2:]} shop-bin.000002:99999: shop-bin.000002 ends at" in result.err


@pytest.mark.parametrize("given", [["--since", "2090-01-01"], ["--until", "1999-01-01"]])
def test_changes_of_a_range_of_times_without_a_transaction(
    given: list[str], run: Callable[..., Any], tmp_path: Path
) -> None:
    result = run("changes", *DEMO, *given, "--json")
    assert (result.status, result.out) == (2, "")
    assert " ".join(given)[2:] + ": the files have no transaction" in result.err
    assert run("changes", *DEMO, *given, "--allow-empty").status == 0
    table = tmp_path / "changes.parquet"
    assert run("changes", *DEMO, *given, "--parquet", table).status == 2
    assert not table.exists()


def test_the_last_come_newest_first(run: Callable[..., Any], tmp_path: Path) -> None:
    where = [*DEMO, "--index-directory", tmp_path, "--json", "--no-statement"]
    whole = run("find", *where).records
    assert run("find", *where, "--last", 3).records == whole[:-4:-1]
    assert run("find", *where, "--limit", 3).records == whole[:3]
    assert {one["statement"] for one in whole} == {None}
    assert run("find", *where, "--limit", 3, "--last", 3).status == 2
    time = whole[-1]["commit_time"]
    again = run("find", *where, "--since", time, "--until", time).records
    assert json.dumps(again[-1]) == json.dumps(whole[-1])


NAMED = {
    *("table", "tables", "gtid", "thread", "key", "column", "where", "kind", "since", "until"),
    *("start", "at", "copy_at", "without", "sink", "exclude"),
}
"""Parameters of commands that take a name, or what may be mistyped like one."""

SHOP = "shop-bin.000001"
ARCHIVE = ["--index-directory", "INDEXES"]
TABLE = ["--table", "shop.orders"]
RUNS: dict[tuple[str, str], tuple[list[str], str]] = {
    ("as-of", "at"): ([*ARCHIVE, *TABLE, "--at", "shop-bin.009999:4"], "shop-bin.009999"),
    ("as-of", "table"): ([*ARCHIVE, "--at", "latest", "--table", "shop.ordres"], "shop.orders"),
    ("as-of", "without"): ([*ARCHIVE, *TABLE, "--at", "latest", "--without", "stat"], "state"),
    ("changes", "start"): (["--since", "shop-bin.009999:4"], "shop-bin.009999"),
    ("changes", "until"): (["--until", "shop-bin.009999:4"], "shop-bin.009999"),
    ("changes", "tables"): (["--table", "shop.ordres"], "did you mean shop.orders"),
    ("changes", "where"): (["--where", "stat = 'x'"], "did you mean state"),
    ("events", "start"): (["--since", "shop-bin.009999:4"], "shop-bin.009999"),
    ("events", "until"): (["--until", "shop-bin.009999:4"], "shop-bin.009999"),
    ("events", "tables"): (["--table", "shop.ordres"], "did you mean shop.orders"),
    ("find", "column"): ([*ARCHIVE, *TABLE, "--column", "stat"], "did you mean state"),
    ("find", "gtid"): ([*ARCHIVE, "--gtid", "0-1-5"], "no such transaction"),
    ("find", "key"): ([*ARCHIVE, *TABLE, "--key", "idd=1"], "did you mean id?"),
    ("find", "kind"): ([*ARCHIVE, "--kind", "updat"], "did you mean update"),
    ("find", "since"): ([*ARCHIVE, "--since", "shop-bin.009999:4"], "shop-bin.009999"),
    ("find", "table"): ([*ARCHIVE, "--table", "shop.ordres"], "did you mean shop.orders"),
    ("find", "thread"): ([*ARCHIVE, "--thread", "987654"], "thread 987654"),
    ("find", "until"): ([*ARCHIVE, "--until", "1999-01-01"], "the first transaction"),
    ("find", "where"): ([*ARCHIVE, *TABLE, "--where", "stat = 'x'"], "did you mean state"),
    ("history", "key"): ([*ARCHIVE, *TABLE, "--key", "idd=1"], "did you mean id?"),
    ("history", "table"): ([*ARCHIVE, "--table", "shop.ordres", "--key", "1"], "shop.orders"),
    ("schema show", "tables"): (["--table", "shop.ordres"], "did you mean shop.orders"),
    ("sql", "since"): (["--since", "shop-bin.009999:4"], "shop-bin.009999"),
    ("sql", "until"): (["--until", "shop-bin.009999:4"], "shop-bin.009999"),
}
for _command in ("undo", "redo"):
    for _name in ("table", "gtid", "thread", "since", "until", "key", "where"):
        RUNS[_command, _name] = RUNS["find", _name]
for _name in ("table", "since", "until"):
    RUNS["stats", _name] = RUNS["find", _name]
_TO = [*ARCHIVE, "--to", "mysql://root@127.0.0.1:1/", "--since"]
RUNS["recover", "since"] = ([*_TO, "shop-bin.009999:4"], "shop-bin.009999")
RUNS["recover", "until"] = (
    [*_TO, "shop-bin.000001:4", "--until", "shop-bin.009999:4"],
    "shop-bin.009999",
)
ELSEWHERE = {
    ("doctor", "table"): "is asked of a source: tests/integration/test_doctor.py",
    ("as-of", "copy_at"): "needs a copy: tests/unit/archive/test_as_of.py",
    ("changes", "exclude"): "leaves out: nothing is missing without a match",
    ("events", "exclude"): "leaves out: nothing is missing without a match",
    ("schema show", "exclude"): "leaves out: nothing is missing without a match",
    ("service", "sink"): "names the sinks of the configuration: tests/unit/service",
    ("service", "at"): "is asked of the service: tests/unit/service",
    ("service", "gtid"): "is asked of the service: tests/unit/service",
    ("service", "where"): "is asked of the service: tests/unit/service",
    ("service", "table"): "is asked of the service: tests/unit/service",
    ("snapshot", "table"): "is asked of the service: tests/unit/service",
    ("snapshot", "where"): "is asked of the service: tests/unit/service",
    ("snapshot", "sink"): "names the sinks of the configuration: tests/unit/service",
    ("lake copy", "tables"): "needs a lake: tests/spark/test_lake_servers.py",
    ("lake read", "tables"): "needs a lake: tests/spark",
    ("lake read", "at"): "needs a lake: tests/spark",
    ("init", "kind"): "is asked of a source: tests/integration/test_init.py",
    ("init", "tables"): "is asked of a source: tests/integration/test_init.py",
    ("position diff", "table"): "names a place of positions, not what is read",
    ("position set", "table"): "names a place of positions, not what is read",
    ("position show", "table"): "names a place of positions, not what is read",
    ("position take-over", "sink"): "names the sinks of the configuration: tests/unit/service",
}


def named_parameters() -> list[tuple[str, str]]:
    """Return each parameter of each command that takes a name."""
    found: list[tuple[str, str]] = []

    def visit(group: Any, before: str) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                visit(command, f"{before}{name} ")
            else:
                own = (one.name for one in command.params if one.name in NAMED)
                found.extend((before + name, one) for one in own)

    for name in typer.main.get_command(make_app()).commands:
        (command,) = (
            one
            for own, one in typer.main.get_command(make_app(name)).commands.items()
            if own == name
        )
        visit(SimpleNamespace(commands={name: command}), "")
    return sorted(found)


def test_no_command_forgets_a_mistyped_name() -> None:
    """A new option with a name is listed here, with a mistyped one that is refused."""
    assert sorted({*RUNS, *ELSEWHERE}) == named_parameters()


@pytest.mark.parametrize(("command", "name"), sorted(RUNS), ids=str)
def test_a_mistyped_name_is_one_line_with_the_nearest(
    command: str, name: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    if command == "sql":
        pytest.importorskip("duckdb")
    given, reason = RUNS[command, name]
    statement = ["SELECT count(*) FROM shop.orders"] if command == "sql" else []
    words = [tmp_path if word == "INDEXES" else word for word in given]
    result = run(*command.split(), *statement, *DEMO, *words)
    assert result.status == 2, result.err
    assert reason in " ".join(result.err.split())
    assert len(result.err.splitlines()) == 1
    assert len(result.lines) <= 1 or command in ("changes", "events")  # the heading of a table


def test_an_unknown_table_of_a_statement(run: Callable[..., Any]) -> None:
    pytest.importorskip("duckdb")
    for statement in (
        "SELECT * FROM shop.ordres",
        "SELECT 1 FROM shop.orders o JOIN ordres USING (id)",
    ):
        result = run("sql", statement, *DEMO)
        assert (result.status, result.out, len(result.err.splitlines())) == (2, "", 1)
        assert "did you mean shop.orders?" in result.err
        assert run("sql", statement, *DEMO, "--allow-empty").status == 0


def test_scripts_take_an_empty_answer(run: Callable[..., Any], tmp_path: Path) -> None:
    for command in ("changes", "events", "schema show"):
        given = ["--tables", "shop.ordres", "--allow-empty", "--json"]
        assert run(*command.split(), *DEMO, *given).status == 0
    # A pattern that matches is no error, whatever comes before and after it.
    assert run("changes", *DEMO, "--tables", "shop.orders", "--tables", "shop.c*").status == 0
    result = run("changes", *DEMO, "--tables", "shop.orders", "--tables", "shop.z*")
    assert result.status == 2 and "no table shop.z*" in result.err
    # A run that goes on after a saved position may meet no row of its tables.
    saved = ["--position-file", tmp_path / "position.json", "--tables", "shop.orders"]
    assert run("changes", *DEMO, *saved).status == 0
    assert (run("changes", *DEMO, *saved)).status == 0


def test_events_of_chosen_tables(run: Callable[..., Any]) -> None:
    """Table maps and rows of other tables are left out; all other events stay, in order."""
    whole = run("events", "--json", *DEMO).records

    def of_table(fields: dict[str, Any]) -> str:
        return f"{fields.get('schema')}.{fields.get('table')}"

    ids = {
        (one["file"], one["fields"]["table_id"]): of_table(one["fields"])
        for one in whole
        if one["type"] == "TABLE_MAP_EVENT"
    }
    assert {"shop.orders", "shop.customers"} <= set(ids.values())

    def table_of(one: dict[str, Any]) -> str | None:
        if one["type"] == "TABLE_MAP_EVENT" or "ROWS_EVENT" in one["type"]:
            return ids[one["file"], one["fields"]["table_id"]]
        return None

    for given, kept in (
        (["--tables", "shop.orders"], {None, "shop.orders"}),
        (["--exclude", "shop.orders"], {None, *ids.values()} - {"shop.orders"}),
        (["--tables", "shop.*", "--exclude", "shop.c*"], {None, "shop.orders", "shop.products"}),
    ):
        expected = [one for one in whole if table_of(one) in kept]
        assert run("events", "--json", *DEMO, *given).records == expected


def test_an_unknown_table_of_a_live_source(
    run: Callable[..., Any], start: Callable[..., Any], shop: list[str]
) -> None:
    """A run that ends says so at the end; names that were read are among the hints."""
    source_url = start("serve", *shop).stdout.readline().strip()
    given = [source_url, "--stop-at-end", "--start", "earliest"]
    result = run("changes", *given, "--tables", "shop.ordres")
    assert (result.status, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert "no table shop.ordres was read; did you mean shop.orders?" in result.err
    assert run("changes", *given, "--tables", "shop.ordres", "--allow-empty").status == 0
    assert run("changes", *given, "--tables", "shop.orders").status == 0
