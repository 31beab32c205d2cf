"""What every position store must do; derived from by tests of each."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from replica_client.errors import PositionStoreError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
POSITIONS = [
    Position("binlog.000024", 1472),
    Position("binlog.000024", (1 << 63) + 5, GtidSet.parse(f"{UUID}:1-77:80,{UUID}:tag:1")),
    Position("mäster-bin:%.000001", 4, MariadbGtidSet.parse("0-1-100,1-2-3"), 3, 7),
    Position("", 0, GtidSet()),
]


class StoreConformance:
    """``make(name)`` gives a store; those of different names are apart."""

    def damage(self, store: Any) -> None:
        raise NotImplementedError

    def test_nothing_is_there_at_first(self, make: Any) -> None:
        assert make().load() is None
        assert make().load_checkpoint() is None

    @pytest.mark.parametrize("position", POSITIONS, ids=str)
    def test_what_was_saved_comes_back(self, make: Any, position: Position) -> None:
        state = {"schema_history": {"tables": ["ä", None, 1.5]}, "other": "x" * 100_000}
        make().save(position, state)
        again = make()
        assert again.load() == position
        found = again.load_checkpoint()
        assert (found.position, dict(found.state)) == (position, state)

    def test_a_save_replaces_position_and_state(self, make: Any) -> None:
        make().save(POSITIONS[0], {"a": 1, "b": 2})
        make().save(POSITIONS[1])
        found = make().load_checkpoint()
        assert (found.position, dict(found.state)) == (POSITIONS[1], {})

    def test_a_state_that_grows_comes_back_at_each_step(self, make: Any) -> None:
        """Texts are added at the end, dropped at the beginning, and all replaced; short and long ones."""
        chance = random.Random(3)
        texts: tuple[str, ...] = ()
        store = make()
        make("other").save(POSITIONS[0], {"grows": tuple(f"other {n} " * 3000 for n in range(3))})
        for step in range(150):
            kind = chance.random()
            if kind < 0.04:
                texts = ()
            elif kind < 0.1:
                texts = tuple(f"new {step} {n} " + "x" * 400 for n in range(chance.randrange(200)))
            else:
                texts = texts[chance.choice((0, 0, 1, 5)) :]
                texts += tuple(
                    f"{step}-{n} " + "y" * chance.randrange(9000)
                    for n in range(chance.randrange(4))
                )
            state = {"grows": texts, "step": step}
            store.save(POSITIONS[step % 4], state)
            if chance.random() < 0.3:
                store = make()
                assert store.load() == POSITIONS[step % 4]
            if step % 10 == 0:
                store = make()  # saves without having loaded
            found = make().load_checkpoint()
            assert (found.position, dict(found.state)) == (POSITIONS[step % 4], state), step
        assert len(make("other").load_checkpoint().state["grows"]) == 3

    def test_names_are_apart(self, make: Any) -> None:
        make("a").save(POSITIONS[0])
        make("b").save(POSITIONS[1])
        assert make("a").load() == POSITIONS[0]
        assert make("b").load() == POSITIONS[1]
        assert make("A").load() is None

    def test_what_is_damaged_is_refused_by_name(self, make: Any) -> None:
        store = make()
        store.save(POSITIONS[0])
        self.damage(store)
        with pytest.raises(PositionStoreError, match="damaged: .*restore it from a copy"):
            make().load()

    def test_threads_may_take_turns(self, make: Any) -> None:
        stores = [make(name) for name in "abcd"]
        faults: list[BaseException] = []

        def work(store: Any, at: int) -> None:
            try:
                for number in range(10):
                    store.save(Position("binlog.000001", number + at * 100))
            except BaseException as error:
                faults.append(error)

        threads = [
            threading.Thread(target=work, args=(store, at)) for at, store in enumerate(stores)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        assert [store.load().offset for store in stores] == [9, 109, 209, 309]
