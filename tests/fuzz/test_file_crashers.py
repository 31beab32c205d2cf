"""What fuzzing of whole files once found stays found; and a short seeded run."""

from __future__ import annotations

import pytest

from tests.fuzz import file_harness
from tests.fuzz.file_harness import (
    CRASHERS,
    CaseMaker,
    FileCase,
    FileTally,
    examine_file,
    fuzz_files,
)
from tests.fuzz.scenes import encrypted_scenes, golden_scenes


@pytest.fixture(scope="module")
def maker() -> CaseMaker:
    scenes = list(golden_scenes())
    assert len(scenes) > 150
    kinds = {event[4] for scene in scenes for event in scene.events}
    assert {19, 30, 31, 32, 39, 40, 42, 162, 166} <= kinds
    return CaseMaker(scenes, list(encrypted_scenes()), 20260101)


def test_crashers() -> None:
    reasons = {
        path.stem: examine_file(FileCase.from_json(path.read_text()), FileTally(), traced=True)
        for path in sorted(CRASHERS.glob("*.json"))
    }
    assert {name: reason for name, reason in reasons.items() if reason} == {}


def test_short_run(maker: CaseMaker) -> None:
    tally = FileTally()
    fuzz_files(maker, 0, 3000, tally)
    assert [(number, reason) for number, _, reason in tally.findings] == []
    assert tally.files == 3000
    assert tally.whole > 500
    assert tally.changes > 2000
    assert tally.refused["ColumnDecodeError"] > 100
    assert len(tally.refused) > 6


def test_a_case_is_always_the_same(maker: CaseMaker) -> None:
    case = maker.case(77)
    assert maker.case(77) == case
    assert maker.case(78) != case
    assert FileCase.from_json(case.to_json("why")) == case


@pytest.mark.parametrize("wrong", [KeyError, ValueError, MemoryError, RecursionError])
def test_a_wrong_exception_is_a_finding(
    maker: CaseMaker, monkeypatch: pytest.MonkeyPatch, wrong: type[Exception]
) -> None:
    def broken(case: FileCase, tally: FileTally) -> None:
        raise wrong("planted")

    monkeypatch.setattr(file_harness, "read_file", broken)
    tally = FileTally()
    fuzz_files(maker, 0, 2, tally)
    assert [reason for _, _, reason in tally.findings] == [
        f"{wrong.__name__}: {wrong('planted')}"
    ] * 2


def test_too_much_memory_is_a_finding(maker: CaseMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(case: FileCase, tally: FileTally) -> None:
        bytearray(512 << 20)

    monkeypatch.setattr(file_harness, "read_file", greedy)
    case = maker.case(0)
    reason = examine_file(case, FileTally(), traced=True)
    assert reason is not None
    assert "bytes of memory" in reason


def test_a_hang_is_a_finding(maker: CaseMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(case: FileCase, tally: FileTally) -> None:
        while True:
            pass

    monkeypatch.setattr(file_harness, "read_file", endless)
    monkeypatch.setattr(file_harness, "SECONDS", 0.1)
    reason = examine_file(maker.case(0), FileTally())
    assert reason is not None
    assert reason.startswith("hang")
