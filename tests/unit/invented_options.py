"""Checks of two invented options on every surface, run by test_options on a copy of the package that has them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from reference_pages.configuration import options, pipeline, relay, service
from reference_pages.sources import spark_options, url_parameters

import replica_client as rc
from replica_client.cli.main import main
from replica_client.errors import ConfigError
from replica_client.lake.config import load_config
from replica_client.lake.source_options import SourceOptions
from replica_client.service.config_file import read_config
from replica_client.service.relay_config_file import read_relay_config
from replica_client.service.source_access import hosts_of, stream_options
from replica_client.stream.transport.connect_options import parse_url

U = "mysql://repl@127.0.0.1:1/"
SOURCE = f'name = "shop"\nurl = "{U}"\n'
SINK = '[[source.sink]]\ntype = "stdout"\n'
WRONG = "give seconds, more than 0"
DATA = str(Path(rc.__file__).parent / "testing" / "data" / "shop-bin.000001")


def _written(directory: Path, text: str) -> Path:
    file = directory / "one.toml"
    file.write_text(text)
    return file


def _pipeline(directory: Path, keys: str) -> SourceOptions:
    text = f'[source]\nurl = "{U}"\n{keys}[pipeline]\noutput = "lake"\n'
    return SourceOptions.parse(load_config(_written(directory, text)).source)


def test_python() -> None:
    stream: Any = rc.connect(U, patience=5, keeps_comments=True)  # type: ignore[call-arg]
    assert stream._options.assembly.keeps_comments
    assert stream._link._hosts[0].patience == 5
    with pytest.raises(ConfigError, match=WRONG):
        rc.connect(U, patience="x")  # type: ignore[call-arg]


def test_url() -> None:
    assert parse_url(f"{U}?patience=5").patience == 5  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=WRONG):
        parse_url(f"{U}?patience=x")


def test_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    taken: dict[str, Any] = {}

    def connect(url: str, **given: Any) -> None:
        taken.update(given)
        raise ConfigError("seen")

    monkeypatch.setattr(sys.modules[rc.connect.__module__], "connect", connect)
    assert main(["changes", U, "--patience", "5", "--keeps-comments"]) == 2
    assert (taken["patience"], taken["keeps_comments"]) == (5.0, True)
    assert main(["changes", DATA, "--patience", "5"]) == 2
    assert "--patience is for a live source: leave it out with files" in capsys.readouterr().err


def test_service(tmp_path: Path) -> None:
    text = f"[[source]]\n{SOURCE}patience = 5\nkeeps_comments = true\n{SINK}"
    config = read_config(_written(tmp_path, text), {})
    assert hosts_of(config.sources[0], tmp_path)[0].patience == 5  # type: ignore[attr-defined]
    assembly: Any = stream_options(config.routes[0], mirror=False).assembly
    assert assembly.keeps_comments
    with pytest.raises(ConfigError, match=f"line 4: source.patience: 'x': {WRONG}"):
        read_config(_written(tmp_path, f"[[source]]\n{SOURCE}patience = 'x'\n{SINK}"), {})


def test_relay(tmp_path: Path) -> None:
    text = f'[source]\nurl = "{U}"\npatience = 5\n[[account]]\nuser = "a"\npassword = "b"\n'
    config = read_relay_config(_written(tmp_path, text), {})
    assert hosts_of(config.source, tmp_path)[0].patience == 5  # type: ignore[attr-defined]


def test_pipeline_and_spark(tmp_path: Path) -> None:
    found: Any = _pipeline(tmp_path, "patience = 5\nkeeps_comments = true\n")
    assert found.connect.patience == 5
    assert found.assembly().keeps_comments
    with pytest.raises(ConfigError, match=f"line 3: .source. patience: 'x': {WRONG}"):
        _pipeline(tmp_path, "patience = 'x'\n")
    with pytest.raises(ConfigError, match=f"option patience 'x': {WRONG}"):
        SourceOptions.parse({"url": U, "patience": "x"})


def test_pages() -> None:
    meaning = "Seconds of an invented wait."
    for page in (options, service, relay, pipeline, spark_options, url_parameters):
        assert meaning in page()
    for page in (options, service, pipeline, spark_options):
        assert "Keep invented comments." in page()
