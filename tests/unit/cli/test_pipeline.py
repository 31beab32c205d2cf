"""``replica-client pipeline``: what it hands to the pipeline, and how it tells the result."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def calls(monkeypatch):
    result = SimpleNamespace(
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
    seen = SimpleNamespace(given=[], result=result)

    def run_pipeline(config, *, verbose=False, engine=None):
        seen.given.append((config, verbose, engine))
        return result

    module = SimpleNamespace(run_pipeline=run_pipeline)
    monkeypatch.setattr("replica_client.cli.lake.extra_module", lambda name, extra: module)
    return seen


def test_the_configuration_is_handed_on(run, calls, tmp_path):
    config = tmp_path / "shop.toml"
    config.touch()
    result = run("pipeline", config, "--verbose", "--engine", "local")
    assert (result.status, result.err) == (0, "")
    assert calls.given == [(config, True, "local")]
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


def lake_with(directory, *statements):
    """A lake of one table, and what statements made of it."""
    pytest.importorskip("deltalake")
    from tests.unit.lake.lakes import HandLog, applier

    log = HandLog(directory / "lake" / "change_log")
    log.ddl("create table c (id int primary key, v int)").insert("c", id=1, v=2)
    for sql in statements:
        log.ddl(sql)
    log.commit()
    applier(directory / "lake", log).run()
    config = directory / "shop.toml"
    config.write_text('[source]\nurl = "mysql://repl@db1/"\n[pipeline]\noutput = "lake"\n')
    return config


@pytest.mark.parametrize(
    ("statements", "status"),
    [((), 0), (("alter table c modify v varchar(9)",), 3), (("drop table c",), 0)],
)
def test_a_table_that_is_not_current_has_an_exit_status(run, tmp_path, statements, status):
    config = lake_with(tmp_path, *statements)
    plain = run("lake", "status", config)
    strict = run("lake", "status", config, "--strict")
    assert (plain.status, strict.status) == (0, status)
    assert strict.out == plain.out
    assert ("d.c: 0 rows" in strict.out and "left out" in strict.out) is bool(status)


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--strict",), 3)])
def test_a_run_that_leaves_a_table_out(run, calls, tmp_path, monkeypatch, options, status):
    config = tmp_path / "shop.toml"
    config.touch()
    left = {"table": "d.c", "status": "left_out", "reason": "a type was changed"}
    monkeypatch.setattr(calls.result, "not_current", (left,))
    found = run("pipeline", config, *options)
    assert (found.status, found.err) == (status, "")
    assert "d.c: left out: a type was changed" in found.out
    assert run("pipeline", config, "--json", *options).status == status


def test_help_shows_a_configuration(run):
    assert '      url = "mysql://repl@db1/"\n' in run("pipeline", "--help").out
