"""Messages name options as they are spelt where the user gave them."""

from __future__ import annotations

from typing import get_args

import pytest

from replica_client.cli.changes import changes as changes_command
from replica_client.lake.source_options import KNOWN_OPTIONS
from replica_client.stream.transactions.surface import _REMEDIES, Surface, options_of, remedies


def test_what_does_not_exist_is_left_out() -> None:
    both = remedies("deliver statements", "record statement")
    assert "on_statement='deliver'" in both
    assert "record_losses=['statement']" in both
    with options_of("command line"):
        stated = remedies("deliver statements", "record statement")
        assert stated == "count them as lost with --record-losses statement"
    assert remedies("deliver statements", "record statement") == both


def test_every_surface_has_a_way_to_go_on() -> None:
    for surface in get_args(Surface):
        with options_of(surface):
            assert remedies("deliver statements", "record statement")
            for name in _REMEDIES.keys() - {"deliver statements"}:
                assert remedies(name), (surface, name)


@pytest.mark.parametrize("name", _REMEDIES)
def test_the_options_exist(name: str) -> None:
    on_line = _REMEDIES[name].get("command line", "")
    options = {word for word in on_line.replace("(", " ").split() if word.startswith("--")}
    known = {f"--{one.replace('_', '-')}" for one in changes_command.__annotations__}
    assert options <= known
    in_spark = _REMEDIES[name].get("spark", "")
    words = [word.strip("()").split("=")[0] for word in in_spark.split()]
    assert any(word in KNOWN_OPTIONS for word in words) or not in_spark
