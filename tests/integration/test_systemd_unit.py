"""The systemd unit that the service prints: systemd takes it, and the service works in its sandbox."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer
from tests.servers.plugin import unavailable

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(240),
]

# Runs a command with the filters of a unit: those of system calls and addresses with libseccomp, as systemd does.
_SANDBOX = """
import ctypes, os, sys
names, families, command = sys.argv[1].split(), [int(one) for one in sys.argv[2].split()], sys.argv[3:]
libc, seccomp = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libseccomp.so.2")
for option, value in ((38, 1), (65, 1)):  # PR_SET_NO_NEW_PRIVS; PR_SET_MDWE, of Linux 6.3
    if libc.prctl(option, value, 0, 0, 0):
        print("no prctl", option, file=sys.stderr)
        os._exit(77)
for capability in range(41):
    libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
seccomp.seccomp_init.restype = ctypes.c_void_p
refuse, allow = 0x00050001, 0x7FFF0000  # EPERM
context = ctypes.c_void_p(seccomp.seccomp_init(refuse))
class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]
known = 0
for name in names:
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    if number == -1:
        continue
    if name == "socket":
        for family in families:
            rule = (Comparison * 1)(Comparison(0, 4, family, 0))
            assert not seccomp.seccomp_rule_add_array(context, allow, number, 1, rule)
    else:
        known += not seccomp.seccomp_rule_add(context, allow, number, 0)
assert known > 200, known
assert not seccomp.seccomp_load(context)
os.execvp(command[0], command)
"""
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}


def _unit(directory: Path) -> tuple[Path, dict[str, str]]:
    if not shutil.which("systemd-analyze"):
        unavailable("systemd-analyze is not installed (the package systemd)")
    config = directory / "unit.toml"
    config.write_text(
        '[daemon]\nlisten = ""\n[[source]]\nname = "shop"\nurl = "mysql://repl@127.0.0.1:1/"\n'
        '[[source.sink]]\ntype = "file"\npath = "out"\n'
    )
    command = [sys.executable, "-m", "replica_client", "run", str(config), "--systemd-unit"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    path = directory / "replica-client.service"
    path.write_text(text)
    return path, dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE))


def _allowed(words: str) -> set[str]:
    """The system calls of a filter, whose groups systemd lists."""
    found: set[str] = set()
    for word in words.split():
        if not word.startswith("@"):
            found.add(word)
            continue
        command = ["systemd-analyze", "syscall-filter", word]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        inner = (one.strip() for one in listed.splitlines()[1:])
        found |= _allowed(" ".join(one for one in inner if one and one[0] != "#"))
    return found


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    path, unit = _unit(tmp_path)
    for words in (("verify", "--man=no"), ("security", "--offline=true", "--threshold=20")):
        command = ["systemd-analyze", *words, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert unit["MemoryDenyWriteExecute"] == unit["NoNewPrivileges"] == "yes"
    assert unit["ProtectProc"] == "invisible"
    allowed = _allowed(unit["SystemCallFilter"])
    assert {"read", "mmap", "clone3", "epoll_wait", "fsync"} <= allowed
    assert not {"ptrace", "mount", "bpf", "kexec_load", "init_module", "reboot"} & allowed


def _sandbox(unit: dict[str, str]) -> tuple[str, ...]:
    families = " ".join(str(_FAMILIES[one]) for one in unit["RestrictAddressFamilies"].split())
    before = (
        sys.executable,
        "-c",
        _SANDBOX,
        " ".join(_allowed(unit["SystemCallFilter"])),
        families,
    )
    tried = subprocess.run([*before, "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no sandbox here: {tried.stderr.decode()[-200:]}")
    return before


_PROBE = """
import ctypes, mmap, socket, sys
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    print("memory")
except PermissionError:
    pass
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    print("netlink")
except PermissionError:
    pass
if ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0:
    print("calls")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="capabilities are dropped")
