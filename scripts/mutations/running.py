"""A pytest plugin: which tests run which lines, then each mutation in a process of its own with those tests.

All modules are imported once, as plain Python. A process that is forked for each mutation gets the changed code into
the function objects that are there: nothing is written, and nothing is imported or collected again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from mutations.planting import Mutation

ROOT = Path(__file__).resolve().parents[2]
_PART = 250  # tests that are recorded at once
_SILENT = 60  # seconds after which a test waits for what does not come, or takes too long for this
_SAVED = 20  # seconds between two times that what was recorded is saved


class Runner:
    """Catches mutations instead of running all tests once.

    Args:
        mutations: to be caught.
        kept: file of what is known about lines and tests, or where it goes.
        most: tests for one mutation.
        seconds: for one test; more is a catch, as a test of CI has an end, too.
        tell: is given each mutation, how it was caught (``""`` when it was not) and how many tests could.
        is_known: whether that is known already of a mutation.
    """

    def __init__(
        self,
        mutations: Sequence[Mutation],
        kept: Path,
        most: int,
        seconds: float,
        tell: Callable[[Mutation, str, int], None],
        is_known: Callable[[Mutation], bool],
    ) -> None:
        self._mutations, self._kept = mutations, kept
        self._most, self._seconds, self._tell = most, seconds, tell
        self._is_known = is_known

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        known = self._recorded(session.items)
        items = {item.nodeid: item for item in session.items}
        for mutation in self._mutations:
            if self._is_known(mutation):
                continue
            lines = known["lines"].get(mutation.path, {})
            able = [
                (known["seconds"][at], name)
                for at in lines.get(str(mutation.line), ())
                if (name := known["tests"][at]) in items
            ]
            chosen = [items[name] for name in _different_first(able)[: self._most]]
            caught = self._caught(mutation, chosen) if chosen else ""
            self._tell(mutation, caught, len(able))
        return True

    def _recorded(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """What is known about lines and tests, after those ran of which it is not."""
        while True:
            known = _known(self._kept)
            there = set(known["tests"])
            new = [item for item in items if item.nodeid not in there][:_PART]
            if not new:
                return known
            # In parts, so that a run that is stopped keeps what it has.
            at = self._kept.with_suffix(".at")
            said = _forked(functools.partial(_record, new, known, self._kept, at), _SILENT)
            if said == "timeout":
                # Some that use threads wait for ever in a process that was forked; others cut at every byte.
                known["tests"].append(at.read_text(encoding="utf-8"))
                known["seconds"].append(0.0)
                self._kept.write_text(json.dumps(known))
            elif said:
                raise pytest.UsageError(f"the tests could not be run: {said}")

    def _caught(self, mutation: Mutation, items: Sequence[pytest.Item]) -> str:
        """The first test that fails, or what else stopped it."""

        def run(beat: Callable[[], None]) -> str:
            function = find(mutation)
            function.__code__ = mutation.code(ROOT)
            return _first_failed(items, beat)

        return _forked(run, self._seconds)


def find(mutation: Mutation) -> FunctionType:
    """The function that a mutation is in."""
    found: Any = importlib.import_module(mutation.module)
    owner = None
    for name in mutation.function.split("."):
        owner, found = found, vars(found)[name] if name in vars(found) else getattr(found, name)
    for code in _functions_of(found):
        if code.__code__.co_firstlineno == mutation.function_line:
            return code
    raise LookupError(f"{mutation}: {found!r} of {owner!r} is no function of these sources")


def _functions_of(found: Any) -> list[FunctionType]:
    """The functions that an attribute is made of: of a property, a decorator, a method."""
    if isinstance(found, FunctionType):
        inner = _functions_of(vars(found).get("__wrapped__"))
        return [found, *inner]
    if isinstance(found, property):
        return [one for part in (found.fget, found.fset) for one in _functions_of(part)]
    if isinstance(found, functools.cached_property):
        return _functions_of(found.func)
    for name in ("__func__", "__wrapped__", "func"):
        if found is not None and (inner := getattr(found, name, None)) is not None:
            return _functions_of(inner)
    return []


def _different_first(able: Sequence[tuple[float, str]]) -> list[str]:
    """Names of tests: one of each function, then a second one of each, and so on; quick ones first.

    Cases of one function say much the same.
    """
    seen: Counter[str] = Counter()
    ranked = []
    for seconds, name in sorted(able):
        function = name.partition("[")[0]
        ranked.append((seen[function], seconds, name))
        seen[function] += 1
    return [name for _, _, name in sorted(ranked)]


def _first_failed(items: Sequence[pytest.Item], beat: Callable[[], None]) -> str:
    failed: list[str] = []

    class Reports:
        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    items[0].config.pluginmanager.register(Reports())
    for at, item in enumerate(items):
        beat()
        following = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            return failed[0]
    return ""


def _known(kept: Path) -> dict[str, Any]:
    """Names of tests, the CPU seconds of each, and for each file and line the numbers of those that run it.

    What ran in files that changed since, and what stands in them, is not known any more.
    """
    if not kept.exists():
        return {"tests": [], "seconds": [], "lines": {}, "files": {}}
    found: dict[str, Any] = json.loads(kept.read_text())
    changed = {
        path
        for path, digest in found["files"].items()
        if not (ROOT / path).exists() or _digest(ROOT / path) != digest
    }
    if changed:
        names = found["tests"]
        gone = {at for at, name in enumerate(names) if name.partition("::")[0] in changed}
        for path in changed & found["lines"].keys():
            gone.update(at for tests in found["lines"].pop(path).values() for at in tests)
        for at in gone:
            names[at] = ""
        for path in changed:
            del found["files"][path]
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _record(
    items: Sequence[pytest.Item],
    known: dict[str, Any],
    kept: Path,
    at_hand: Path,
    beat: Callable[[], None],
) -> str:
    """Run tests once, and add which lines of the package each runs, and how long it takes.

    The name of the test that runs is in the file ``at_hand``, and ``beat`` is called before each.
    """
    import coverage

    measured = coverage.Coverage(
        data_file=None, include=[f"{ROOT}/replica_client/*"], config_file=False
    )
    names, seconds = known["tests"], known["seconds"]
    broken: set[int] = set()
    saved_at, saved = time.monotonic(), len(names)
    for at, item in enumerate(items):
        at_hand.write_text(item.nodeid, encoding="utf-8")
        beat()
        measured.start()  # anew: a test may trace for itself
        measured.switch_context(str(len(names)))
        begun = time.process_time()
        following = items[at + 1] if at + 1 < len(items) else None
        reports: list[Any] = []
        _watch(item, reports)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        measured.stop()
        if any(report.failed or report.skipped for report in reports):
            broken.add(len(names))
        names.append(item.nodeid)
        seconds.append(time.process_time() - begun)
        if time.monotonic() - saved_at > _SAVED or following is None:
            _add_lines(known, measured.get_data(), broken)
            for path in {*known["lines"], *(name.partition("::")[0] for name in names[saved:])}:
                known["files"].setdefault(path, _digest(ROOT / path))
            kept.write_text(json.dumps(known))
            measured.erase()
            saved_at, saved = time.monotonic(), len(names)
    return ""


def _add_lines(known: dict[str, Any], data: Any, broken: set[int]) -> None:
    """Add which lines tests ran, but those that did not pass."""
    for file in data.measured_files():
        of_file = known["lines"].setdefault(str(Path(file).relative_to(ROOT)), {})
        for line, contexts in data.contexts_by_lineno(file).items():
            good = [int(one) for one in contexts if one and int(one) not in broken]
            of_file[str(line)] = of_file.get(str(line), []) + good


def _watch(item: pytest.Item, reports: list[Any]) -> None:
    """Have the reports of a test in a list."""
    manager = item.config.pluginmanager
    old = manager.get_plugin("mutations-watch")
    if old is None:
        old = _Watch()
        manager.register(old, "mutations-watch")
    old.reports = reports


class _Watch:
    reports: list[Any]

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)


def _write(writer: int, data: bytes) -> None:
    os.write(writer, data)


_BEAT, _END = b"\0", b"\3"


def _forked(run: Callable[[Callable[[], None]], str], silent: float) -> str:
    """What a function says in a process of its own; ``timeout`` when nothing comes for so many seconds.

    The function is given what tells that it goes on. The process ends with this one, also when a signal ends it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(reader)
        os.setpgid(0, 0)
        text = "crash"
        try:
            text = run(functools.partial(_write, writer, _BEAT))
        except BaseException as error:  # noqa: BLE001  a fork says everything by its pipe
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, text.encode("utf-8", "replace")[:4000] + _END)
            os._exit(0)
    os.close(writer)
    said = b""
    try:
        while not said.endswith(_END):
            if not select.select([reader], [], [], silent)[0]:
                return "timeout"
            part = os.read(reader, 4096)
            if not part:
                return "crash"
            said = (said + part).lstrip(_BEAT)
        return said[:-1].decode("utf-8", "replace")
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
