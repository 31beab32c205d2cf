"""Programs that import the originals find this package's modules; wrong usage is one line."""

import os
import subprocess
import sys

import pytest

from replica_client.compat.__main__ import main

PROGRAM = """
import sys
import pymysqlreplication
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.constants.BINLOG import WRITE_ROWS_EVENT_V2
from pymysqlreplication.gtid import Gtid, GtidSet
from pymysqlreplication.row_event import WriteRowsEvent
from replica_client.compat.pymysqlreplication import BinLogStreamReader as Ours
print(BinLogStreamReader is Ours, WRITE_ROWS_EVENT_V2, sys.argv[1:], __name__)
"""


COPIES = """
import subprocess, sys
from inventory.pymysqlreplication.row_event import WriteRowsEvent
from replica_client.compat.pymysqlreplication.row_event import WriteRowsEvent as Ours
print(WriteRowsEvent is Ours)
if len(sys.argv) == 1:
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, "child"], check=True)
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replica_client.compat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_runs_unmodified(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = _run("run", str(path), "--x", "1")
    assert done.stderr == ""
    assert done.stdout == "True 30 ['--x', '1'] __main__\n"


def test_a_copy_of_the_original_is_replaced_in_children_too(tmp_path):
    package = tmp_path / "inventory/pymysqlreplication"
    package.mkdir(parents=True)
    (tmp_path / "inventory/__init__.py").touch()
    (package / "__init__.py").write_text("raise ImportError('the copy')")
    # Another one's module of that name goes on working.
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("print('other')")
    path = tmp_path / "program.py"
    path.write_text(COPIES)
    options = ("--children", "--instead-of", "inventory.pymysqlreplication")
    paths = os.pathsep.join(filter(None, (str(other), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "replica_client.compat", "run", *options, str(path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["other", "True", "other", "True"]


@pytest.mark.parametrize(
    "arguments",
    [
        *((), ("run",), ("walk", "x"), ("run", "-m"), ("run", "no.py")),
        *(("run", "--no-such"), ("run", "--instead-of"), ("run", "--children")),
    ],
)
def test_wrong_usage_says_so(arguments, capsys):
    assert main(list(arguments)) == 2
    assert capsys.readouterr().err
