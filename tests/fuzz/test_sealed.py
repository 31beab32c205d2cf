"""Payloads and indexes changed inside, in short; scripts/proofs/sanitize fuzz tries them for an hour."""

from __future__ import annotations

import random

import pytest

import replica_client as rc
from replica_client.archive.index_format import SUFFIX, read_index
from tests.fuzz.file_harness import FileTally, examine_file
from tests.fuzz.scenes import golden_scenes
from tests.fuzz.sealed_harness import IndexPlayground, IndexTally, PayloadMaker, changed_index


def test_payloads_that_were_changed_before_they_were_compressed() -> None:
    maker = PayloadMaker(list(golden_scenes()), 20260101)
    tally = FileTally()
    findings = [
        (number, reason)
        for number in range(1500)
        if (reason := examine_file(maker.case(number), tally, traced=number % 50 == 0))
    ]
    assert findings == []
    assert tally.whole > 300
    assert tally.changes + tally.batched > 500
    assert len(tally.refused) > 4
    assert maker.case(77) == maker.case(77) != maker.case(78)


def test_indexes_that_were_changed_before_their_checksum_was_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("ERROR", "replica_client")
    playground = IndexPlayground(20260101)
    tally = IndexTally()
    try:
        for number in range(400):
            playground.play(number, tally)
    finally:
        playground.close()
    assert tally.findings == []
    assert tally.found > 1000
    assert tally.refused


def test_an_unchanged_index_stays_what_it_is() -> None:
    """The harness seals as the writer does: without a change the reader takes the index."""

    class Nothing(random.Random):
        def choice(self, seq):  # type: ignore[no-untyped-def]
            return 0 if seq == (1, 1, 2, 5) else seq[0]

        def random(self) -> float:
            return 0.5

    playground = IndexPlayground(1)
    try:
        for path in sorted(playground.path.glob(f"*{SUFFIX}")):
            before = path.read_bytes()
            path.write_bytes(changed_index(before, Nothing()))
            with path.open("rb") as stream:
                assert read_index(stream)[0].tables
        archive = rc.open_archive(playground.path, write_indexes=False)
        assert not any(one.made for one in archive.index())
    finally:
        playground.close()
