"""``replica-client pipeline``: what it hands to the pipeline, and how it tells the result."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def calls(monkeypatch):
    seen = []

    def run_pipeline(config, *, verbose=False):
        seen.append((config, verbose))
        return SimpleNamespace(
            rows=87,
            position="binlog.000002:9422",
            change_log=Path("lake/change_log"),
            version=3,
            copied=0,
            tables=0,
            lag=None,
            not_current=(),
            report=None,
        )

    module = SimpleNamespace(run_pipeline=run_pipeline)
    monkeypatch.setattr("replica_client.cli.pipeline.extra_module", lambda name, extra: module)
    return seen


def test_the_configuration_is_handed_on(run, calls, tmp_path):
    config = tmp_path / "shop.toml"
    config.touch()
    result = run("pipeline", config, "--verbose")
    assert (result.status, result.err) == (0, "")
    assert calls == [(config, True)]
    assert "87 changes written, source read to binlog.000002:9422" in result.out
    assert "lake/change_log (Delta table, version 3)" in result.out


def test_json(run, calls, tmp_path):
    config = tmp_path / "shop.toml"
    config.touch()
    result = run("pipeline", config, "--json")
    assert json.loads(result.out) == {
        "rows": 87,
        "position": "binlog.000002:9422",
        "change_log": "lake/change_log",
        "version": 3,
        "tables": 0,
        "copied": 0,
        "lag_seconds": None,
        "not_current": [],
        "report": None,
    }


def test_help_shows_a_configuration(run):
    assert '      url = "mysql://repl@db1/"\n' in run("pipeline", "--help").out
