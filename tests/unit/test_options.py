"""Declared options: each is on every surface or has a reason, and a message spells it as its surface does."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import ConfigError
from replica_client.options import (
    _REMEDIES,
    OPTIONS,
    SURFACES,
    Option,
    Surface,
    options_of,
    options_on,
    remedies,
)
from replica_client.service.examples import EXAMPLE as SERVICE, RELAY_EXAMPLE as RELAY
from replica_client.stream.transport.connect_options import ConnectOptions


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_an_option_is_on_a_surface_or_has_a_reason(option: Option, surface: Surface) -> None:
    assert (surface in option.surfaces) != (len(option.without.get(surface, "")) > 2)
    assert option.help


@pytest.mark.parametrize("surface", SURFACES)
def test_a_name_is_one_option(surface: Surface) -> None:
    assert len(options_on(surface)) == sum(
        surface in option.surfaces for option in OPTIONS.values()
    )


def test_every_keyword_is_declared() -> None:
    objects = {"options", "assembly", "reconnect", "losses", "prepared", "url", "source"}
    ends = {"stop", "since", "until"}
    for function in (rc.connect, rc.open_binlog, rc.scan_binlog):
        assert set(inspect.signature(function).parameters) - objects - ends <= set(OPTIONS)


def test_what_does_not_exist_is_left_out() -> None:
    both = remedies("deliver statements", "record statement")
    assert "on_statement='deliver'" in both
    assert "record_losses=['statement']" in both
    with options_of("spark"):
        stated = remedies("deliver statements", "record statement")
        assert stated == "count them as lost with recordLosses=statement"
    with options_of("flag"):
        assert "--on-statement deliver" in remedies("deliver statements")
    assert remedies("deliver statements", "record statement") == both


@pytest.mark.parametrize("surface", ["keyword", "flag", "service", "pipeline", "spark"])
def test_every_surface_has_a_way_to_go_on(surface: Surface) -> None:
    with options_of(surface):
        assert remedies("deliver statements", "record statement")
        for name in _REMEDIES.keys() - {"deliver statements"}:
            assert remedies(name), (surface, name)


@pytest.mark.parametrize("surface", SURFACES)
def test_a_wrong_value_has_one_message(surface: Surface) -> None:
    for name, option in options_on(surface).items():
        if option.kind.words == "a value" or (
            surface in ("url", "spark") and option.kind.fits("[no")
        ):
            continue
        given = "[no" if surface in ("url", "spark") else object()
        with pytest.raises(ConfigError) as caught:
            option.read(given, surface)
        said = str(caught.value)
        assert f": give {option.said(option.kind.words, surface)}" in said
        assert name in said or surface in ("service", "relay", "pipeline")
        assert ("None" in said) <= (surface == "keyword")


ROWS = """\
    declare(
        "patience",
        PERIOD,
        "Seconds of an invented wait.",
        family=dict.fromkeys(SURFACES, _HERE),
        target="connect",
    ),
    _reading("keeps_comments", FLAG, "Keep invented comments.", default=False),
"""


@pytest.mark.slow
def test_the_recipe_for_a_new_option(tmp_path: Path) -> None:
    """Follow the recipe of CONTRIBUTING for two invented options: three files, and all surfaces have them."""
    package = Path(rc.__file__).parent
    copy = tmp_path / "replica_client"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    changed = set()

    def add(module: str, before: str, line: str) -> None:
        file = copy.parent.joinpath(*module.split(".")).with_suffix(".py")
        text = file.read_text("utf-8")
        assert text.count(before) == 1, module
        file.write_text(text.replace(before, line + before), "utf-8")
        changed.add(file)

    add("replica_client.options", "    # Following.\n", ROWS)
    keywords = "    patience: float | None = None,\n    keeps_comments: bool = False,\n"
    add(rc.connect.__module__, "    transform: Sequence[Mapping[str, Any]] = (),\n", keywords)
    add(
        ConnectOptions.__module__,
        '    program_name: str = "replica_client"\n',
        "    patience: float = 1.0\n",
    )
    assert len(changed) == 3
    add(
        rc.AssemblyOptions.__module__,
        "    withholds_texts: bool = False\n",
        "    keeps_comments: bool = False\n",
    )
    shutil.copy(Path(__file__).with_name("invented_options.py"), tmp_path / "test_invented.py")
    paths = [str(tmp_path), *(path for path in sys.path if "scripts" in path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_invented.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "REPLICA_CLIENT_IMPL": "python"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize(("surface", "example"), [("service", SERVICE), ("relay", RELAY)])
def test_the_examples_show_each_key(surface: Surface, example: str) -> None:
    missing = [
        key
        for key in options_on(surface)
        if not re.search(rf"(?m)^(# |\[\[source\.)?{key}\b", example)
    ]
    assert missing == []
