"""Programs and commands of README and tutorial on fresh servers, with exactly the account that the page makes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import TRACEBACKS_VARIABLE
from tests.servers.local import LocalServer
from tests.unit.documents.pages import PACKAGE, ROOT, URL, Block, blocks

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "content" / "tutorial" / "first-stream.md"
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, state ENUM('new', 'paid'))",
    "INSERT INTO shop.orders VALUES (2, 'new'), (3, 'new')",
)
NEW = (
    "INSERT INTO shop.orders VALUES (40, 'new')",
    "UPDATE shop.orders SET state = 'paid' WHERE id = 2",
)
PRIVILEGES = ("REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT")


def of_page(page: Path, language: str) -> list[Block]:
    return [one for one in blocks(language) if ROOT / one.page == page]


def programs(page: Path) -> list[str]:
    """The whole programs of a page that follow a source."""
    return [
        one.text
        for one in of_page(page, "python")
        if "import replica_client" in one.text and URL in one.text
    ]


def accounts(page: Path) -> list[str]:
    """The statements of a page that make its account."""
    return [one for block in of_page(page, "sql") for one in block.text.split(";") if one.strip()]


class Program:
    """A program in a process of its own; its output goes to files."""

    def __init__(self, words: list[str], directory: Path, server: LocalServer) -> None:
        self._server, self._before = server, dumps(server)
        self._files = directory / "out", directory / "said"
        with self._files[0].open("w") as out, self._files[1].open("w") as said:
            self.process = subprocess.Popen(words, cwd=directory, stdout=out, stderr=said)

    def follows(self) -> bool:
        """Whether a binlog dump was started since."""
        return bool(dumps(self._server) - self._before)

    @property
    def out(self) -> list[str]:
        return self._files[0].read_text(encoding="utf-8").splitlines()

    @property
    def said(self) -> list[str]:
        return self._files[1].read_text(encoding="utf-8").splitlines()

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, (self.out, self.said)
            assert self.process.poll() is None, (self.out, self.said)
            time.sleep(0.02)


@contextmanager
def started(
    code: str, directory: Path, server: LocalServer, user: str = "repl"
) -> Iterator[Program]:
    """A program of a page, or a command, with the URL of a server."""
    code = code.replace(URL, server.url(user)).replace("mysql://repl:secret@db1/", server.url(user))
    if code.startswith("replica-client "):
        words = [sys.executable, "-um", "replica_client", *shlex.split(code)[1:]]
    else:
        file = directory / "program.py"
        file.write_text(code, encoding="utf-8")
        words = [sys.executable, "-u", str(file)]
    program = Program(words, directory, server)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()


def dumps(server: LocalServer) -> set[int]:
    """The sessions of binlog dumps; one that ended may be among them for a while."""
    found = server.query(
        "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    )
    return {int(row[0]) for row in found}


@pytest.fixture(params=["mysql-9.7", "mariadb-11.8"])
def source(request: pytest.FixtureRequest, fresh_server: Any) -> LocalServer:
    """A server with its default settings and without the account."""
    server: LocalServer = fresh_server(request.param)
    server.execute("DROP USER repl@'%'")
    return server


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.stem)
def test_programs_and_commands_run_with_the_account_of_the_page(
    page: Path, source: LocalServer, tmp_path: Path
) -> None:
    for statement in (*TABLES, *accounts(page)):
        source.execute(statement)
    checked = [
        line
        for block in of_page(page, "sh")
        for line in block.text.splitlines()
        if " doctor " in line
    ]
    checked += re.findall(r"`(replica-client doctor [^`]*)`", page.read_text(encoding="utf-8"))
    assert checked
    for line in checked:
        with started(line, tmp_path, source) as program:
            assert program.process.wait(30) == 0, program.said
    assert programs(page)
    for code in programs(page):
        with started(
            code.replace(', start="earliest", stop_at_end=True', ""), tmp_path, source
        ) as program:
            program.wait_for(program.follows)
            for statement in NEW:
                source.execute(statement)
            program.wait_for(lambda: sum("orders" in line for line in program.out) == 2)
            if code == programs(README)[0]:
                (shown,) = [block.text for block in of_page(README, "text")]
                assert program.out == shown.splitlines()
        source.execute("DELETE FROM shop.orders WHERE id = 40")
        source.execute("UPDATE shop.orders SET state = 'new' WHERE id = 2")
    if page == README:
        (line,) = re.findall(
            r"`(replica-client changes mysql:[^`]*)`", page.read_text(encoding="utf-8")
        )
        with started(line, tmp_path, source) as program:
            program.wait_for(program.follows)
            source.execute(NEW[0])
            program.wait_for(lambda: len(program.out) > 0)


@pytest.mark.timeout(120)
def test_the_tutorial_runs_from_the_earliest_change_to_the_end(
    source: LocalServer, tmp_path: Path
) -> None:
    for statement in (*TABLES, *accounts(TUTORIAL)):
        source.execute(statement)
    for number in range(50, 60):
        source.execute("INSERT INTO shop.orders VALUES (%s, 'new')", (number,))
    (first,) = programs(TUTORIAL)
    with started(first, tmp_path, source) as program:
        assert program.process.wait(30) == 0, program.said
        assert sum("orders" in line for line in program.out) == 12
    # The next block goes on from the first one's imports; its files are those of the server.
    (resumed,) = [one.text for one in of_page(TUTORIAL, "python") if "position_store" in one.text]
    files = [str(source.binlog_path(name)) for name in source.binlog_files()]
    code = "import asyncio\nimport replica_client as rc\n\n" + resumed.replace(
        '["shop-bin.000001", "shop-bin.000002"]', repr(files)
    )
    assert repr(files) in code
    with started(code, tmp_path, source) as program:
        assert program.process.wait(30) == 0, program.said
    with started("replica-client position show shop.position", tmp_path, source) as program:
        assert program.process.wait(30) == 0, program.said


@pytest.mark.timeout(180)
def test_a_missing_privilege_is_told_at_once(
    source: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRACEBACKS_VARIABLE, raising=False)
    for statement in TABLES:
        source.execute(statement)
    for missing in PRIVILEGES:
        user = "without_" + missing.rpartition(" ")[2].lower()
        source.execute(f"CREATE USER {user}@'%%' IDENTIFIED BY 'secret'")
        source.execute(
            f"GRANT {', '.join(one for one in PRIVILEGES if one != missing)} ON *.* TO {user}@'%%'"
        )
        with started(
            "replica-client doctor mysql://repl:secret@db1/", tmp_path, source, user
        ) as program:
            assert program.process.wait(30) == 1
        said = "\n".join(program.out)
        named = (
            "BINLOG MONITOR"
            if (missing, source.flavor) == ("REPLICATION CLIENT", "mariadb")
            else missing
        )
        assert f"GRANT {named} ON *.* TO" in said
        for code in (*programs(README), *programs(TUTORIAL)):
            # A saved position needs no REPLICATION CLIENT, and MariaDB refuses a dump after the start is saved.
            for file in tmp_path.glob("shop.position*"):
                file.unlink()
            code = code.replace(', start="earliest", stop_at_end=True', "")
            with started(code, tmp_path, source, user) as program:
                if missing == "SELECT":
                    program.wait_for(
                        lambda: any("GRANT SELECT ON *.* TO" in line for line in program.said)
                    )
                    program.wait_for(program.follows)
                    source.execute("UPDATE shop.orders SET state = 'paid' WHERE id = 2")
                assert program.process.wait(30) == 1
            source.execute("UPDATE shop.orders SET state = 'new' WHERE id = 2")
            assert named in program.said[-1] or "SELECT" in program.said[-1]
            assert "secret" not in program.said[-1]
            frames = [line for line in program.said if str(PACKAGE) in line]
            assert len(frames) <= 3, "\n".join(program.said)
