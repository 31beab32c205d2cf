"""Control of a running service: a Unix socket in its state directory.

Who may write to the socket may give orders: the service's own user, and root. A request and its answer are a line of
JSON each::

    {"command": "pause", "sink": "shop.lines"}
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
from typing import Any, Final, Self

from replica_client.errors import ConfigError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.stream.tables.net_changes import TableName

_LOG = logging.getLogger("replica_client.service")
_SOCKET: Final = "control.sock"
_AUDIT: Final = "control.jsonl"
_LONGEST_PATH: Final = 107
"""Bytes of a Unix socket's name that the kernel takes."""
_MAX_LINE: Final = 64 << 10
_MAX_AUDIT: Final = 1 << 20
_REQUEST_SECONDS: Final = 5.0
_KEPT: Final = 20
_MAX_TABLES: Final = 1000


COMMANDS: Final = (
    *("status", "pause", "resume", "restart", "reload", "skip", "snapshot", "cancel"),
    *("set-aside", "take-back"),
)
_NEEDS: Final = {"skip": "transaction"} | dict.fromkeys(
    ("snapshot", "set-aside", "take-back"), "tables"
)
_FLAGS: Final = {"transaction": "--gtid or --position", "tables": "--table DATABASE.TABLE"}
_MAY_HAVE: Final = {
    "pause": ("at",),
    "snapshot": ("where",),
    "cancel": ("tables",),
}


@dataclass(frozen=True, slots=True)
class Order:
    """An order, as a client sends it.

    Attributes:
        command: see :data:`COMMANDS`.
        sink: ``SOURCE.SINK`` or ``SINK``; empty: all.
        tables: names on the source.
        transaction: ``skip``: its GTID, or ``FILE:OFFSET``.
        at: ``pause``: a position, a GTID set or a time; empty: now.
        where: ``snapshot``: a condition of :mod:`replica_client.rows.where`; empty: all rows.
    """

    command: str
    sink: str = ""
    tables: tuple[TableName, ...] = ()
    transaction: str = ""
    at: str = ""
    where: str = ""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Parse the JSON value of an order.

        Raises:
            ConfigError: it is none; the message says why.
        """
        if not isinstance(value, dict) or value.get("command") not in COMMANDS:
            raise ConfigError("this is not an order that this service knows")
        command = value["command"]
        unknown = set(value) - {"command", "sink", "tables", "transaction", "at", "where"}
        tables = value.get("tables", [])
        if unknown or not isinstance(tables, list) or len(tables) > _MAX_TABLES:
            raise ConfigError("this is not an order that this service knows")
        texts = {key: value.get(key, "") for key in ("sink", "transaction", "at", "where")}
        if not all(isinstance(one, str) for one in (*texts.values(), *tables)):
            raise ConfigError("an order consists of texts; tables is a list of them")
        names = tuple((one.partition(".")[0], one.partition(".")[2]) for one in tables)
        for name in names:
            if not all(name):
                raise ConfigError(f"{command}: {'.'.join(name)!r:.80} is no DATABASE.TABLE")
        order = cls(command, tables=names, **texts)
        allowed = {_NEEDS.get(command), *_MAY_HAVE.get(command, ())}
        for key in ("tables", "transaction", "at", "where"):
            if getattr(order, key) and key not in allowed:
                raise ConfigError(f"{command}: it takes no {key}")
        if (needed := _NEEDS.get(command)) and not getattr(order, needed):
            raise ConfigError(f"{command}: {needed} is missing ({_FLAGS[needed]})")
        return order

    def sinks(self, names: Mapping[str, str]) -> list[str]:
        """Return the sinks that the order is for.

        Args:
            names: the short name of each sink, by its whole name.

        Raises:
            ConfigError: there is none, or the order is for one sink and names several.
        """
        found = [name for name, short in names.items() if self.sink in ("", name, short)]
        if not found:
            raise ConfigError(f"--sink {self.sink}: no such sink; there are {', '.join(names)}")
        if self.command in _NEEDS and len(found) > 1:
            raise ConfigError(f"{self.command}: name one sink with --sink: {', '.join(found)}")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`parse` takes."""
        value = {
            "command": self.command,
            "sink": self.sink,
            "tables": list(map(".".join, self.tables)),
            "transaction": self.transaction,
            "at": self.at,
            "where": self.where,
        }
        return {key: one for key, one in value.items() if one}


class Control:
    """The orders to a running service, and the socket that takes them.

    The socket, the status page's server and signals of the process share :meth:`perform`.

    Args:
        state: the state directory.
        carry_out: carries out an order for sinks; it may raise ConfigError.
        status: returns the status of each sink.

    Attributes:
        recent: the last orders, the newest at the end.
        counts: orders by command.
    """

    def __init__(
        self,
        state: Path,
        carry_out: Callable[[Order, list[str]], Awaitable[None]],
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
            answer = await self.answer(line, _peer(writer))
            writer.write(json.dumps(answer).encode() + b"\n")
            async with asyncio.timeout(_REQUEST_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # the peer's fault, and its loss
        finally:
            writer.close()

    async def answer(self, line: bytes, who: str) -> dict[str, Any]:
        """Carry out the order in a line of JSON, and return the answer as JSON value.

        Args:
            line: the order.
            who: gave it.
        """
        try:
            order = Order.parse(json.loads(line))
            names = order.sinks({one["name"]: one["sink"] for one in self._status()})
        except ConfigError as error:
            return {"error": str(error)}
        except (ValueError, RecursionError):
            return {"error": "this is not an order that this service knows"}
        if order.command != "status" and (fault := await self.perform(order, names, who)):
            return {"error": fault}
        return {"sinks": [one for one in self._status() if one["name"] in names]}

    async def perform(self, order: Order, names: list[str], who: str) -> str:
        """Carry out an order and record it; return why it failed, empty if it did not.

        Args:
            order: any but ``status``.
            names: the sinks.
            who: gave it.
        """
        async with self._orders:
            fault = ""
            try:
                await self._carry_out(order, names)
            except ConfigError as error:
                fault = str(error)
            shown = {key: one for key, one in order.to_json().items() if key != "sink"}
            await self.record(shown, [] if order.command == "reload" else names, who, fault)
        return fault

    async def record(
        self, given: Mapping[str, Any], names: list[str], who: str, fault: str = ""
    ) -> None:
        """Record an order in the log, the audit, the status page and the metrics.

        Args:
            given: the order, or what became of one later; ``command`` and more.
            names: of sinks.
            who: gave it.
            fault: why it failed; empty if it did not.
        """
        command = str(given["command"])
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            **given,
            "sinks": names,
            "by": who,
            "result": fault or "done",
        }
        self.recent.append(entry)
        self.counts[command] += 1
        more = " ".join(f"{key}={one}" for key, one in given.items() if key != "command")
        _LOG.warning(
            "control: %s%s of %s by %s: %s",
            command,
            f" {more}" if more else "",
            ", ".join(names) or "the service",
            who,
            fault or "done",
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
                if len(data) > 1024 * _MAX_LINE:
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
