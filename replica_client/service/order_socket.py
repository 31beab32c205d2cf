"""Control of a running service: a Unix socket in its state directory.

Who may write to the socket may give orders: the service's own user, and root. A request and its answer are a line of
JSON each::

    {"command": "pause", "sinks": ["shop.lines"]}
    {"sinks": [{"sink": "shop.lines", "state": "paused", …}]}
    {"error": "no sink is …"}

Each order is in the log, in the file ``control.jsonl`` next to the socket, on the status page and in the metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

from replica_client.errors import ConfigError
from replica_client.stream.tables.table_copy import TableName

Command = Literal["status", "pause", "resume", "restart", "reload", "set-aside"]
COMMANDS: Final[tuple[str, ...]] = get_args(Command)
_LOG = logging.getLogger("replica_client.service")
_SOCKET: Final = "control.sock"
_AUDIT: Final = "control.jsonl"
_LONGEST_PATH: Final = 107
"""Bytes of a Unix socket's name that the kernel takes."""
_MAX_LINE: Final = 64 << 10
_MAX_AUDIT: Final = 1 << 20
_REQUEST_SECONDS: Final = 5.0
_KEPT: Final = 20


def chosen(names: Mapping[str, str], wanted: str) -> list[str]:
    """Return the sinks that a name means: ``SOURCE.SINK``, ``SINK``, or all where it is empty.

    Args:
        names: the short name of each sink, by its whole name.
        wanted: the name.

    Raises:
        ConfigError: there is none.
    """
    found = [name for name, short in names.items() if wanted in ("", name, short)]
    if not found:
        raise ConfigError(f"--sink {wanted}: no such sink; there are {', '.join(names)}")
    return found


class Control:
    """The socket of a running service.

    Args:
        state: the state directory.
        carry_out: carries out an order: the command, names of sinks, and tables.
        status: returns the status of each sink.

    Attributes:
        recent: the last orders, the newest at the end.
        counts: orders by command.
    """

    def __init__(
        self,
        state: Path,
        carry_out: Callable[[str, list[str], list[TableName]], Awaitable[None]],
        status: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self._state, self._carry_out, self._status = state, carry_out, status
        self._server: asyncio.Server | None = None
        self._orders = asyncio.Lock()
        self.recent: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self.counts: Counter[str] = Counter()

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the socket cannot be made.
        """
        path = self._state / _SOCKET
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()  # of a process that was killed; the directory's lock is ours
            listener = _socket()
            with _reachable(path) as name:
                before = os.umask(0o177)
                try:
                    listener.bind(name)
                finally:
                    os.umask(before)
            listener.setblocking(False)
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listener, limit=_MAX_LINE
            )
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from error

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            with contextlib.suppress(OSError):
                (self._state / _SOCKET).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readline()
            answer = await self._answer(line, _peer(writer))
            writer.write(json.dumps(answer).encode() + b"\n")
            async with asyncio.timeout(_REQUEST_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # the peer's fault, and its loss
        finally:
            writer.close()

    async def _answer(self, line: bytes, who: str) -> dict[str, Any]:
        try:
            order = json.loads(line)
            command, names = order["command"], order.get("sinks", [])
            known = {one["name"] for one in self._status()}
            if command not in COMMANDS or not set(names) <= known:
                raise ValueError
            tables = [(str(first), str(second)) for first, second in order.get("tables", [])]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {"error": "this is not an order that this service knows"}
        if command != "status":
            async with self._orders:
                try:
                    await self._carry_out(command, names, tables)
                    result = "done"
                except ConfigError as error:
                    result = str(error)
                await self._record(command, names, tables, who, result)
            if result != "done":
                return {"error": result}
        return {"sinks": [one for one in self._status() if not names or one["name"] in names]}

    async def _record(
        self, command: str, names: list[str], tables: list[Any], who: str, result: str
    ) -> None:
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "command": command,
            "sinks": names,
            "tables": [".".join(table) for table in tables],
            "by": who,
            "result": result,
        }
        self.recent.append(entry)
        self.counts[command] += 1
        _LOG.warning(
            "control: %s of %s by %s: %s", command, ", ".join(names) or "the service", who, result
        )
        await asyncio.to_thread(_append, self._state / _AUDIT, entry)


def ask(state: Path, order: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Give an order to the service of a state directory, and return its answer.

    Raises:
        ConfigError: no service answers there, or it refuses.
    """
    path = state / _SOCKET
    data = b""
    try:
        with _socket() as connection, _reachable(path) as name:
            connection.settimeout(seconds)
            connection.connect(name)
            connection.sendall(json.dumps(order).encode() + b"\n")
            while part := connection.recv(_MAX_LINE):
                data += part
                if len(data) > 64 * _MAX_LINE:
                    break
        answer: dict[str, Any] = json.loads(data)
    except PermissionError:
        raise ConfigError(f"{path}: only the service's own user may give orders") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        raise ConfigError(f"{path}: {why}: is the service running?") from None
    if "error" in answer:
        raise ConfigError(str(answer["error"]))
    return answer


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)


@contextlib.contextmanager
def _reachable(path: Path) -> Any:
    """Yield a name of a socket that the kernel takes, however long its path is."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def _peer(writer: asyncio.StreamWriter) -> str:
    """Return who is at the other end, as the kernel knows it."""
    given = writer.get_extra_info("socket")
    if given is None or not hasattr(socket, "SO_PEERCRED"):
        return "unknown"
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack(
        "3i", given.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return f"user {user}, process {pid}"


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    """Append an entry to the audit, of which at most two files of a MiB are kept."""
    try:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > _MAX_AUDIT:
                path.replace(path.with_suffix(".1.jsonl"))
        descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with open(descriptor, "ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
    except OSError as error:
        _LOG.error("%s: %s", path, error.strerror)
