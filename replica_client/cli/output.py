"""Standard output: JSON lines, or lines in columns; messages and progress go to standard error."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from replica_client.errors import without_secrets
from replica_client.protocol.codec.printable import escaped_json, escaped_json_lines, printable
from replica_client.protocol.codec.quick_dataclass import dataclass

_COLOUR: Final = re.compile("(\x1b\\[[0-9;]*m)")

if TYPE_CHECKING:
    from rich.console import Console


def message(text: str) -> None:
    """Say something to the user, on standard error, without control characters."""
    lines = (wrapped(printable(line)) for line in without_secrets(text).split("\n"))
    print("\n".join(lines), file=sys.stderr)  # noqa: T201


def wrapped(line: str) -> str:
    """Wrap a line for standard error between words, where a terminal is too narrow for it."""
    if not sys.stderr.isatty():
        return line
    width = terminal_width(sys.stderr)
    if len(line) <= width:
        return line
    import textwrap  # not by commands that have nothing to say

    # What is longer than a line (a URL, a fingerprint) stays whole, to be copied.
    return textwrap.fill(
        line, max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def terminal_width(stream: TextIO) -> int:
    """Return the columns of a terminal: ``COLUMNS`` if it is set, else what the terminal reports."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen):
        return int(chosen)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:  # a stream without a descriptor, too
        return 80


def cropped(line: str, width: int) -> str:
    """Return a line that takes at most ``width`` columns of a terminal, with … where it was cut.

    Sequences that set colours take none; the last one is kept.
    """
    if len(line) <= width:
        return line
    from unicodedata import east_asian_width

    shown = end = 0
    parts = _COLOUR.split(line)
    found: list[str] = []
    for at, part in enumerate(parts):
        if at % 2:
            found.append(part)
            continue
        for end, character in enumerate(part):
            wide = 2 if east_asian_width(character) in "WF" else 1
            if shown + wide > width:
                kept = "".join(found) + part[:end]
                return _one_less(kept, shown, width) + "…" + ("\x1b[0m" if len(parts) > 1 else "")
            shown += wide
        found.append(part)
    return line


def _one_less(kept: str, shown: int, width: int) -> str:
    """Return the text without its last character where there is no place for the mark."""
    return kept if shown < width else kept[:-1]


def console() -> Console:
    """Return a console on standard output for tables that are printed once."""
    from rich.console import Console  # not by commands that print plain lines

    return Console(soft_wrap=True, highlight=False)


def progress_console() -> Console:
    """Return a console on standard error."""
    from rich.console import Console

    return Console(stderr=True)


def prepare_standard_output() -> None:
    """UTF-8 whatever the locale; what is not text (a strange file name) becomes an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        # Unbuffered (PYTHONUNBUFFERED): Python would lose what a write leaves over without a word.
        whole = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(
            whole, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


def discard_standard_output() -> None:
    """Make the interpreter end quietly when nobody reads standard output any more."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, number)
    os.close(sink)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a printed table: its heading, its width, and on which side the text stands."""

    heading: str
    width: int = 0
    right: bool = False

    def pad(self, text: str) -> str:
        """Return the text at the column's width; as it is where no terminal shows it."""
        width = self.shown_width
        return text.rjust(width) if self.right else text.ljust(width)

    @property
    def shown_width(self) -> int:
        """The column's width on a terminal; 0 elsewhere, as nothing pads a pipe or a file."""
        return self.width if sys.stdout.isatty() else 0


class Lines:
    """Writes lines to standard output, and can make sure that they left this process.

    Args:
        columns: of a table; its heading is written with the first row.
        stream: where to; standard output.
        crops: whether rows of the table are cropped to the width of a terminal.
    """

    def __init__(
        self,
        columns: Sequence[Column] = (),
        stream: TextIO | None = None,
        *,
        crops: bool = False,
    ) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._failure: OSError | None = None
        self._columns = columns
        self._width = terminal_width(sys.stdout) if crops and sys.stdout.isatty() else 0
        self._headed = False

    def line(self, text: str) -> None:
        """Write one line for people, without control characters.

        Raises:
            OSError: standard output cannot be written.
        """
        if not text.isprintable():
            text = "\n".join(map(printable, text.split("\n")))
        self._write(text)

    def data(self, text: str) -> None:
        """Write a line for programs: as it is, but on a terminal without control characters.

        Raises:
            OSError: standard output cannot be written.
        """
        if not text.isprintable() and self._stream.isatty():
            text = "\n".join(map(printable, text.split("\n")))
        self._write(text)

    def coloured(self, text: str) -> None:
        """Write one line for people whose parts are printable, but for the sequences that set colours.

        Raises:
            OSError: standard output cannot be written.
        """
        self._write(text)

    def json_text(self, text: str) -> None:
        """Write JSON; what steers a terminal is escaped.

        Raises:
            OSError: standard output cannot be written.
        """
        self._write(escaped_json(text))

    def _write(self, text: str) -> None:
        with self._writing():
            self._stream.write(text + "\n")

    def encoded(self, lines: bytes | bytearray) -> None:
        """Write lines of UTF-8, each with its end, that are JSON or hold no control characters.

        Raises:
            OSError: standard output cannot be written.
        """
        lines = escaped_json_lines(lines)
        with self._writing():
            binary = getattr(self._stream, "buffer", None)
            if binary is None:
                self._stream.write(lines.decode())
                return
            self._stream.flush()
            binary.write(lines)
            if getattr(self._stream, "line_buffering", False):
                binary.flush()

    def json(self, value: Any) -> None:
        """Write one JSON object."""
        self.json_text(json.dumps(value, ensure_ascii=False))

    def heading(self) -> None:
        """Write the table's heading."""
        self._headed = True
        self.row(column.heading for column in self._columns)

    def row(self, cells: Iterable[Any]) -> None:
        """Write one row of the table."""
        if not self._headed:
            self.heading()
        texts = [
            column.pad(printable(str(cell)))
            for column, cell in zip(self._columns, cells, strict=True)
        ]
        line = "  ".join(texts).rstrip()
        self.line(cropped(line, self._width) if self._width else line)

    def flush(self) -> None:
        """Hand everything on; a regular file has it on disk when this returns.

        Raises:
            OSError: standard output cannot be written, or could not before: what was written is not whole.
        """
        if self._failure is not None:
            raise self._failure
        with self._writing():
            self._stream.flush()
            try:
                number = self._stream.fileno()
            except (io.UnsupportedOperation, AttributeError):
                return
            if stat.S_ISREG(os.fstat(number).st_mode):
                os.fsync(number)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Mark errors of standard output; nothing counts as delivered after one."""
        try:
            yield
        except BrokenPipeError as error:
            self._failure = error
            raise
        except OSError as error:
            self._failure = OSError(error.errno, error.strerror, "standard output")
            raise self._failure from error


def coloured(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether colours go to a stream: a terminal that has them, where ``NO_COLOR`` is not set (no-color.org)."""
    return (
        stream.isatty()
        and not environment.get("NO_COLOR")
        and environment.get("TERM", "dumb") != "dumb"
    )


def clock(seconds: int) -> str:
    """Seconds since 1970 as date and time in UTC; empty for 0, which means none."""
    if not seconds:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def commit_clock(micros: int) -> str:
    """Return a commit time as date and time in UTC, with microseconds where it has some; empty for 0."""
    text = clock(micros // 1_000_000)
    return f"{text}.{micros % 1_000_000:06}" if micros % 1_000_000 else text
