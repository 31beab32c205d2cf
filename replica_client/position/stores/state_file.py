"""The long part of a checkpoint's state, in a file that is only appended to.

The position's file gives the name of this file and how many of its bytes count. Bytes that a crash
left after them are cut off at the next save. Each line is a CRC-32 in eight hexadecimal digits and
a text. A new file is written when more than half of the file is outdated; the old one is removed
when no position names it any more.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from replica_client.errors import PositionFormatError
from replica_client.position.stores.growing import stored_before
from replica_client.storage.durable import write_durably

_SPARE_SIZE: Final = 1 << 20


class StateFile:
    """Texts of a state in a file that a position refers to.

    Args:
        directory: where.
        prefix: of the files' names; a number follows.
        mode: of the files, before the umask.
    """

    def __init__(self, directory: Path, prefix: str, mode: int = 0o640) -> None:
        self._directory, self._prefix, self._mode = directory, prefix, mode
        self._name = ""
        self._texts: tuple[str, ...] = ()
        # Offsets after each text, and of the first one.
        self._begin = 0
        self._ends: list[int] = []
        self._kept: str | None = None

    def load(self, saved: Any) -> tuple[str, ...]:
        """Return the texts that a saved position refers to.

        Args:
            saved: the result of :meth:`save`.

        Raises:
            PositionFormatError: the texts are missing or damaged.
        """
        try:
            name, begin, end = saved["file"], saved["begin"], saved["end"]
            if not isinstance(name, str) or os.sep in name or not name.startswith(self._prefix):
                raise TypeError
            if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end):
                raise TypeError
        except (KeyError, TypeError):
            raise PositionFormatError("what it says about its state is damaged") from None
        path = self._directory / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise PositionFormatError(
                f"the file {path} that belongs to it is not there (the two are copied together)"
            ) from None
        if len(data) < end:
            raise PositionFormatError(
                f"{path} has {len(data)} bytes, and {end} of them belong to it"
            )
        texts, ends, at = [], [], begin
        while at < end:
            stop = data.find(b"\n", at, end) + 1
            text = data[at + 9 : stop - 1]
            if not stop or data[at : at + 9] != b"%08x " % zlib.crc32(text):
                raise PositionFormatError(f"{path} is damaged at byte {at}")
            texts.append(text.decode("latin-1"))
            ends.append(stop)
            at = stop
        self._name, self._texts, self._begin, self._ends = name, tuple(texts), begin, ends
        return self._texts

    def save(self, texts: tuple[str, ...]) -> dict[str, object]:
        """Write the new texts durably.

        Returns:
            the entry for the position's file; call :meth:`saved` when that file is durable.

        Raises:
            OSError: they cannot be written; the earlier texts are intact.
        """
        gone = stored_before(self._texts, texts)
        if gone is not None and self._append(texts, gone):
            return self._description()
        lines = [_line(text) for text in texts]
        name = f"{self._prefix}{self._next_number()}"
        path = self._directory / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._mode)
        try:
            write_durably(descriptor, b"".join(lines))
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(descriptor)
        self._name, self._texts, self._begin = name, texts, 0
        self._ends = list(accumulate(map(len, lines)))
        return self._description()

    def _append(self, texts: tuple[str, ...], gone: int) -> bool:
        """Append the new texts; return False where a new file is needed."""
        end, begin = self._ends[-1], self._ends[gone - 1] if gone else self._begin
        if begin > _SPARE_SIZE and begin > end // 2:
            return False
        lines = [_line(text) for text in texts[len(self._texts) - gone :]]
        if lines:
            try:
                descriptor = os.open(self._directory / self._name, os.O_WRONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                size = os.fstat(descriptor).st_size
                if size < end:
                    return False
                if size > end:
                    os.ftruncate(descriptor, end)
                os.lseek(descriptor, end, os.SEEK_SET)
                write_durably(descriptor, b"".join(lines))
            finally:
                os.close(descriptor)
        del self._ends[:gone]
        for line in lines:
            end += len(line)
            self._ends.append(end)
        self._begin, self._texts = begin, texts
        return True

    def _description(self) -> dict[str, object]:
        return {"file": self._name, "begin": self._begin, "end": self._ends[-1]}

    def _next_number(self) -> int:
        numbers = (self._number(path) for path in self._directory.iterdir())
        return max((int(one) for one in numbers if one), default=0) + 1

    def _number(self, path: Path) -> str:
        """Return the number in the name of such a file, or ``""`` for another file."""
        found = re.fullmatch(r"([0-9]{1,18})(?:\.json)?", path.name.removeprefix(self._prefix))
        return found[1] if found and path.name.startswith(self._prefix) else ""

    def saved(self, saved: Mapping[str, object] | None) -> None:
        """Remove the files that the position's file, which is durable now, does not refer to.

        Args:
            saved: the result of :meth:`save`; None: no texts are in a file.
        """
        if saved is None:
            self._name, self._texts, self._begin, self._ends = "", (), 0, []
        if self._kept == self._name:
            return
        self._kept = self._name
        for path in [one for one in self._directory.iterdir() if self._number(one)]:
            if path.name != self._name:
                with contextlib.suppress(OSError):
                    path.unlink()


def _line(text: str) -> bytes:
    data = text.encode("latin-1")
    return b"%08x %s\n" % (zlib.crc32(data), data)
