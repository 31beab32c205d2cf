"""Changed binlogs against the file reader: what may happen, and what is a finding.

A changed file may be read, or refused with :class:`BinlogDecodeError`, or its changes refused with
:class:`DataLossError`, or with :class:`SchemaMismatchError` where its statements and its table maps
contradict each other, or with :class:`UnknownTableError` where a type
of MariaDB is not certain. Anything else is a finding: another exception, more memory than a fixed
multiple of the input, more time than a fixed one.
"""

from __future__ import annotations

import io
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from replica_client.errors import (
    BinlogDecodeError,
    DataLossError,
    SchemaMismatchError,
    UnknownTableError,
)
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.json_values import change_to_json
from replica_client.rows.selection import Selection
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.transactions.assembler import AssemblyOptions
from tests.fuzz.file_mutation import mutated_file
from tests.fuzz.harness import TookTooLongError, _views, deadline
from tests.fuzz.scenes import Scene
from tests.unit.stream.transactions.relocation import relocated

CRASHERS = Path(__file__).parent / "crashers" / "files"
SECONDS = 10.0
MEMORY_MULTIPLE = 400
MEMORY_BASE = 2 << 20
UNCOMPRESSED = 256 * 1024
TRACED_EVERY = 16

Mode = Literal["changes", "events", "batches"]
_MODES: tuple[Mode, ...] = (*("changes",) * 4, "events", "batches", "batches")
_DECODE = DecodeOptions(
    verify_checksum=False, max_event_size=1 << 24, max_uncompressed_size=UNCOMPRESSED
)
_OPTIONS = {
    "strict": _DECODE,
    "python": replace(_DECODE, temporals="python", invalid_text="replace"),
    "bytes": replace(_DECODE, invalid_text="bytes"),
}


@dataclass(frozen=True)
class FileCase:
    """A binlog, and how it is read."""

    data: bytes
    mode: Mode = "changes"
    options: str = "strict"
    part_size: int = 1 << 20
    columns: tuple[str, ...] | None = None
    keys: dict[str, bytes] = field(default_factory=dict)

    def to_json(self, reason: str) -> str:
        """What a crasher file holds."""
        content = {
            "reason": reason,
            "mode": self.mode,
            "options": self.options,
            "part_size": self.part_size,
            "columns": self.columns,
            "keys": {name: key.hex() for name, key in self.keys.items()},
            "data": self.data.hex(),
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FileCase:
        """The case of a crasher file."""
        content = json.loads(text)
        columns = content["columns"]
        return cls(
            bytes.fromhex(content["data"]),
            content["mode"],
            content["options"],
            content["part_size"],
            None if columns is None else tuple(columns),
            {name: bytes.fromhex(key) for name, key in content["keys"].items()},
        )


@dataclass
class FileTally:
    """Figures of a run."""

    files: int = 0
    whole: int = 0
    events: int = 0
    changes: int = 0
    batched: int = 0
    traced: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    worst_multiple: float = 0.0
    findings: list[tuple[int, FileCase, str]] = field(default_factory=list)

    def add(self, other: FileTally) -> None:
        """Count what another run counted."""
        for name in ("files", "whole", "events", "changes", "batched", "traced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused += other.refused
        self.worst_multiple = max(self.worst_multiple, other.worst_multiple)
        self.findings += other.findings

    def to_json(self) -> dict[str, Any]:
        """The counts, without the findings' files."""
        return {
            "files": self.files,
            "whole": self.whole,
            "events": self.events,
            "changes": self.changes,
            "batched": self.batched,
            "traced": self.traced,
            "refused": dict(self.refused),
            "worst_multiple": self.worst_multiple,
        }


class CaseMaker:
    """Makes case number n of a seed; the same number gives the same case.

    Args:
        scenes: real events to begin with.
        encrypted: whole encrypted files with their keys.
        seed: of the run.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        encrypted: Sequence[tuple[Scene, dict[str, bytes]]],
        seed: int,
    ) -> None:
        self._by_kind: dict[tuple[int, ...], list[Scene]] = {}
        for scene in scenes:
            self._by_kind.setdefault(scene.kind, []).append(scene)
        self._kinds = sorted(self._by_kind)
        self._encrypted = list(encrypted)
        self._seed = seed

    def _scene(self, rng: random.Random) -> Scene:
        return rng.choice(self._by_kind[rng.choice(self._kinds)])

    def case(self, number: int) -> FileCase:
        """Case ``number``."""
        rng = random.Random(self._seed << 40 | number)
        keys: dict[str, bytes] = {}
        scene, other = self._scene(rng), self._scene(rng)
        if self._encrypted and rng.random() < 0.03:
            scene, keys = rng.choice(self._encrypted)
        data = mutated_file(scene, other, rng)
        if not keys and data[8:9] == b"\x0f" and number % 10:
            # Events that are not where their headers say are refused for that.
            data = relocated(data)
        return FileCase(
            data,
            rng.choice(_MODES),
            rng.choice(("strict", "strict", "python", "bytes")),
            rng.choice((1, 200, 1 << 20, 1 << 20)),
            rng.choice((None, None, None, ("id", "col_2", "c"))),
            keys,
        )


def read_file(case: FileCase, tally: FileTally) -> None:
    """Read a case to its end.

    Raises:
        BinlogDecodeError: refused.
        DataLossError: a change cannot be delivered.
        SchemaMismatchError: a table map is not of the table that a statement made.
        UnknownTableError: the type of a column is not certain.
    """
    selection = Selection(columns=list(case.columns) if case.columns else None)
    reader = open_binlog(
        io.BytesIO(case.data),
        options=replace(_OPTIONS[case.options], keys=case.keys),
        assembly=AssemblyOptions(selection, part_size=case.part_size, on_statement="deliver"),
    )
    if case.mode == "events":
        for event in reader.events():
            tally.events += 1
            _views(event.body)
        return
    if case.mode == "batches":
        for batch in reader.batches(max_rows=8):
            tally.batched += batch.num_rows
        return
    for change in reader.changes():
        tally.changes += 1
        change_to_json(change)


def examine_file(case: FileCase, tally: FileTally, traced: bool = False) -> str | None:
    """Try a case; what is wrong with the reader if something is."""
    tally.files += 1
    if traced:
        tally.traced += 1
        tracemalloc.start()
    try:
        with deadline(SECONDS):
            read_file(case, tally)
        tally.whole += 1
    except (BinlogDecodeError, DataLossError, SchemaMismatchError, UnknownTableError) as error:
        tally.refused[type(error).__name__] += 1
    except TookTooLongError as error:
        return f"hang: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        peak = 0
        if traced:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    if traced:
        size = max(1, len(case.data))
        if peak > MEMORY_BASE + MEMORY_MULTIPLE * (size + UNCOMPRESSED):
            return f"{peak} bytes of memory for a file of {len(case.data)}"
        tally.worst_multiple = max(tally.worst_multiple, max(0, peak - 128 * 1024) / size)
    return None


def fuzz_files(maker: CaseMaker, first: int, count: int, tally: FileTally) -> None:
    """Try cases ``first`` up to ``first + count``."""
    for number in range(first, first + count):
        case = maker.case(number)
        reason = examine_file(case, tally, traced=number % TRACED_EVERY == 0)
        if reason is not None:
            tally.findings.append((number, case, reason))
