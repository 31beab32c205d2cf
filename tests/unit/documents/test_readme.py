"""What the README shows works as it stands there, on the binlog that comes with the package."""

import asyncio
import re
import shlex
import tomllib
from pathlib import Path

import typer
from readme_hook import absolute_links

import replica_client
from replica_client.cli.app import make_app
from replica_client.testing import BinlogSource
from tests.recipes.served import served
from tests.unit.cli.conftest import DATA
from tests.unit.documents.pages import for_source

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_is_short():
    assert len(README.split()) <= 1100


def test_the_two_commands_come_before_the_installation():
    first_screen = README.partition("## Install")[0].splitlines()
    assert len(first_screen) <= 32
    for command in ("scripts/demo", "scripts/test"):
        assert any(line.startswith(command) for line in first_screen)
        assert (ROOT / command).exists()


def test_the_asyncio_example_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = [block for block in PYTHON if "asyncio.run" in block]
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    definition = example.replace("asyncio.run(main())", "").replace(
        'tables=["shop.*"],', 'tables=["shop.*"], start="earliest", stop_at_end=True,'
    )

    async def run() -> None:
        async with BinlogSource(DATA) as source:
            url = '"mysql://repl:secret@db1:3306/"'
            assert url in definition
            names: dict[str, object] = {}
            exec(definition.replace(url, repr(source.url)), names)
            await asyncio.wait_for(names["main"](), 60)

    asyncio.run(run())
    assert len(capsys.readouterr().out.splitlines()) == 87
    assert (tmp_path / "shop.position").exists()


def test_the_first_example_prints_what_stands_below_it(capsys):
    example = PYTHON[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 6
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    with served() as source:
        exec(for_source(example, source.url), {})
    printed = capsys.readouterr().out
    assert len(shown.splitlines()) == 2
    assert shown in printed


def test_the_file_example_runs(capsys):
    (example,) = [block for block in PYTHON if "open_binlog" in block]
    path = str(DATA / "shop-bin.000001")
    exec(example.replace('"binlog.000024"', repr(path)), {"rc": replica_client})
    assert capsys.readouterr().out.startswith("insert customers None Row(id=1")


def test_the_table_of_tasks_has_a_row_for_each_with_code_that_is_valid():
    section = README.partition("## What you can do\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| [")]
    assert len(rows) == 10
    for row in rows:
        *_, code = re.findall(r"`([^`]+)`", row)
        program, *words = shlex.split(code)
        if program == "python":
            assert words[:3] == ["-m", "replica_client.compat", "run"]
            continue
        assert program == "replica-client"
        group = typer.main.get_command(make_app(words[0]))
        group.commands[words[0]].make_context(words[0], words[1:])


def test_the_account_may_read_definitions_of_tables():
    (grant,) = re.findall(r"^GRANT (.*) ON \*\.\* TO", README, re.MULTILINE)
    assert set(grant.split(", ")) == {"REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT"}


def test_the_extras_that_are_named_exist():
    extras = PROJECT["optional-dependencies"]
    named = {
        name
        for group in re.findall(r"pip install '\.\[([\w,]+)\]'", README)
        for name in group.split(",")
    }
    assert {"arrow", "spark", "java"} <= named
    assert named <= set(extras)


def test_links_lead_to_files_also_from_the_page_of_an_index():
    """An index shows README alone: a path within the repository leads nowhere there."""
    home = PROJECT["urls"]["Homepage"]
    raw = home.replace("https://github.com/", "https://raw.githubusercontent.com/")
    shown = absolute_links(README, home)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", shown)
    assert any(picture for picture, _ in links)
    for picture, url in links:
        start = f"{raw}/main/" if picture else f"{home}/blob/main/"
        assert url.startswith(start), url
        path = url.removeprefix(start).partition("#")[0]
        assert f"]({url.removeprefix(start)})" in README
        assert (ROOT / path).exists(), url
