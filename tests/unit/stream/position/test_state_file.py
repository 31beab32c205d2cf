"""The long part of a state beside a position: whatever a crash leaves, what the position names is whole."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.stream.position.stores.file import StateFile

TEXTS = tuple(f"{number} " + "x" * 900 for number in range(40))


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_save_writes_what_is_new_only(tmp_path: Path) -> None:
    store = rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4), {"history": TEXTS})
    before = (tmp_path / "p.state-1").stat().st_size
    assert before > sum(map(len, TEXTS))
    store.save(rc.Position("b.1", 5), {"history": TEXTS})
    assert (tmp_path / "p.state-1").stat().st_size == before
    size = (tmp_path / "p").stat().st_size
    store.save(rc.Position("b.1", 6), {"history": (*TEXTS, "new")})
    assert (tmp_path / "p.state-1").stat().st_size == before
    assert (tmp_path / "p").stat().st_size < size + 400 < 1400
    # The next whole takes it over.
    store = rc.FilePositionStore(tmp_path / "p")
    assert store.load() == rc.Position("b.1", 6)
    store.save(rc.Position("b.1", 7), {"history": (*TEXTS, "new")})
    assert (tmp_path / "p.state-1").stat().st_size == before + len("00000000 new\n")
    assert (tmp_path / "p").stat().st_size < 1000
    assert _names(tmp_path) == ["p", "p.state-1"]


def test_a_state_that_became_short_stands_with_the_position(tmp_path: Path) -> None:
    store = rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4), {"history": TEXTS})
    store.save(rc.Position("b.1", 5), {"history": ("short",)})
    assert _names(tmp_path) == ["p"]
    found = rc.FilePositionStore(tmp_path / "p").load_checkpoint()
    assert found is not None and found.state == {"history": ("short",)}


def test_a_file_that_is_mostly_outdated_is_written_anew(tmp_path: Path) -> None:
    store = rc.FilePositionStore(tmp_path / "p")
    texts = tuple(f"{number} " + "x" * 40_000 for number in range(30))
    for step in range(100):
        texts = (*texts[1:], f"{step} " + "y" * 40_000)
        store.save(rc.Position("b.1", step), {"history": texts})
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4 * sum(map(len, texts))
        found = rc.FilePositionStore(tmp_path / "p").load_checkpoint()
        assert found is not None and found.state == {"history": texts}
    assert len(_names(tmp_path)) == 2 and _names(tmp_path)[1] != "p.state-1"


@pytest.mark.parametrize("seed", range(5))
def test_any_crash_leaves_what_was_saved(tmp_path: Path, seed: int) -> None:
    """A save that dies: its texts torn or whole behind those that count, or a new file that nothing names."""
    chance = random.Random(seed)
    store = rc.FilePositionStore(tmp_path / "p")
    texts = TEXTS
    for step in range(60):
        texts = (*texts[chance.choice((0, 0, 1)) :], f"{step} " + "y" * chance.randrange(2000))
        store.save(rc.Position("b.1", step), {"history": texts})
        name = next(one for one in _names(tmp_path) if one.startswith("p.state-"))
        crash = chance.random()
        if crash < 0.4:
            with (tmp_path / name).open("ab") as file:
                file.write(chance.choice((b"01234567 to", b"\0" * 5000, b"c0ffee00 whole\n")))
            store = rc.FilePositionStore(tmp_path / "p")
        elif crash < 0.6:
            (tmp_path / f"p.state-{chance.randrange(1000, 2000)}").write_bytes(b"half")
            store = rc.FilePositionStore(tmp_path / "p")
        found = store.load_checkpoint()
        assert found is not None
        assert found.position == rc.Position("b.1", step) and found.state == {"history": texts}


def test_every_damage_of_what_counts_is_refused_by_name(tmp_path: Path) -> None:
    store = rc.FilePositionStore(tmp_path / "p")
    store.save(rc.Position("b.1", 4), {"history": TEXTS})
    state = tmp_path / "p.state-1"
    whole = state.read_bytes()
    for at in range(0, len(whole), 97):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]):
            state.write_bytes(data)
            with pytest.raises(rc.ReplicaClientError, match=r"p\.state-1.*restore it from a copy"):
                rc.FilePositionStore(tmp_path / "p").load()
    os.unlink(state)
    with pytest.raises(rc.ReplicaClientError, match=r"p\.state-1 .*is not there"):
        rc.FilePositionStore(tmp_path / "p").load()
    for name in ("../p.state-1", "other", 5):
        (tmp_path / "p").write_text(
            (tmp_path / "p").read_text().replace('"p.state-1"', f'"{name}"'), encoding="ascii"
        )
        with pytest.raises(rc.ReplicaClientError, match="damaged"):
            rc.FilePositionStore(tmp_path / "p").load()
        (tmp_path / "p").write_text(
            (tmp_path / "p").read_text().replace(f'"{name}"', '"p.state-1"'), encoding="ascii"
        )


def _appends(path: Path, sizes: list[int], kept: int) -> bool:
    """Whether a save that keeps the last texts of a file goes on in that file."""
    texts = tuple(
        f"{number} ".ljust(size - len("00000000 \n"), "x") for number, size in enumerate(sizes)
    )
    store = StateFile(path, "p.state-")
    first = store.save(texts)
    saved = store.save((*texts[kept:], "new"))
    assert StateFile(path, "p.state-").load(saved) == (*texts[kept:], "new")
    return saved["file"] == first["file"]


@pytest.mark.parametrize(
    ("outdated", "rest", "appends"),
    [
        (1 << 20, 1000, True),  # a megabyte may be spare
        ((1 << 20) + 1, 1000, False),
        (2 << 20, 2 << 20, True),  # half of it
        ((2 << 20) + 1, (2 << 20) - 1, False),
        ((2 << 20) - 1, 3 << 20, True),
    ],
)
def test_how_much_of_a_file_may_be_outdated(
    tmp_path: Path, outdated: int, rest: int, appends: bool
) -> None:
    assert _appends(tmp_path, [outdated, rest], 1) is appends
