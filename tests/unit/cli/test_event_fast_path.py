"""`events` and `check` by compiled code tell what they tell event by event, of valid and of damaged files."""

import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.cli import file_check
from replica_client.cli.event_lines import COLUMNS, json_line, plain_line
from replica_client.cli.event_output import EventOutput, write_file_events
from replica_client.cli.file_check import FileCheck, Findings
from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.printable import escaped_json
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.transactions.schema_tracking import SchemaTracker

DEMO = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted(
    path
    for path in [*DEMO.iterdir(), *GOLDEN.glob("*/*.binlog")]
    if path.is_file() and path.read_bytes()[:4] == b"\xfebin" and path.stat().st_size < 200_000
)
pytestmark = pytest.mark.skipif(not rc.compiled(), reason="there is no compiled code to compare")


def events_by_fast_path(path: Path, capsys: Any, *, json: bool) -> tuple[str, str]:
    fault = ""
    try:
        write_file_events(open_binlog(path), EventOutput(json=json))
    except ReplicaClientError as error:
        fault = str(error)
    return capsys.readouterr().out, fault


def events_one_by_one(path: Path, *, json: bool) -> tuple[str, str]:
    lines: list[str] = []
    fault = ""
    try:
        for event in open_binlog(path).events():
            lines.append(escaped_json(json_line(event)) if json else plain_line(event))
    except ReplicaClientError as error:
        fault = str(error)
    if lines and not json:
        lines.insert(0, "  ".join(column.pad(column.heading) for column in COLUMNS).rstrip())
    text = "".join(f"{line}\n" for line in lines)
    return text.encode("utf-8", "backslashreplace").decode(), fault


def findings_of(path: Path, *, by_fast_path: bool, patch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    findings = Findings()
    tables = SchemaTracker(SchemaHistory(), Selection(), "positional", "positional")
    with patch.context() as patched:
        patched.setattr(file_check, "compiled", lambda: by_fast_path)
        for _ in FileCheck(path, DecodeOptions(), findings, tables).run():
            pass
    counts = [
        {k: v for k, v in c.items() if v} for c in (findings.events, findings.sizes, findings.rows)
    ]
    return (*counts, list(findings.faults.items()), dict(findings.fault_counts))


def assert_same(path: Path, capsys: Any, patch: pytest.MonkeyPatch) -> None:
    for json in (True, False):
        assert events_by_fast_path(path, capsys, json=json) == events_one_by_one(path, json=json)
    by_fast_path = findings_of(path, by_fast_path=True, patch=patch)
    assert by_fast_path == findings_of(path, by_fast_path=False, patch=patch)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_files(path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(path, capsys, monkeypatch)


def events_in(data: bytes) -> Iterator[tuple[int, int]]:
    at = 4
    while at + 19 <= len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if size < 19 or at + size > len(data):
            return
        yield at, at + size
        at += size


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Some bytes are others; the checksums are right mostly."""
    out = bytearray(data)
    events = list(events_in(data))[1:]
    for begin, end in rng.sample(events, min(len(events), rng.randint(1, 4))):
        # Sizes stay, else nothing behind would be read.
        positions = [at for at in range(begin, end - 4) if not begin + 9 <= at < begin + 13]
        for at in rng.sample(positions, min(len(positions), rng.randint(1, 3))):
            out[at] = rng.choice((out[at] ^ 1, 0, 255, rng.randrange(256)))
        if rng.random() < 0.9:
            out[end - 4 : end] = zlib.crc32(out[begin : end - 4]).to_bytes(4, "little")
    return bytes(out[: rng.randrange(len(out))] if rng.random() < 0.1 else out)


@pytest.mark.parametrize("seed", [*range(40), 1002])
def test_damaged_files(
    seed: int, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    source = rng.choice(FILES).read_bytes()
    for number in range(5):
        path = tmp_path / f"binlog.{number:06d}"
        path.write_bytes(damaged(source, rng))
        assert_same(path, capsys, monkeypatch)


STATEMENTS = (
    "CREATE TABLE `made`.`a` (id INT)",
    'CREATE TABLE b (c CHAR(9) DEFAULT "x\\\\\n\t\x01\x7f")',
    "CREATE TABLE grün (ö INT)",
    "savepoint x",
    "SAVEPOINT abcdef",
    "XA ROLLBACK 'a'",
    "DROP TABLE",
)


def test_statements_and_tables_that_look_alike(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "scripts")
    from benchmarks.generated_log import Made

    statements = tuple((5 * at, text) for at, text in enumerate(STATEMENTS * 3))
    path = tmp_path / "binlog.000001"
    for name in ("t", "g\u00fcn", 'a "b\\'):
        Made(transactions=110, tables=9, statements=statements, name=name).write(path)
        assert_same(path, capsys, monkeypatch)
