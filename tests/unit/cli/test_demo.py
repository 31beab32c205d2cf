"""``replica-client demo`` without Spark, and what the scripts show while pip works."""

import os
import subprocess
import sys

import install_packages
import pytest

from replica_client.cli.demonstration.proof import ServedBinlog, prove


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
            "_offset": change.offset,
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
            ("building replica-client, and compiling it where there is a C compiler", True),
        ),
        (
            "  Preparing metadata (pyproject.toml): started\n",
            ("building a package", False),
        ),
        ("Installing collected packages: a, b, c\n", ("installing 3 packages", True)),
        ("Successfully installed a-1\n", None),
        ("WARNING: Running pip as the 'root' user\n", None),
        # What uv prints.
        ("Resolved 243 packages in 6.29s\n", None),
        ("Downloading pyarrow (52.5MiB)\n", ("unpacking pyarrow (52 MB)", True)),
        ("Downloading jedi (4.7MiB)\n", ("unpacking jedi (5 MB)", False)),
        ("   Building pyspark==4.2.0\n", ("building pyspark", True)),
        (
            "   Building replica-client @ file:///checkout\n",
            ("building replica-client, and compiling it where there is a C compiler", True),
        ),
        ("      Built pyspark==4.2.0\n", ("built pyspark", True)),
        ("Prepared 243 packages in 20.5s\n", ("installing 243 packages", True)),
        (" + zstandard==0.25.0\n", None),
    ],
)
def test_phases_of_an_installation(line, said):
    assert install_packages.phase(line) == said


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """What writes the programs of an environment; this machine's uv is none of them."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    (tmp_path / "bin").mkdir()

    def write(**programs):
        for name, program in programs.items():
            path = tmp_path / "bin" / name
            path.write_text(f"#!/bin/sh\n{program}\n")
            path.chmod(0o755)
        return tmp_path

    return write


def test_what_is_silent_is_reported_of(environment, monkeypatch, capfd):
    directory = environment(python="echo Collecting spark; sleep 1")
    monkeypatch.setattr(install_packages, "SILENCE", 0.2)
    assert install_packages.main(directory, ["spark"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "looking for spark … (" in line]) >= 2
    assert not (directory / ".unpacked").exists()


def test_all_that_uv_builds_at_once_is_named(environment, monkeypatch, capfd):
    lines = ("Building a==1", "Building b==1", "Built a==1")
    uv = "; ".join(f"echo '   {line}'; sleep 0.5" for line in lines)
    monkeypatch.setattr(install_packages, "SILENCE", 0.2)
    assert install_packages.main(environment(python="", uv=uv), ["a", "b"]) == 0
    printed = capfd.readouterr().err
    assert "building a and b … (" in printed
    assert "building b … (" in printed


def test_an_installation_that_fails_is_shown(environment, capfd):
    directory = environment(python="echo ERROR: no matching distribution; exit 1")
    assert install_packages.main(directory, ["spark"]) == 1
    assert "ERROR: no matching distribution" in capfd.readouterr().err


_PIP = """
case "$*" in
    *"config list"*) echo "global.index-url='https://packages.example/simple'"
                     echo ":env:.extra-index-url='https://a.example https://b.example'"
                     echo ":env:.find-links='/wheels /more'"
                     echo "download.index-url='https://other.example'" ;;
    *) echo "pip $*" >"$0.log" ;;
esac
"""
_UV = 'env | grep ^UV_ | sort; echo "$@"'


@pytest.mark.parametrize("status", [0, 2])
def test_uv_is_given_the_configuration_of_pip_which_does_what_uv_could_not(
    environment, monkeypatch, capfd, status
):
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    directory = environment(python=_PIP, uv=f'({_UV}) | tee "$0.log"; exit {status}')
    assert install_packages.main(directory, ["-r", "packages"]) == 0
    python = str(directory / "bin" / "python")
    given = [
        "UV_DEFAULT_INDEX=https://packages.example/simple",
        "UV_FIND_LINKS=/wheels,/more",
        "UV_INDEX=https://a.example https://b.example",
        "UV_INDEX_STRATEGY=unsafe-best-match",
        "UV_NATIVE_TLS=true",
        "UV_SYSTEM_CERTS=true",
        f"pip install --python {python} {install_packages._STORED} -r packages",
    ]
    assert (directory / "bin" / "uv.log").read_text().splitlines() == given
    by_pip = directory / "bin" / "python.log"
    assert by_pip.exists() == bool(status)
    printed = capfd.readouterr().err
    assert ("uv could not; pip tries" in printed) == bool(status)
    assert (given[0] in printed) == bool(status)
    if status:
        assert by_pip.read_text().endswith(" install --no-compile -r packages\n")
