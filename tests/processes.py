"""Processes of the command that begin as copies of one that has imported it.

``python -m replica_client`` imports for 0.2 to 0.4 s of CPU before it does anything, and the tests start it a thousand
times. `Popen` and `run` are those of `subprocess`; a command ``[sys.executable, "-m", "replica_client", …]`` is a fork
of a template that waits with the modules in its memory, one for each process that runs tests. The process has
its own arguments, environment, directory, files and signals, and is a child of the one that asked for it. A test whose
subject is the start itself calls `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

MODULE = "replica_client"
_TEMPLATE = "tests.processes"
_ROOT = Path(__file__).parents[1]
_IMPORTED = (
    "replica_client.cli.main",
    "replica_client.cli.run",
    "replica_client.service.mirrors",
    "replica_client.service.pages",
    "replica_client.service.process",
    "replica_client.service.route",
    "replica_client.service.service",
    "replica_client.sinks.mirror.stored_values",
    "replica_client.stream.live.source_stream",
)
# What Python, its libraries and imported modules read when they start.
_READ_AT_START = (
    *("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC", "COVERAGE", "REPLICA_CLIENT_IMPL"),
    *(
        "COLUMNS",
        "FORCE_COLOR",
        "GITHUB_ACTIONS",
        "NO_COLOR",
        "PY_COLORS",
        "TERMINAL_WIDTH",
        "_TYPER",
    ),
)
_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_REQUEST = 1 << 18


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


class _Template:
    """The process that has imported the command, as its asker sees it."""

    def __init__(self) -> None:
        self.environment = _read_at_start(dict(os.environ))
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _TEMPLATE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.owner = os.getpid()
        self._libc = ctypes.CDLL(None)
        atexit.register(self.close)

    def copy(self, request: dict[str, Any], files: list[int]) -> int:
        """Return the number of a new process, which is a child of this one."""
        # The parent of the copy ends at once: the next one above it that adopts orphans is this process.
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            number = int(self._socket.recv(100))
            assert self._socket.recv(100) == b"adopted"
        finally:
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return number

    def close(self) -> None:
        if os.getpid() == self.owner:
            self._socket.close()
            self._process.wait()


_template: _Template | None = None


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, where the command is a copy of the template if it can be one."""

    def _execute_child(self, args: Any, *given: Any) -> None:
        executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell = given[:9]
        files, (_, gid, gids, uid, umask, new_session, group) = given[9:15], given[15:22]
        environment = dict(os.environ if env is None else env)
        unusual = (executable, preexec_fn, pass_fds, shell, gid, gids, uid)
        words = list(map(os.fspath, args)) if not isinstance(args, str | bytes) else []
        if (
            words[:3] != [sys.executable, "-m", MODULE]
            or any(one for one in unusual)
            or (umask, group) != (-1, -1)
            or _read_at_start(environment) != _template_here().environment
        ):
            super()._execute_child(args, *given)  # type: ignore[misc]
            return
        request = {
            "words": words[3:],
            "directory": os.fspath(cwd or os.getcwd()),
            "environment": environment,
            "new_session": new_session,
        }
        own = (files[0], files[3], files[5])
        shared = [number if file == -1 else file for number, file in enumerate(own)]
        self.pid = _template_here().copy(request, shared)
        self._child_created = True
        self._close_pipe_fds(*files)  # type: ignore[attr-defined]


def _template_here() -> _Template:
    global _template
    if _template is None or _template.owner != os.getpid():
        _template = _Template()
    return _template


def run(
    command: Any,
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _wait_for_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return in each copy with what it is to do, and in the template when nobody asks any more."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 3)
        if not message:
            return None
        between = os.fork()
        if not between:
            copy = os.fork()
            if not copy:
                return json.loads(message), files
            connection.send(str(copy).encode())
            os._exit(0)
        os.waitpid(between, 0)
        connection.send(b"adopted")
        for file in files:
            os.close(file)


def _become(request: dict[str, Any], files: list[int]) -> None:
    if request["new_session"]:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 256)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["words"]
    sys.path[0] = request["directory"]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        new = open(  # noqa: SIM115
            number,
            "w" if number else "r",
            encoding=old.encoding,
            errors=old.errors,
            closefd=False,
            buffering=1 if number == 2 or os.isatty(number) else -1,
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _main() -> None:
    # An asker that is killed closes its end, and the template ends.
    connection = socket.socket(fileno=int(sys.argv[1]))
    for name in _IMPORTED:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) != 1:
        raise SystemExit("an imported module has started a thread: a fork would not have it")
    gc.freeze()
    found = _wait_for_request(connection)
    if found is None:
        return
    connection.detach()
    _become(*found)
    with contextlib.suppress(KeyError):
        del sys.modules[f"{MODULE}.__main__"]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
