"""Lines are those that were kept, for every type of real servers; scripts/capture/lines keeps them.

That they say what the server's own SELECT says is shown on real servers (tests/integration/test_sinks_formats.py).
"""

from __future__ import annotations

import gzip
import json

import pytest

from replica_client._version import __version__
from tests.unit.sinks.formats.cases import FORMATS, LINES, SERVERS, lines_of


@pytest.mark.parametrize("case", FORMATS)
@pytest.mark.parametrize("server", SERVERS)
def test_lines_are_those_that_were_kept(server: str, case: str) -> None:
    kept = gzip.decompress((LINES / f"{server}.{case}.jsonl.gz").read_bytes()).decode()
    expected = kept.replace("VERSION-OF-US", __version__).splitlines()
    found = list(lines_of(server, case))
    assert len(expected) > 30
    for number, (line, wanted) in enumerate(zip(found, expected, strict=False), 1):
        assert line == wanted, number
    assert len(found) == len(expected)
    for line in found:
        json.loads(line)


# Maxwell's xoffset of a last row is left out, which a part before the last row does not know.
@pytest.mark.parametrize("case", [case for case in FORMATS if case != "maxwell-all"])
def test_transactions_in_parts_make_the_same_lines(case: str) -> None:
    assert list(lines_of("mysql-9.7", case, part_size=1)) == list(lines_of("mysql-9.7", case))


@pytest.mark.parametrize("part_size", [1, 1 << 20])
def test_maxwell_says_commit_on_the_last_row_of_a_transaction_alone(part_size: int) -> None:
    rows: dict[int, list[bool | None]] = {}
    for line in lines_of("mysql-9.7", "maxwell-all", part_size):
        row = json.loads(line)
        if "xid" in row:
            rows.setdefault(row["xid"], []).append(row.get("commit"))
    assert max(map(len, rows.values())) > 5
    for ends in rows.values():
        assert ends == [None] * (len(ends) - 1) + [True]
