"""A test for any sink: it is killed at every step and inside of steps, and must keep its guarantee.

Authors of sinks derive a class in a test module, which pytest collects::

    from replica_client.testing.sink_conformance import SinkConformance

    class TestMySink(SinkConformance):
        def make_sink(self, place):
            return MySink(place / "data")

        async def content(self, place):
            return [line for line in ...]     # what a reader sees now

``target`` is an empty directory for each run: a sink whose data is elsewhere derives names from it. The
transactions are those of the binlog that ships with this package (18, with schema changes), of which
some come in parts, as very large ones do.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import replica_client
from replica_client.rows.selection import Selection
from replica_client.sinks.protocol import CopyingSink, GroupSink, Guarantee, Sink
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing.made_changes import HOSTILE_NAMES, on_tables

_DATA = Path(replica_client.__file__).parent / "testing" / "data"
_PART_SIZE = 400
_COMMIT_EVERY = 4
_GONE_SECONDS = 10.0


class SimulatedCrashError(BaseException):
    """Ends a sink's work as a kill would; no code catches it."""


@dataclass
class _Saved:
    """The state that survives a crash outside the sink: a position store's checkpoint."""

    checkpoint: Checkpoint | None = None


class SinkConformance:
    """Base of a sink's conformance test; see the module.

    Attributes:
        system_calls: whether the sink is also killed inside of steps, at system calls on files.
        call_stride: at each of them, at every second …
        step_stride: whether it is killed before each call of a method, every second …
    """

    system_calls = False
    call_stride = 1
    step_stride = 1

    # To override.

    def make_sink(self, target: Path) -> Sink:
        """Return a new, unopened sink on the data that is stored at a place."""
        raise NotImplementedError

    async def content(self, target: Path) -> Any:
        """Return the current data of the sink as a reader sees it.

        Equal changes give equal content. For a sink that is at least once, the content is a list in
        order.
        """
        raise NotImplementedError

    async def stored_tables(self, target: Path) -> list[Any] | None:
        """Return the stored rows of each table, for a sink that keeps tables apart; otherwise None."""
        return None

    def transactions(self) -> list[Transaction]:
        """Return the transactions that are written."""
        options = AssemblyOptions(Selection(None, None, None), part_size=_PART_SIZE)
        return list(open_binlog(_DATA, assembly=options).transactions())

    async def abandon(self, sink: Sink) -> None:
        """Do what the operating system does when a process is killed: close its connections and nothing else."""

    # The tests.

    def test_it_is_a_sink(self, tmp_path: Path) -> None:
        """Check that the sink has the methods and attributes of the protocol."""
        sink = self.make_sink(tmp_path)
        assert isinstance(sink, Sink)
        assert isinstance(sink.guarantee, Guarantee)
        if sink.guarantee is Guarantee.EXACTLY_ONCE:
            assert sink.holds_position, "exactly once needs the position in the sink"
        asyncio.run(sink.close())

    def test_a_new_one_has_no_checkpoint(self, tmp_path: Path) -> None:
        """``open`` of a new sink gives None; ``close`` may be called at any time, also twice."""

        async def run() -> None:
            sink = self.make_sink(tmp_path)
            assert await sink.open() is None
            await sink.close()
            await sink.close()

        asyncio.run(run())

    def test_checkpoint_comes_back(self, tmp_path: Path) -> None:
        """``open`` gives what the last ``commit`` was given, with its state."""
        saved = _Saved()
        self._run(tmp_path, saved)
        last = self.transactions()[-1].position

        async def run() -> None:
            sink = self.make_sink(tmp_path)
            found = await sink.open()
            await sink.close()
            if sink.holds_position:
                assert found is not None
                assert found.position == last
                assert dict(found.state) == _state(last)

        asyncio.run(run())

    def test_what_is_not_committed_is_not_kept(self, tmp_path: Path) -> None:
        """Check that uncommitted changes are gone after a kill, and are delivered only once."""
        transactions = self.transactions()
        first = next(at for at, one in enumerate(transactions) if not one.schema_changes)
        expected = self._expected(tmp_path)
        target = self._target(tmp_path, "killed")
        saved, sinks = _Saved(), [self.make_sink(target)]
        once = sinks[0].guarantee is Guarantee.EXACTLY_ONCE

        async def run() -> None:
            await sinks[0].open()
            await self._feed(sinks[0], transactions[:first], None, saved, lambda: None)
            before = await self.content(target)
            for transaction in transactions[first:]:
                if not transaction.schema_changes:
                    await sinks[0].write(transaction)
            if once:
                assert await self.content(target) == before
            await self.abandon(sinks[0])

        asyncio.run(run())
        self._drop(sinks)
        self._run(target, saved)
        self._assert_same(target, expected)

    def test_a_part_is_not_shown(self, tmp_path: Path) -> None:
        """Check that a transaction that is not complete is not visible."""
        transactions = self.transactions()
        first = next(at for at, one in enumerate(transactions) if not one.complete)
        target = self._target(tmp_path, "parts")

        async def run() -> None:
            sink = self.make_sink(target)
            await sink.open()
            await self._feed(sink, transactions[:first], None, _Saved(), lambda: None)
            before = await self.content(target)
            for transaction in transactions[first:]:
                if transaction.complete:
                    break
                await sink.write(transaction)
                assert await self.content(target) == before
            await sink.close()

        asyncio.run(run())

    def test_many_with_one_call_are_the_same(self, tmp_path: Path) -> None:
        """Check that ``write_some``, where the sink has it, does what ``write`` does."""
        expected = self._expected(tmp_path)
        target = self._target(tmp_path, "some")

        async def run() -> None:
            sink = self.make_sink(target)
            await sink.open()
            some: list[Transaction] = []
            for transaction in self.transactions():
                if isinstance(sink, GroupSink) and _has_only_rows(transaction):
                    some.append(transaction)
                    continue
                await self._write_some(sink, some)
                some = []
                await sink.write(transaction)
                if transaction.complete:
                    await self._commit(sink, transaction, _Saved(), lambda: None)
            await self._write_some(sink, some)
            await sink.close()

        asyncio.run(run())
        self._assert_same(target, expected)

    async def _write_some(self, sink: Sink, transactions: list[Transaction]) -> None:
        if not transactions:
            return
        assert isinstance(sink, GroupSink)
        size = sum(rows.event_size for one in transactions for rows in one.rows)
        await sink.write_some(transactions, size)
        await self._commit(sink, transactions[-1], _Saved(), lambda: None)

    def test_names_stay_apart_and_inside(self, tmp_path: Path) -> None:
        """Check that tables with similar names, or names like paths, stay separate and inside the sink's directory."""
        above = self._target(tmp_path, "above")
        target = self._target(above, "place")
        count = len(HOSTILE_NAMES)
        holds_tables = self._write(target, on_tables(self.transactions(), HOSTILE_NAMES))
        found = asyncio.run(self.stored_tables(target))
        if found is not None:
            assert len(found) == count
            assert all(rows and rows == found[0] for rows in found)
        # A new process deletes the rows of every second table.
        some = HOSTILE_NAMES[::2]
        self._write(target, on_tables(self.transactions(), some, "delete"))
        found = asyncio.run(self.stored_tables(target))
        if found is not None:
            assert len(found) == count
            if holds_tables:
                assert sum(1 for rows in found if not rows) == len(some)
        assert list(tmp_path.iterdir()) == [above]
        assert list(above.iterdir()) == [target]

    def test_killed_at_every_step(self, tmp_path: Path) -> None:
        """Check that a sink ends with the same content when it is killed once, before each method call in turn."""
        expected = self._expected(tmp_path)
        steps = self._count(lambda step: self._run(self._target(tmp_path, "count"), _Saved(), step))
        for at in range(0, steps, self.step_stride):
            target, saved = self._target(tmp_path, f"step-{at}"), _Saved()
            self._killed(target, saved, self._bomb(at))
            self._run(target, saved)
            self._assert_same(target, expected)

    def test_killed_again_and_again(self, tmp_path: Path) -> None:
        """Check that a sink that is killed after every few calls ends with the same content."""
        expected = self._expected(tmp_path)
        parts = max(transaction.part for transaction in self.transactions())
        # Enough for the longest way from one commit to the next.
        enough = _COMMIT_EVERY + parts + 6
        for stride in (enough, enough + 5):
            target, saved = self._target(tmp_path, f"stride-{stride}"), _Saved()
            for _ in range(50):
                if not self._killed(target, saved, self._bomb(stride)):
                    break
            else:
                raise AssertionError(f"nothing moves on when killed after {stride} steps")
            self._assert_same(target, expected)

    def test_killed_inside_of_steps(self, tmp_path: Path) -> None:
        """Check that a sink that is killed before and within system calls on files ends with the same content."""
        if not self.system_calls:
            return
        expected = self._expected(tmp_path)

        def whole(step: Callable[[], None]) -> None:
            with _system_calls(step):
                self._run(self._target(tmp_path, "count-calls"), _Saved())

        for at in range(0, self._count(whole), self.call_stride):
            target, saved = self._target(tmp_path, f"call-{at}"), _Saved()
            with _system_calls(self._bomb(at)):
                self._killed(target, saved, lambda: None)
            self._run(target, saved)
            self._assert_same(target, expected)

    # How it is done.

    def _target(self, tmp_path: Path, name: str) -> Path:
        target = tmp_path / name
        target.mkdir()
        return target

    def _write(self, target: Path, transactions: Iterable[Transaction]) -> bool:
        """Write some transactions and commit each; whether the sink holds tables."""

        async def run() -> bool:
            sink = self.make_sink(target)
            await sink.open()
            for transaction in transactions:
                await sink.write(transaction)
                await sink.commit(Checkpoint(transaction.position, _state(transaction.position)))
            await sink.close()
            return isinstance(sink, CopyingSink)

        return asyncio.run(run())

    def _expected(self, tmp_path: Path) -> Any:
        target = self._target(tmp_path, "whole")
        self._run(target, _Saved())
        return asyncio.run(self.content(target))

    def _run(self, target: Path, saved: _Saved, step: Callable[[], None] = lambda: None) -> None:
        """Open the sink, write all missing transactions, and close it."""
        sinks: list[Sink] = []

        async def run() -> None:
            sinks.append(self.make_sink(target))
            try:
                step()
                checkpoint = await sinks[0].open()
                if not sinks[0].holds_position:
                    checkpoint = saved.checkpoint
                step()
                await self._feed(sinks[0], self.transactions(), checkpoint, saved, step)
                step()
                await sinks[0].close()
            except SimulatedCrashError:
                await self.abandon(sinks[0])
                raise

        # Existing objects are no garbage: the search for the dropped sink skips them.
        gc.freeze()
        try:
            asyncio.run(run())
        except SimulatedCrashError as error:
            # What the frames of the failed call still hold would keep the sink alive.
            traceback.clear_frames(error.__traceback__)
            error.__traceback__ = None
            self._drop(sinks)
            raise
        finally:
            gc.unfreeze()

    def _killed(self, target: Path, saved: _Saved, step: Callable[[], None]) -> bool:
        """Run like :meth:`_run`, and return whether ``step`` simulated a kill."""
        try:
            self._run(target, saved, step)
        except SimulatedCrashError:
            return True
        return False

    async def _feed(
        self,
        sink: Sink,
        transactions: list[Transaction],
        checkpoint: Checkpoint | None,
        saved: _Saved,
        step: Callable[[], None],
    ) -> None:
        written = 0
        last: Transaction | None = None
        for transaction in _behind(transactions, checkpoint):
            if transaction.schema_changes and not transaction.part and written and last is not None:
                await self._commit(sink, last, saved, step)
                written = 0
            step()
            await sink.write(transaction)
            last, written = transaction, written + 1
            if transaction.complete and (transaction.schema_changes or written >= _COMMIT_EVERY):
                await self._commit(sink, transaction, saved, step)
                written = 0
        if written and last is not None:
            await self._commit(sink, last, saved, step)

    async def _commit(
        self, sink: Sink, last: Transaction, saved: _Saved, step: Callable[[], None]
    ) -> None:
        checkpoint = Checkpoint(last.position, _state(last.position))
        step()
        await sink.commit(checkpoint)
        if not sink.holds_position:
            step()
            saved.checkpoint = checkpoint

    def _drop(self, sinks: list[Sink]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            alive = weakref.ref(sinks[0])
            sinks.clear()
            # A thread of the sink's may hold it a moment longer than its last call takes.
            deadline = time.monotonic() + _GONE_SECONDS
            while alive() is not None and time.monotonic() < deadline:
                gc.collect()
                time.sleep(0.001)

    @staticmethod
    def _count(run: Callable[[Callable[[], None]], object]) -> int:
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

        run(step)
        return count

    @staticmethod
    def _bomb(after: int) -> Callable[[], None]:
        left = after

        def step() -> None:
            nonlocal left
            if left <= 0:
                raise SimulatedCrashError
            left -= 1

        return step

    def _assert_same(self, target: Path, expected: Any) -> None:
        guarantee = self.make_sink(target).guarantee
        got = asyncio.run(self.content(target))
        if guarantee is Guarantee.EXACTLY_ONCE:
            assert got == expected
        else:
            assert_repeats(got, expected)


def assert_repeats(got: list[Any], expected: list[Any]) -> None:
    """Assert that all entries are there in order, and that a repetition continues from an earlier place.

    Raises:
        AssertionError: an entry is missing, out of order, or not expected.
    """
    reached = at = 0
    for entry in got:
        if at < len(expected) and entry == expected[at]:
            at += 1
        else:
            again = [target for target in range(reached) if expected[target] == entry]
            assert again, f"an entry that does not belong there: {entry!r}"
            at = again[-1] + 1
        reached = max(reached, at)
    assert reached == len(expected), f"{len(expected) - reached} entries are missing"


def _behind(
    transactions: list[Transaction], checkpoint: Checkpoint | None
) -> Iterator[Transaction]:
    for transaction in transactions:
        if checkpoint is None or transaction.position > checkpoint.position:
            yield transaction


def _has_only_rows(transaction: Transaction) -> bool:
    others = (transaction.schema_changes, transaction.statements, transaction.losses)
    return (
        transaction.complete and not transaction.part and bool(transaction.rows) and not any(others)
    )


def _state(position: object) -> dict[str, object]:
    return {"conformance": {"position": str(position), "text": "ä\n", "numbers": [1, None, 2.5]}}


@contextmanager
def _system_calls(step: Callable[[], None]) -> Iterator[None]:
    """Run ``step`` before each system call that changes files; a write may be cut in the middle."""
    originals = {
        name: getattr(os, name)
        for name in ("fsync", "replace", "rename", "unlink", "ftruncate", "write")
    }

    def write(descriptor: int, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            step()
        except SimulatedCrashError:
            originals["write"](descriptor, view[: len(view) // 2])
            raise
        return int(originals["write"](descriptor, view))

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            step()
            return originals[name](*given, **named)

        return call

    for name in originals:
        setattr(os, name, write if name == "write" else wrapped(name))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(os, name, original)
