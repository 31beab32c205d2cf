"""``replica-client demo`` without Spark, and what the scripts show while pip works."""

import os
import subprocess
import sys

import pip_progress
import pytest

from replica_client.cli.demonstration.proof import prove
from replica_client.cli.demonstration.served import ServedBinlog


def demo(directory, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "replica_client", "demo", *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_plain_part_is_killed_goes_on_and_equals_the_source(tmp_path):
    result = demo(tmp_path, "--no-spark")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "Of 87 changes in the binlog, 0 are missing, 0 repeated, 0 different." in result.stdout
    assert " equals the source." in result.stdout
    assert sorted(path.name for path in (tmp_path / "demo-output").iterdir()) == [
        "plain-1.jsonl",
        "plain-2.jsonl",
        "plain.position",
    ]


def test_plain_python_is_said_once(tmp_path):
    result = demo(tmp_path, "--no-spark", REPLICA_CLIENT_IMPL="python")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("plain Python") == 1


def test_a_lost_change_is_seen():
    served = ServedBinlog()
    changes = served.changes()
    log = [
        {
            "_file": change.file,
            "_offset": change.position,
            "_row_index": change.row_index,
            "database": change.database,
            "table": change.table,
            "operation": change.kind,
            "before": None,
            "after": None,
        }
        for change in changes[1:]
    ]
    proof = prove(log, changes, served.expected["tables"])
    assert not proof.holds
    assert proof.missing == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Collecting pyspark<5,>=4.2\n", ("looking for pyspark<5,>=4.2", False)),
        (
            "  Downloading pyspark-4.2.0.tar.gz (455.0 MB)\n",
            ("unpacking pyspark-4.2.0.tar.gz (455 MB)", True),
        ),
        (
            "Downloading typer-0.16.0-py3-none-any.whl (46 kB)\n",
            ("unpacking typer-0.16.0-py3-none-any.whl", False),
        ),
        (
            "  Downloading typer-0.16.0-py3-none-any.whl.metadata (15 kB)\n",
            ("unpacking typer-0.16.0-py3-none-any.whl", False),
        ),
        (
            "Using cached pyarrow-26.0.0-cp313-cp313-manylinux_2_28_x86_64.whl (47.6 MB)\n",
            ("unpacking pyarrow-26.0.0-cp313-cp313-manylinux_2_28_x86_64.whl (48 MB)", True),
        ),
        ("  Building wheel for pyspark (pyproject.toml): started\n", ("building pyspark", True)),
        (
            "  Building editable for replica-client (pyproject.toml): started\n",
            ("building replica-client", True),
        ),
        (
            "  Preparing metadata (pyproject.toml): started\n",
            ("building a package", False),
        ),
        ("Installing collected packages: a, b, c\n", ("installing 3 packages", True)),
        ("Successfully installed a-1\n", None),
        ("WARNING: Running pip as the 'root' user\n", None),
    ],
)
def test_phases_of_pip(line, said):
    assert pip_progress.phase(line) == said


def test_what_is_silent_is_reported_of(tmp_path, monkeypatch, capfd):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho Collecting spark\nsleep 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(pip_progress, "SILENCE", 0.2)
    assert pip_progress.main(tmp_path, ["install"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "looking for spark … (" in line]) >= 2
    assert not (tmp_path / ".pip").exists()


def test_pip_that_fails_is_shown(tmp_path, capfd):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho ERROR: no matching distribution\nexit 1\n")
    python.chmod(0o755)
    assert pip_progress.main(tmp_path, ["install"]) == 1
    assert "ERROR: no matching distribution" in capfd.readouterr().err
