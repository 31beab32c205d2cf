"""The files of a server, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from replica_client.errors import BinlogFormatError, ConfigError, ServerError
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import (
    FIRST_EVENT,
    MAGIC,
    BinlogEvent,
    BinlogFormat,
    EventContext,
    EventHeader,
)
from replica_client.protocol.binlog.events import (
    MariadbGtidListEvent,
    PreviousGtidsEvent,
    RotateEvent,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtidSet
from replica_client.server.packet_output import FramedChunks
from replica_client.server.served_files import ServedFile

_FATAL: Final = 1236


def make_event(
    type_code: int,
    body: RotateEvent | PreviousGtidsEvent | MariadbGtidListEvent,
    format: BinlogFormat,
    *,
    server_id: int,
    next_position: int = 0,
    timestamp: int = 0,
    flags: int = 0,
) -> bytes:
    """Return the bytes of an artificial event."""
    size = HEADER_SIZE + len(body.encode(EventContext(format, type_code, flags)))
    header = EventHeader(
        timestamp, type_code, server_id, size + format.checksum_size, next_position, flags
    )
    return encode_event(BinlogEvent(header, body), format)


def gtid_list(gtids: MariadbGtidSet) -> MariadbGtidListEvent:
    """Return a GTID list event; pad an empty list, as servers send at least six bytes."""
    listed = tuple((gtid.domain_id, gtid.server_id, gtid.sequence) for gtid in gtids)
    return MariadbGtidListEvent(listed, extra=b"" if listed else bytes(2))


def fatal(message: str) -> ServerError:
    """Return error 1236, with which sources end dumps."""
    return ServerError(_FATAL, "HY000", message)


class BinlogLibrary:
    """The files of a server; when they grow, the dumps that wait at the end continue.

    Args:
        paths: binlog files in order, or one directory of them.

    Attributes:
        files: in order, at least one.
        gtid_mode: whether the MySQL server that writes them has GTIDs on; None: as the files say.
        chunks: pieces of the files as packets, for all clients.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.files: list[ServedFile] = []
        self.gtid_mode: bool | None = None
        self.chunks = FramedChunks()
        self._listeners: dict[Callable[[], None], None] = {}
        self._executed: tuple[str, int, GtidSet | MariadbGtidSet] | None = None
        self._paths = list(paths)
        self._open()

    def _open(self) -> None:
        for path in expand(self._paths):
            self.files.append(ServedFile(path.name, path))
        if not self.files:
            raise ConfigError("a source needs at least one binlog file")
        names = [file.name for file in self.files]
        if len(set(names)) < len(names):
            raise ConfigError("two binlog files of a source have the same name")

    @property
    def flavor(self) -> ServerFlavor:
        """The flavor in the last file's format description."""
        return self.files[-1].flavor

    @property
    def server_version(self) -> str:
        """The server version in the last file's format description."""
        return self.files[-1].format.server_version

    @property
    def server_id(self) -> int:
        """The server id in the last file's format description; at least 1."""
        return self.files[-1].server_id or 1

    @property
    def has_gtids(self) -> bool:
        """Whether the server has MySQL GTIDs: as it reports, or because the files contain some."""
        if self.gtid_mode is not None:
            return self.gtid_mode
        executed = self.executed()
        return isinstance(executed, GtidSet) and bool(executed)

    def executed(self) -> GtidSet | MariadbGtidSet:
        """Return all GTIDs up to the end of the last file."""
        last = self.files[-1]
        known = self._executed
        if known is None or known[:2] != (last.name, last.size):
            known = self._executed = (last.name, last.size, self._scan_executed())
        return known[2]

    async def count(self) -> None:
        """Count the GTIDs of :meth:`executed` and let other tasks run meanwhile."""
        last = self.files[-1]
        for file in [last] if last.previous is not None else self.files:
            await file.transactions.count()

    def _scan_executed(self) -> GtidSet | MariadbGtidSet:
        last = self.files[-1]
        if last.previous is not None or len(self.files) == 1:
            return last.executed()
        result = self.files[0].executed()
        for file in self.files[1:]:
            more = file.executed()
            if (isinstance(result, GtidSet) and isinstance(more, GtidSet)) or (
                isinstance(result, MariadbGtidSet) and isinstance(more, MariadbGtidSet)
            ):
                result = result | more
        return result

    def purged(self) -> GtidSet | MariadbGtidSet:
        """Return the GTIDs before the first file."""
        empty = MariadbGtidSet() if self.flavor is ServerFlavor.MARIADB else GtidSet()
        return self.files[0].previous or empty

    def server_uuid(self) -> str | None:
        """Return the UUID of the first GTID in the files; None if there is none."""
        for file in self.files:
            for gtid in file.gtids():
                if isinstance(gtid, Gtid):
                    return str(gtid).partition(":")[0]
        return None

    def find(self, name: str) -> ServedFile | None:
        """Return a file by name; the first file for an empty name, None for an unknown one."""
        if not name:
            return self.files[0]
        return next((file for file in self.files if file.name == name), None)

    def after(self, file: ServedFile) -> ServedFile | None:
        """Return the file after ``file``; None for the last one.

        Raises:
            ServerError: the file was purged, and so was the one after it.
        """
        if file is self.files[-1]:
            return None
        for at, one in enumerate(self.files):
            if one.name == file.name:
                return self.files[at + 1]
        following = file.following
        if following is None or following.name != self.files[0].name:
            raise fatal(f"Could not find next log: what follows {file.name} was purged meanwhile")
        return self.files[0]

    # Growing and shrinking.

    def append(self, data: bytes) -> None:
        """Add whole events to the last file."""
        self.files[-1].append(data)
        self._wake()

    def refresh(self) -> bool:
        """Look on disk for new files and files that grew; return whether there are any.

        New files are looked for in the directories that the library was made of. A file whose head
        is not yet written is found by a later call.
        """
        changed = self.files[-1].grow()
        known = {file.name for file in self.files}
        last = _file_order(Path(self.files[-1].name))
        for path in expand(path for path in self._paths if path.is_dir()):
            if path.name in known or _file_order(path) < last:
                continue
            try:
                file = ServedFile(path.name, path)
            except BinlogFormatError:
                break
            self.files[-1].grow()  # once a next file exists, this one is complete
            self.files.append(file)
            changed = True
        if changed:
            self._wake()
        return changed

    def add(self, file: ServedFile) -> None:
        """Add a file after the last one."""
        self.files.append(file)
        self._wake()

    def rotate(self) -> str:
        """End the last file with a ROTATE event and add a new file; return the new name."""
        last = self.files[-1]
        stem, _, number = last.name.rpartition(".")
        if number.isdigit():
            name = f"{stem}.{int(number) + 1:0{len(number)}d}"
        else:
            name = f"{last.name}.000001"
        body = RotateEvent(FIRST_EVENT, name)
        size = HEADER_SIZE + len(body.encode()) + last.format.checksum_size
        rotate = make_event(
            EventType.ROTATE_EVENT,
            body,
            last.format,
            server_id=self.server_id,
            next_position=(last.size + size) & 0xFFFFFFFF,
            timestamp=1,
        )
        executed = self.executed()
        last.append(rotate)
        data = MAGIC + last.sent_description()
        self.add(ServedFile(name, data=data + self._gtids_so_far(executed, last, len(data))))
        return name

    def _gtids_so_far(
        self, executed: GtidSet | MariadbGtidSet, like: ServedFile, position: int
    ) -> bytes:
        body: PreviousGtidsEvent | MariadbGtidListEvent
        if isinstance(executed, MariadbGtidSet):
            code, flags = EventType.GTID_LIST_EVENT, 0
            body = gtid_list(executed)
        elif like.previous is None:
            return b""
        else:
            code = EventType.PREVIOUS_GTIDS_LOG_EVENT
            flags = int(EventFlag.LOG_EVENT_IGNORABLE_F)
            body = PreviousGtidsEvent(executed.encode())
        size = HEADER_SIZE + len(body.encode()) + like.format.checksum_size
        return make_event(
            code,
            body,
            like.format,
            server_id=self.server_id,
            next_position=position + size,
            timestamp=1,
            flags=flags,
        )

    def purge_to(self, name: str) -> None:
        """Remove the files before the file ``name``.

        Raises:
            ConfigError: there is no such file.
        """
        file = self.find(name)
        if file is None:
            raise ConfigError(f"the source has no file {name}")
        kept = self.files.index(file)
        for gone, following in zip(self.files[:kept], self.files[1 : kept + 1], strict=True):
            gone.following = following
        self.files = self.files[kept:]

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function whenever the library grows, in the order of subscription."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Stop calling a function passed to :meth:`subscribe`."""
        self._listeners.pop(listener, None)

    def _wake(self) -> None:
        for listener in list(self._listeners):
            listener()


def expand(paths: Iterable[Path]) -> list[Path]:
    """Return files in order; replace a directory by its binlog files, ordered by number."""
    out: list[Path] = []
    for path in paths:
        if not path.is_dir():
            out.append(path)
            continue
        for inner in sorted(path.iterdir(), key=_file_order):
            if inner.is_file():
                with inner.open("rb") as file:
                    if file.read(4) == MAGIC:
                        out.append(inner)
    return out


def _file_order(path: Path) -> tuple[str, int, str]:
    """Return a sort key by number: binlog.1000000 comes after binlog.999999."""
    stem, _, number = path.name.rpartition(".")
    if number.isascii() and number.isdecimal():
        return stem, int(number), ""
    return path.name, 0, ""