def test_the_service_works_in_the_sandbox(
    server: Callable[[str], LocalServer], tmp_path: Path
) -> None:
    """With sinks of compiled libraries, an order, a reload and an end."""
    source = server("mysql-9.7")
    before = _sandbox(_unit(tmp_path)[1])
    # The filters are there.
    probe = [*before, sys.executable, "-c", _PROBE]
    assert subprocess.run(probe, capture_output=True, check=True).stdout == b""
    source.reset_binlog()
    for statement in ("DROP DATABASE IF EXISTS sandbox", "CREATE DATABASE sandbox"):
        source.execute(statement)
    source.execute("CREATE TABLE sandbox.t (id INT PRIMARY KEY, d JSON)")
    source.execute("INSERT INTO sandbox.t VALUES (1, '{\"a\": 1}')")
    kinds: dict[str, dict[str, Any]] = {
        "file": {}, "parquet": {"roll_seconds": 1.0}, "sqlite": {"snapshot": True}, "duckdb": {"snapshot": True},
    }  # fmt: skip
    sinks = [
        {"name": kind, "type": kind, "path": tmp_path / f"out.{kind}", **options}
        for kind, options in kinds.items()
    ]
    settings = {"url": source.url(), "tables": ["sandbox.*"], "start": "earliest"}
    with DaemonProcess(tmp_path, settings, sinks, before=before) as daemon:
        daemon.until_level(120)
        order = [sys.executable, "-m", "replica_client", "service"]
        for action in ("pause", "resume"):
            subprocess.run(
                [*order, action, str(daemon.config), "--sink", "file"], check=True, timeout=60
            )
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGHUP)
        source.execute("INSERT INTO sandbox.t VALUES (2, NULL)")
        daemon.until_level(120)
        assert not [one for one in daemon.status()["routes"] if one["errors"]], daemon.tail()
        assert daemon.get("/metrics")[0] == 200
        assert daemon.stop() == 0
    assert "Permission" not in daemon.tail() and "not permitted" not in daemon.tail()


def test_every_sink_says_the_same_in_the_sandbox(tmp_path: Path) -> None:
    """Nothing listens at their addresses: with the filters, their libraries fail as without them."""
    before = _sandbox(_unit(tmp_path)[1])
    sinks = {
        "clickhouse": 'url = "http://127.0.0.1:1/"', "http": 'url = "http://127.0.0.1:1/"',
        "kafka": 'bootstrap_servers = "127.0.0.1:1"\ntimeout = 1.0\ntransaction_timeout = 1.0',
        "mysql": 'url = "mysql://u@127.0.0.1:1/"', "postgres": 'url = "postgresql://u@127.0.0.1:1/d"',
        "nats": 'url = "nats://127.0.0.1:1"\nsubject = "x"\nstream = "x"\ntimeout = 1.0',
        "redis": 'url = "redis://127.0.0.1:1/0"\ntimeout = 1.0',
    }  # fmt: skip
    config = tmp_path / "all.toml"
    config.write_text(
        '[daemon]\nlisten = ""\n[[source]]\nname = "s"\nurl = "mysql://u@127.0.0.1:1/?connect_timeout=1"\n'
        + "".join(
            f'[[source.sink]]\nname = "{kind}"\ntype = "{kind}"\n{text}\n'
            for kind, text in sinks.items()
        )
    )
    command = [sys.executable, "-m", "replica_client", "run", str(config), "--check", "--connect"]
    bare, inside = (
        subprocess.run([*first, *command], capture_output=True, text=True, timeout=200, check=False)
        for first in ((), before)
    )
    assert (inside.returncode, inside.stdout, inside.stderr) == (
        bare.returncode, bare.stdout, bare.stderr,
    )  # fmt: skip
    tried = {kind for kind in sinks if f"sink s.{kind}: " in bare.stderr}
    assert tried == sinks.keys() - {"http"}, (
        bare.stderr
    )  # a receiver gets nothing before there are changes
