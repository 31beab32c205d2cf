"""No password stays in the process list."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from replica_client.cli.program import secrets_in


@pytest.mark.parametrize(
    ("argument", "hidden"),
    [
        ("mysql://repl:hunter2@db1:3306/", ["hunter2"]),
        ("mariadb://repl:a%40b:c@h1,h2/?tls=required", ["a%40b:c"]),
        ("mysql://repl@db1/?password=hunter2&tls_key_password=k", ["hunter2", "k"]),
        ("mysql://repl@db1/?tls-key-password=k", ["k"]),
        ("redis://:hunter2@cache/0", ["hunter2"]),
        ("mysql://repl@db1:3306/shop", []),
        ("binlog.000001", []),
    ],
)
def test_what_is_hidden(argument, hidden) -> None:
    line = b"replica-client\0changes\0" + argument.encode() + b"\0--json\0"
    assert [line[a:b].decode() for a, b in secrets_in(line)] == hidden


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc on this system")
def test_the_command_hides_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mysql://repl:hunter2@127.0.0.1:{silent.getsockname()[1]}/?password=hunter3"
        command = [sys.executable, "-m", "replica_client", "changes", url, "--json"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                silent.settimeout(30)
                with contextlib.closing(silent.accept()[0]):  # it waits for a greeting now
                    seen = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            finally:
                process.kill()
    assert b"mysql://repl:xxxxxxx@127.0.0.1" in seen
    assert b"hunter" not in seen
    assert seen.endswith(b"\0--json\0")
