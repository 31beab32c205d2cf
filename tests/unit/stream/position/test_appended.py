"""Saves behind a checkpoint's text: small, whole or not there, and JSON for others, too."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import PositionStoreError

TEXTS = tuple(f"{number} " + "x" * 60 for number in range(40))
State = dict[str, object]


def _steps(chance: random.Random, count: int) -> list[tuple[rc.Position, State]]:
    """Positions with states as streams have them: history that grows and loses its beginning, and short values."""
    texts: tuple[str, ...] = chance.choice(((), ("short",), TEXTS))
    short: State = {}
    steps: list[tuple[rc.Position, State]] = []
    for number in range(count):
        what = chance.random()
        if what < 0.3:
            texts = (*texts, f'{number} "é\\n,\\"save\\":1' + "y" * chance.randrange(300))
        elif what < 0.4:
            texts = texts[chance.randrange(3) :]
        elif what < 0.5:
            short = {f"k{chance.randrange(3)}": chance.choice(([], {"a": [1, None]}, "\n}\n", 7))}
        elif what < 0.55:
            texts = (f"anew {number}",)
        state: State = dict(short) if chance.random() < 0.05 else {"history": texts, **short}
        steps.append((rc.Position(f"b.{number // 9}", 4 + number), state))
    return steps


def _found(path: Path) -> tuple[rc.Position, State]:
    found = rc.FilePositionStore(path).load_checkpoint()
    assert found is not None
    return found.position, dict(found.state)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_saved_is_loaded_and_is_one_json_object(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path, store = tmp_path / "p", rc.FilePositionStore(tmp_path / "p")
    numbers = set()
    for position, state in _steps(chance, 80):
        store.save(position, state)
        assert _found(path) == (position, state)
        document: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
        assert rc.Position.from_json(document["position"]) == position
        assert document["text"] == str(position)
        short = {key: one for key, one in state.items() if not isinstance(one, tuple)}
        assert {key: document["state"].get(key) for key in short} == short
        numbers.add(path.stat().st_ino)
        if chance.random() < 0.1:
            store = rc.FilePositionStore(path)
            assert store.load() == position
    assert len(numbers) < 60  # most are appended


@pytest.mark.parametrize("torn", ["cut", "zeros", "garbage"])
def test_a_save_that_is_torn_at_any_byte_leaves_the_one_before(tmp_path: Path, torn: str) -> None:
    path, store = tmp_path / "p", rc.FilePositionStore(tmp_path / "p")
    steps = [(rc.Position("b.1", at), {"h": TEXTS[: 20 + at], "s": at // 2}) for at in range(4)]
    store.save(*steps[0])
    for before, after in zip(steps, steps[1:], strict=False):
        old, number = path.read_bytes(), path.stat().st_ino
        store.save(*after)
        new = path.read_bytes()
        assert path.stat().st_ino == number
        begin = len(old) - 3
        assert new[:begin] == old[:begin]
        path.write_bytes(old + b"\0" * 600)
        assert _found(path) == before
        for at in range(begin + 1, len(new)):
            left = {"cut": b"", "zeros": b"\0" * (len(new) - at), "garbage": b'\n,"x\xff\n}\n'}[
                torn
            ]
            # What is written takes the place of the end of what was there.
            data = new[:at] + (left or old[at:])
            path.write_bytes(data)
            line = len(new) - 3
            whole = at >= line and data[line : line + 1] in (b"", b"\n")
            assert _found(path) == (after if whole else before), at
            if at % 40 == 0:  # and the next save is whole again
                again = rc.FilePositionStore(path)
                again.load()
                again.save(*after)
                again.save(*steps[3])
                assert _found(path) == steps[3]
        # As it was, with the number of the file that the store knows.
        with path.open("r+b") as file:
            file.write(new)
            file.truncate(len(new))
        again = rc.FilePositionStore(path)
        again.load()
        store = again
        store.save(*after)


def test_damage_before_the_last_save_is_refused(tmp_path: Path) -> None:
    path, store = tmp_path / "p", rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4))
    begin = path.stat().st_size - 2
    for at in range(5, 9):
        store.save(rc.Position("b.1", at))
    whole = path.read_bytes()
    last = whole.rindex(b"\n,") + 1
    for at in range(begin, last - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(PositionStoreError, match="damaged"):
            rc.FilePositionStore(path).load()
    gone = whole.index(b"\n,", begin) + 1
    path.write_bytes(whole[:begin] + whole[gone:])
    with pytest.raises(PositionStoreError, match="damaged"):
        rc.FilePositionStore(path).load()


def test_many_saves_are_one_whole_now_and_then(tmp_path: Path) -> None:
    path, store = tmp_path / "p", rc.FilePositionStore(tmp_path / "p")
    texts = TEXTS
    for at in range(700):
        texts = (*texts[at % 2 :], f"{at} " + "z" * 200)
        store.save(rc.Position("b.1", 4 + at), {"h": texts})
        assert path.stat().st_size < 200 << 10
    assert _found(path) == (rc.Position("b.1", 703), {"h": texts})


def test_a_file_that_somebody_else_wrote_is_written_whole(tmp_path: Path) -> None:
    path, store = tmp_path / "p", rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4))
    for change in (
        lambda: rc.FilePositionStore(path).save(rc.Position("b.9", 9)),
        lambda: path.write_bytes(path.read_bytes() + b" "),
        lambda: path.write_bytes(path.read_bytes()[:-20]),
        lambda: path.write_bytes(path.read_bytes()[:20]),
        path.unlink,
    ):
        store.save(rc.Position("b.1", 5))
        change()
        store.save(rc.Position("b.1", 6))
        assert _found(path) == (rc.Position("b.1", 6), {})


@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_a_save_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path, store = tmp_path / "p", rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4))
    store.save(rc.Position("b.1", 5))
    before, real = path.read_bytes(), getattr(os, call)
    calls = 0

    def full(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if call == "write" and calls == 1:
            return real(arguments[0], bytes(arguments[1])[:7])
        if calls < 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os, call, full)
    with pytest.raises(PositionStoreError, match="disk is full"):
        store.save(rc.Position("b.1", 6))
    monkeypatch.undo()
    assert path.read_bytes() == before
    store.save(rc.Position("b.1", 7))
    assert _found(path) == (rc.Position("b.1", 7), {})


def test_saves_leave_no_file_open(tmp_path: Path) -> None:
    store = rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4))
    before = len(os.listdir("/proc/self/fd"))
    for at in range(5, 30):
        store.save(rc.Position("b.1", at))
    assert len(os.listdir("/proc/self/fd")) < before + 20
