"""Programs that import the originals find this package's modules; wrong usage is one line."""

import subprocess
import sys

import pytest

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


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replica_client.compat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_runs_unmodified(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = _run("run", str(path), "--x", "1")
    assert done.stderr == ""
    assert done.stdout == "True 30 ['--x', '1'] __main__\n"


@pytest.mark.parametrize(
    "arguments", [(), ("run",), ("walk", "x"), ("run", "-m"), ("run", "no.py")]
)
def test_wrong_usage_says_so(arguments):
    done = _run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr
