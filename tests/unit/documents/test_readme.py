"""What the README shows works as it stands there, on the binlog that comes with the package."""

import asyncio
import re
import tomllib
from pathlib import Path

from readme_hook import absolute_links

import replica_client
from replica_client.testing import BinlogSource
from tests.source.test_follow import served
from tests.unit.cli.conftest import DATA

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_is_short():
    assert len(README.split()) <= 800


def test_the_first_screen_has_the_two_commands():
    first_screen = README.splitlines()[:24]
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


def test_the_example_without_asyncio_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = [block for block in PYTHON if "rc.follow" in block]
    url = '"mysql://repl:secret@db1:3306/"'
    with served() as source:
        here = f'{source.url!r}, start="earliest", stop_at_end=True'
        assert url in example
        exec(example.replace(url, here), {"rc": replica_client})
    assert len(capsys.readouterr().out.splitlines()) == 87
    assert (tmp_path / "shop.position").exists()


def test_the_file_example_runs(capsys):
    (example,) = [block for block in PYTHON if "open_binlog" in block]
    path = str(DATA / "shop-bin.000001")
    exec(example.replace('"binlog.000024"', repr(path)), {"rc": replica_client})
    assert capsys.readouterr().out.startswith("insert customers None Row(id=1")


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
