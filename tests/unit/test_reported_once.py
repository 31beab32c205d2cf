"""What makes work slow or impossible is told in one line, once, with the remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client
from replica_client.errors import install_command

DATA = Path(replica_client.__file__).parent / "testing" / "data"
# As on a machine without a compiler: the package before this runs is as it is installed there.
PLAIN = "import replica_client._compiled as c; c._COMPILED = False; c.why_not_compiled = lambda: 'no X';"
READ = """
import asyncio, replica_client as rc
for _ in range(2):
    for change in rc.open_binlog({path!r}).changes():
        pass
for _ in range(2):
    rc.connect("mysql://nobody@127.0.0.1:1/")
print("read")
"""


def _run(program: str, implementation: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program.format(path=str(DATA))],
        env={**os.environ, "REPLICA_CLIENT_IMPL": implementation},
        capture_output=True,
        text=True,
        check=False,
    )


def test_plain_python_is_reported_once_where_nobody_asked_for_it() -> None:
    done = _run(PLAIN + READ, "")
    assert done.stdout == "read\n", done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("runs as plain Python, up to 28 times slower")
    assert "no X" in line and "REPLICA_CLIENT_IMPL=python" in line


def test_plain_python_that_was_asked_for_is_not_reported() -> None:
    done = _run(READ, "python")
    assert (done.stdout, done.stderr) == ("read\n", "")


@pytest.mark.skipif(not replica_client.compiled(), reason="the hot modules run as Python")
def test_compiled_modules_tell_nothing() -> None:
    done = _run(READ, "")
    assert (done.stdout, done.stderr) == ("read\n", "")


WITHOUT_ARROW = """
import sys
sys.modules["pyarrow"] = None
import asyncio, replica_client as rc

async def live():
    async for batch in rc.connect("mysql://nobody@127.0.0.1:1/").batches():
        pass

def files():
    for batch in rc.open_binlog({path!r}).batches():
        pass

for use in (files, files, lambda: asyncio.run(live())):
    try:
        use()
    except rc.ConfigError as error:
        print(error)
"""


def test_batches_without_pyarrow_name_what_to_install() -> None:
    done = _run(WITHOUT_ARROW, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert all("need pyarrow" in line and install_command("arrow") in line for line in lines)
