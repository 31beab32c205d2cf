"""Help, version, exit statuses, and one line for every error."""

import contextlib
import errno
import logging
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import replica_client
from replica_client.cli import app
from replica_client.errors import install_command

COMMANDS = (
    "events", "changes", "check", "annotate", "backup", "doctor", "serve", "pipeline", "demo", "run",
    "find", "history", "stats", "index", "undo", "redo", "snapshot",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run, command):
    result = run(command, "--help")
    assert result.status == 0
    assert f"Usage: replica-client {command}" in result.out
    assert f"Example:  replica-client {command}" in " ".join(result.out.split(" "))
    assert result.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_each_command_is_valid_usage(command):
    example = app.COMMANDS[command][1]
    assert example.startswith(f"replica-client {command}")
    assert len(f"  Example:  {example}") <= 80, "help would break the line"


def test_help_lists_every_command(run):
    result = run("--help")
    assert result.status == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.out


def test_the_version_tells_the_implementation(run):
    result = run("--version")
    assert result.status == 0
    form = "compiled" if replica_client.compiled() else "pure Python"
    assert result.out.startswith(f"replica-client {replica_client.__version__} ({form}, Python ")


def test_without_a_command_the_help_is_shown(run):
    result = run()
    assert (result.status, result.out) == (2, "")
    assert "Follow:\n  changes   Print row changes." in result.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("chnages",), "No such command 'chnages'"),
        (("changes",), "Missing argument 'SOURCE'"),
        (("changes", "--bogus", "x"), "No such option: --bogus"),
        (("annotate", "x", "--position", "abc"), "--position"),
        (("annotate", "x", "--limit", "0"), "--limit"),
        (
            ("changes", "postgres://db/"),
            "postgres:// is not supported; give a local path, s3://, gs:// or abfss://, or mysql://",
        ),
        (("changes", "mysql://db/", "binlog.000001"), "one URL, or one or more paths"),
        (("check", "mysql://db/"), "paths, not URLs"),
        (("serve", "x", "--port", "70000"), "--port"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run, arguments, what):
    result = run(*arguments)
    assert result.status == 2
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert what in result.err
    assert "--help'" in result.err


def test_an_option_that_makes_no_sense_is_status_2(run, shop):
    result = run("changes", *shop, "--start", "nonsense")
    assert result.status == 2
    assert "'nonsense' is not understood" in result.err


@pytest.mark.parametrize("command", ["events", "changes", "check", "annotate", "serve", "pipeline"])
def test_a_missing_file_is_one_line_and_status_1(run, tmp_path, command):
    missing = tmp_path / "binlog.000009"
    result = run(command, missing)
    assert result.status == 1
    assert result.err == (f"replica-client: {missing}: No such file or directory; check the path\n")


@pytest.mark.parametrize("command", ["events", "changes", "check", "annotate"])
def test_a_file_that_is_no_binlog_is_one_line_and_status_1(run, tmp_path, command):
    path = tmp_path / "notes.txt"
    path.write_text("hello, world\n", encoding="utf-8")
    result = run(command, path)
    assert result.status == 1
    assert len(result.err.splitlines()) == 1
    assert "notes.txt" in result.err
    assert "not a binlog" in result.err


