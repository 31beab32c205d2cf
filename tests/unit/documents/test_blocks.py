"""What every page shows works as it stands there."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from pathlib import Path

import pytest
import typer

import replica_client
from replica_client.cli.app import make_app
from replica_client.service.config_file import read_config
from replica_client.service.relay_config_file import read_relay_config
from replica_client.stream.transport.connect_options import parse_hosts
from tests.recipes.served import served
from tests.unit.documents.pages import PACKAGE, PAGES, ROOT, Block, blocks, for_source, furnish, run

PYTHON = [page for page in PAGES if any(block.page == page for block in blocks("python"))]
COMMANDS = [
    pytest.param(line, id=f"{block}: {line}")
    for block in blocks("sh")
    for line in block.text.splitlines()
    if line.startswith("replica-client ")
]


@pytest.mark.parametrize("page", PYTHON, ids=str)
def test_every_python_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    names: dict[str, object] = {"rc": replica_client}
    with served() as source:
        for block in blocks("python"):
            if block.page == page and _runs(block):
                run(for_source(block.text, source.url), names, str(block))


def _runs(block: Block) -> bool:
    """Whether a Python block runs here: packages of an extra that it needs are there where CI runs."""
    if not block.note.startswith("needs "):
        return not block.note
    wanted = block.note.removeprefix("needs ").split()
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    assert not missing or not os.environ.get("CI"), f"{block} needs {missing}"
    return not missing


NOTED = [one for one in blocks("python") if one.note and not one.note.startswith("needs ")]


@pytest.mark.parametrize("block", NOTED, ids=str)
def test_a_python_block_that_does_not_run_here_says_why(block: Block) -> None:
    compile(block.text, str(block), "exec")
    assert block.note == "spark" or re.fullmatch(r"not run: .{20,}", block.note)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_line_is_valid_usage(line: str) -> None:
    words = shlex.split(re.split(r" [>|;&]|  # | # ", line)[0].replace("…", ""))[1:]
    if words[0].startswith("--"):
        assert words == ["--version"]
        return
    group = typer.main.get_command(make_app(words[0]))
    command = group.commands[words[0]]  # type: ignore[attr-defined]
    inner = getattr(command, "commands", None)
    if inner is not None:
        command, words = inner[words[1]], words[1:]
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_every_configuration_is_accepted(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.toml"
    text = block.text
    if block.note == "fragment of pipeline":
        text = f'[source]\npath = "binlogs"\n[pipeline]\noutput = "lake"\n{text}'
    file.write_text(text, encoding="utf-8")
    if "[[source]]" in block.text:
        assert read_config(file, {}).routes
        return
    if "[relay]" in block.text:
        assert read_relay_config(file, {}).accounts
        return
    pytest.importorskip("pyspark", reason="the pipeline's configuration is read with pyspark")
    from replica_client.lake.config import load_config

    monkeypatch.setenv("REPL_PASSWORD", "secret")
    load_config(file)


@pytest.mark.parametrize("block", blocks("text"), ids=str)
def test_every_url_is_accepted(block: Block, tmp_path: Path) -> None:
    for line in block.text.splitlines():
        if line.startswith(("mysql://", "mariadb://")):
            option_file = tmp_path / "my.cnf"
            option_file.write_text("[client]\n", encoding="utf-8")
            assert parse_hosts(line.replace("~/.my.cnf", str(option_file)), {})


def test_every_block_names_its_language() -> None:
    for page in PAGES:
        fences = re.findall(r"^ *```(.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
        assert all(fences[0::2]), page
        assert not any(fences[1::2]), page
        assert set(fences[0::2]) <= {"python", "sh", "toml", "text", "sql", "json", "ini"}, page


def test_every_script_that_is_named_is_there() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        for name in re.findall(r"\b((?:scripts|tests|replica_client)/[\w./-]*\w)", text):
            root = PACKAGE.parent if name.startswith("replica_client/") else ROOT
            assert (root / name).exists(), f"{page} names {name}"
