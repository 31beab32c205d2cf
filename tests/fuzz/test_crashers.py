"""What fuzzing once found stays found; and a short seeded run on the golden events."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.fuzz.harness import (
    CRASHERS,
    SECONDS,
    Sample,
    Tally,
    deadline,
    examine,
    fuzz,
    samples_of_goldens,
)


def test_crashers() -> None:
    reasons: dict[str, str | None] = {}
    tracemalloc.start()
    try:
        for path in sorted(CRASHERS.glob("*.json")):
            with deadline(SECONDS):
                reasons[path.stem] = examine(Sample.from_json(path.read_text()), Tally())
    finally:
        tracemalloc.stop()
    assert {name: reason for name, reason in reasons.items() if reason} == {}


def test_short_run() -> None:
    samples = list(samples_of_goldens())
    assert len(samples) > 150
    tally = fuzz(samples, 4000, seed=20260101)
    assert [reason for _, reason in tally.findings] == []
    assert tally.mutations == 4000
    assert tally.decoded > 400
    assert sum(tally.refused.values()) > 400
    assert len(tally.types) > 15


def test_a_crasher_file_is_read_back() -> None:
    sample = next(samples_of_goldens())
    assert Sample.from_json(sample.to_json("why")) == sample


def test_the_harness_sees_a_wrong_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(sample: Sample) -> bool:
        raise KeyError(sample.event[4])

    monkeypatch.setattr("tests.fuzz.harness.decode_everything", broken)
    tally = fuzz(list(samples_of_goldens()), 10, seed=1, limit=1)
    assert [reason[:8] for _, reason in tally.findings] == ["KeyError"]


def test_the_harness_sees_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.harness.decode_everything", lambda sample: bool(bytes(1 << 24)))
    monkeypatch.setattr("tests.fuzz.harness.COMPRESSED", frozenset())
    tally = fuzz(list(samples_of_goldens()), 10, seed=1, limit=1)
    assert "bytes of memory" in tally.findings[0][1]


def test_the_harness_sees_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(sample: Sample) -> bool:
        while True:
            pass

    monkeypatch.setattr("tests.fuzz.harness.decode_everything", endless)
    monkeypatch.setattr("tests.fuzz.harness.SECONDS", 0.05)
    tally = fuzz(list(samples_of_goldens()), 10, seed=1, limit=1)
    assert tally.findings[0][1].startswith("hang")
