"""A writer of MariaDB's InnoDB-based binlog for tests, by the published format of 12.3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from replica_client.protocol.binlog.event import INNODB_MAGIC
from replica_client.protocol.binlog.innodb_binlog import (
    COMMIT,
    FILLER,
    OUT_OF_BAND,
    STATE,
    XA_COMPLETE,
    XA_PREPARE,
    crc32c,
)

Place = tuple[int, int]
Node = tuple[Place, int, int]
"""Place, index and height of the root of a tree."""


def write_number(value: int) -> bytes:
    """Return a compressed integer in its shortest form."""
    more = next((more for more in range(7) if value < 1 << 8 * more + 5), 7)
    return (value << 3 | more).to_bytes(9 if more == 7 else more + 1, "little")


def sealed(data: bytes, size: int) -> bytes:
    """Return a page: bytes, zeros, and their CRC-32C."""
    page = data.ljust(size - 4, b"\0")
    return page + crc32c(page).to_bytes(4, "little")


def file_head(page_size: int, number: int, pages: int) -> bytes:
    """Return the first page of a file."""
    fields = [(page_size.bit_length() - 1, 4), (1, 4), (0, 4)]
    fields += [(number, 8), (pages, 8), (0, 8), (0, 8), (0, 8), (0, 8)]
    data = INNODB_MAGIC + b"".join(value.to_bytes(size, "little") for value, size in fields)
    head = sealed(data, 512)
    return head if page_size == 512 else sealed(head, page_size)


class IbbWriter:
    """Writes files page by page.

    Args:
        page_size: bytes of a page.
        pages: of each file.
        interval: pages between GTID states.
    """

    def __init__(self, page_size: int = 512, pages: int = 8, interval: int = 4) -> None:
        self._page_size, self._pages, self._interval = page_size, pages, interval
        self.files: dict[int, list[bytes]] = {}
        self._number = -1
        self._page = bytearray()
        self.state: dict[tuple[int, int], int] = {}
        self._next_file()

    def _next_file(self) -> None:
        self._number += 1
        self.files[self._number] = [file_head(self._page_size, self._number, self._pages)]
        self._put_state()

    @property
    def _room(self) -> int:
        return self._page_size - 4 - len(self._page)

    def _put_state(self) -> None:
        data = write_number(len(self.state)) + write_number(0)
        for (domain, server), sequence in self.state.items():
            data += write_number(domain) + write_number(server) + write_number(sequence)
        self._page += bytes((STATE | 0x40,)) + len(data).to_bytes(2, "little") + data

    def _end_page(self) -> None:
        pages = self.files[self._number]
        page = bytes(self._page).ljust(self._page_size - 4, b"\xff")
        pages.append(sealed(page, self._page_size))
        self._page = bytearray()
        if len(pages) == self._pages:
            self._next_file()
        elif len(pages) % self._interval == 0:
            self._put_state()

    def record(self, kind: int, data: bytes) -> Place:
        """Write a record; return its place."""
        place, flag, at = None, 0, 0
        while True:
            if self._room < 4:
                self._end_page()
            if place is None:
                offset = len(self.files[self._number]) * self._page_size + len(self._page)
                place = (self._number, offset)
            part = data[at : at + self._room - 3]
            at += len(part)
            last = 0x40 if at == len(data) else 0
            self._page += bytes((kind | flag | last,)) + len(part).to_bytes(2, "little") + part
            flag = 0x80
            if not self._room:
                self._end_page()
            if last:
                return place

    def flush(self) -> None:
        """End the file, as FLUSH BINARY LOGS does."""
        if self._room < 4:
            self._end_page()
        size = self._room - 3
        self._page += bytes((FILLER | 0x40,)) + size.to_bytes(2, "little") + b"\xff" * size
        number = self._number
        self._end_page()
        if self._number == number:
            self._page = bytearray()
            self._next_file()

    def node(self, forest: list[Node], data: bytes) -> None:
        """Write an out-of-band record, and add it to a forest."""
        index = forest[-1][1] + 1 if forest else 0
        left, right, height = (0, 0), forest[-1][0] if forest else (0, 0), 1
        if len(forest) > 1 and forest[-1][2] == forest[-2][2]:
            left, height = forest[-2][0], forest[-1][2] + 1
        head = b"".join(map(write_number, (index, *left, *right)))
        place = self.record(OUT_OF_BAND, head + data)
        if height > 1:
            del forest[-2:]
        forest.append((place, index, height))

    def commit(self, events: bytes, *groups: tuple[Place, list[Node]]) -> None:
        """Write a commit record: events, and first place and forest of the groups."""
        head = b""
        for first, forest in groups:
            place, index, _ = forest[-1]
            head += b"".join(map(write_number, (index + 1, *first, *place)))
        if len(groups) < 2:
            head += write_number(0)
        self.record(COMMIT, head + events)

    def transaction(self, events: Sequence[bytes], random: Random) -> None:
        """Write a transaction in one of the ways in which the server does."""
        way = random.randrange(6)
        if way == 0:
            self.record(random.choice((XA_PREPARE, XA_COMPLETE)), random.randbytes(40))
        if way == 1:  # one that is not committed
            self.node([], random.randbytes(random.randrange(1, 900)))
        if way < 3 or len(events) < 3:
            self.commit(b"".join(events))
            return
        rest = b"".join(events[1:])
        cuts = sorted(
            random.sample(range(1, len(rest)), min(len(rest) - 1, random.randrange(1, 14)))
        )
        pieces = [rest[a:b] for a, b in zip([0, *cuts], [*cuts, len(rest)], strict=True)]
        split = random.randrange(1, len(pieces)) if way == 3 and len(pieces) > 1 else len(pieces)
        groups = []
        for part in (pieces[:split], pieces[split:]):
            forest: list[Node] = []
            first: Place = (0, 0)
            for piece in part:
                if way == 4 and forest and random.random() < 0.3:  # a savepoint that is rolled back
                    kept = list(forest)
                    self.node(forest, random.randbytes(random.randrange(1, 300)))
                    forest[:] = kept
                self.node(forest, piece)
                first = first if first != (0, 0) else forest[0][0]
            if part:
                groups.append((first, forest))
        self.commit(events[0], *groups)

    def images(self) -> dict[int, bytes]:
        """Return the files by number, the last one with the zeros of its unwritten pages."""
        files = {number: b"".join(pages) for number, pages in self.files.items()}
        last = files[self._number] + sealed(bytes(self._page), self._page_size)
        files[self._number] = last.ljust(self._pages * self._page_size, b"\0")
        return files

    def save(self, folder: Path) -> list[Path]:
        """Write the files."""
        paths = []
        for number, data in self.images().items():
            path = folder / f"binlog-{number:06d}.ibb"
            path.write_bytes(data)
            paths.append(path)
        return paths
