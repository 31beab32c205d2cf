"""Files of MariaDB's InnoDB-based binlog: records and rows as they were written, or a named error."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import replica_client as rc
from replica_client.cli.main import main
from replica_client.errors import BinlogDecodeError, ReplicaClientError
from replica_client.protocol.binlog.innodb_binlog import InnodbRecords, crc32c, read_number
from tests.ibb_writer import IbbWriter, write_number
from tests.mariadb_fragments import transactions_of

GOLDEN = Path(__file__).parents[3] / "golden" / "mariadb-11.8.6"
NAMES = ("rows", "compressed_events", "no_checksum", "several_engines", "gtid_domains")


def written(seed: int, count: int) -> tuple[dict[int, bytes], list[bytes]]:
    """Return files of random transactions, and the bytes of these."""
    random = Random(seed)
    writer = IbbWriter(
        random.choice((512, 1024, 4096)), random.randrange(3, 12), random.choice((2, 4))
    )
    expected = []
    for _ in range(count):
        sizes = [random.choice((3, 50, 400, 2000)) for _ in range(random.randrange(1, 8))]
        events = [random.randbytes(size) for size in sizes]
        writer.transaction(events, random)
        expected.append(b"".join(events))
        if random.random() < 0.1:
            writer.flush()
    return writer.images(), expected


def read(files: dict[int, bytes]) -> list[bytes]:
    def part(number: int, offset: int, size: int) -> bytes | None:
        return files[number][offset : offset + size] if number in files else None

    records = InnodbRecords(part, 1 << 20)
    return [b"".join(one) for number in sorted(files) for one in records.transactions(number)]


@pytest.mark.parametrize("value", (0, 1, 31, 32, 8191, 8192, (1 << 53) - 1, 1 << 53, (1 << 64) - 1))
def test_numbers(value: int) -> None:
    assert read_number(b"x" + write_number(value), 1) == (value, 1 + len(write_number(value)))
    with pytest.raises(BinlogDecodeError, match="ends inside a number"):
        read_number(write_number(value)[:-1], 0)


def test_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("seed", range(5))
def test_transactions_are_read_as_written(seed: int) -> None:
    files, expected = written(seed, 12)
    assert read(files) == expected


@pytest.mark.parametrize("seed", range(3))
def test_cuts_and_flips_give_the_same_or_a_named_error(seed: int) -> None:
    """Of the file that is cut, and of those that need it."""
    files, expected = written(seed, 6)
    random = Random(seed)
    for _ in range(40):
        number = random.choice(list(files))
        data = bytearray(files[number])
        at = random.randrange(len(data))
        if random.random() < 0.5:
            del data[at:]
        else:
            data[at] ^= 1 << random.randrange(8)
        try:
            assert read({**files, number: bytes(data)}) == expected
        except BinlogDecodeError as error:
            assert str(error)


def test_a_missing_file_is_named() -> None:
    files, expected = written(1, 20)
    assert len(files) > 2
    for number in list(files)[:-1]:
        left = {one: data for one, data in files.items() if one != number}
        try:
            found = read(left)
        except BinlogDecodeError as error:
            assert "missing" in str(error)
        else:
            assert len(found) < len(expected)  # the order of files shows the gap


def seen(source: Any) -> list[Any]:
    return [
        (one.kind, one.database, one.table, repr(one.before), repr(one.after), one.gtid)
        for one in rc.open_binlog(source, on_statement="deliver").changes()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_files_have_the_rows_of_the_binlog(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = GOLDEN / f"{name}.binlog"
    try:
        expected = seen(path)
    except ReplicaClientError:
        pytest.skip("not read to its end")
    random, writer = Random(1), IbbWriter(pages=6)
    for events in transactions_of(path.read_bytes()):
        writer.transaction(events, random)
    files = writer.save(tmp_path)
    assert seen(tmp_path) == expected
    batches = rc.open_binlog(tmp_path, on_statement="deliver").batches()
    assert sum(batch.num_rows for batch in batches) >= len(expected)
    left = len(expected)
    for transaction in rc.open_binlog(tmp_path, on_statement="deliver").transactions():
        left -= len(list(transaction.changes))
        again = rc.open_binlog(tmp_path, start=transaction.position, on_statement="deliver")
        assert sum(1 for _ in again.changes()) == left
    assert main(["check", str(tmp_path)]) == 0
    assert main(["annotate", str(files[0])]) == 0
    assert main(["events", *map(str, files)]) == 0
    assert main(["index", str(tmp_path)]) == 0
    assert "GTID_EVENT" in capsys.readouterr().out