@pytest.mark.parametrize("command", ["events", "changes", "check", "annotate"])
def test_an_unreadable_file_is_one_line_and_status_1(run, monkeypatch, shop, command):
    def refuse(path, *arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    # Not by chmod: root, as whom CI runs, may read everything.
    monkeypatch.setattr(Path, "open", refuse)
    result = run(command, shop[0])
    assert result.status == 1
    assert result.err == (
        f"replica-client: {shop[0]}: Permission denied; check who may read or write it\n"
    )


def test_no_directory_of_binlogs_is_named(run, tmp_path):
    result = run("check", tmp_path)
    assert result.status in (1, 2)
    assert "no binlog file" in result.err


@pytest.mark.parametrize("command", ["events", "changes", "annotate", "check"])
def test_output_that_nobody_reads_ends_the_command_quietly(start, shop, command):
    reading, writing = os.pipe()
    os.close(reading)
    process = start(command, *shop[:1], stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_a_full_disk_says_where_and_what_to_do(start, shop):
    with Path("/dev/full").open("w") as full:
        process = start("changes", *shop, stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == (
        "replica-client: standard output: No space left on device; free space, then start again\n"
    )


def test_a_missing_extra_names_the_pip_command(run, monkeypatch, tmp_path):
    config = tmp_path / "shop.toml"
    config.touch()

    def no_pyspark(name, package=None):
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")

    # That module's name alone: what else is imported meanwhile would keep the other.
    monkeypatch.setattr(
        "replica_client.cli.program.importlib", SimpleNamespace(import_module=no_pyspark)
    )
    project = tomllib.loads(
        (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    for arguments in (("demo", "--no-plain"), ("pipeline", config)):
        result = run(*arguments)
        assert result.status == 1
        said = re.fullmatch(
            "replica-client: the Python package pyspark is not installed; "
            f"run: {re.escape(install_command('EXTRA')).replace('EXTRA', '([a-z,]+)')}\n",
            result.err,
        )
        assert said, result.err
        assert set(said[1].split(",")) <= set(project["optional-dependencies"])


@pytest.mark.parametrize(
    ("library", "remedy"),
    [
        ("libstdc++.so.6", "; on Debian or Ubuntu run: apt-get install libstdc++6"),
        ("libother.so.1", ""),
    ],
)
def test_a_missing_shared_library_is_named(run, monkeypatch, library, remedy):
    def no_library(name, package=None):
        raise ImportError(f"{library}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(
        "replica_client.cli.program.importlib", SimpleNamespace(import_module=no_library)
    )
    result = run("demo", "--no-plain")
    assert (result.status, result.out) == (1, "")
    needs = (
        f"an installed Python package needs the shared library {library}, which this system lacks"
    )
    assert result.err == f"replica-client: {needs}{remedy}\n"


def test_another_failed_import_is_an_error_of_ours(run, monkeypatch):
    def wrong(name, package=None):
        raise ImportError("cannot import name 'x'")

    monkeypatch.setattr(
        "replica_client.cli.program.importlib", SimpleNamespace(import_module=wrong)
    )
    with pytest.raises(ImportError, match="cannot import name"):
        run("demo", "--no-plain")


def test_no_secret_of_a_url_is_printed(run):
    result = run("changes", "mysql://repl:hunter2@127.0.0.1:1/")
    assert result.status == 1
    assert "127.0.0.1:1" in result.err
    assert "hunter2" not in result.err


def test_what_others_wrote_cannot_steer_the_terminal(capsys, caplog):
    from replica_client.cli.output import Lines, message
    from replica_client.service.process import LineFormatter

    evil = "a\x1b]0;pwned\x07\x1b[2J\u202e\x9b1m\r\udcff"
    message(f"replica-client: {evil}\nsecond line")
    shown = capsys.readouterr().err
    assert shown.count("\n") == 2
    assert shown.replace("\n", "").isprintable()
    Lines().line(f"== {evil}, line 1 of a file called ü…→\U0001f41f")
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert shown[:-1].isprintable()
    assert shown.endswith("called ü…→\U0001f41f\n")
    Lines().data(evil[:-1])
    assert capsys.readouterr().out == evil[:-1] + "\n"
    logging.getLogger("replica_client").warning("file %s", f"{evil}\n2026-01-01 INFO forged")
    line = LineFormatter("%(levelname)s %(message)s").format(caplog.records[-1])
    assert line.isprintable()
    assert line.startswith("WARNING file a\\x1b")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_shows_whole_words(tmp_path, width):
    """Messages and warnings; what is longer than a line stays whole, and a pipe gets lines."""
    url, path = "mysql://repl@db1/?" + "x" * 150, tmp_path / "no such file"
    program = (
        "import logging; from replica_client.cli.main import main; from replica_client.cli.output import message;"
        f"main(['events', {str(path)!r}]); message('say ' * 50 + {url!r});"
        "logging.getLogger('replica_client').warning('warn ' * 50)"
    )
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True).stderr
    leader, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width)}
    with subprocess.Popen(command, stderr=terminal, env=environment) as process:
        os.close(terminal)
        data = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody is there any more
            while got := os.read(leader, 4096):
                data += got
    os.close(leader)
    assert process.returncode == 0
    lines = data.decode().splitlines()
    assert shown.count("\n") == 3
    assert " ".join(data.decode().split()) == " ".join(shown.split())
    assert all(len(line) <= width or " " not in line.strip() for line in lines), lines
