"""A pytest plugin: which tests run which lines, then each mutation in a process of its own with those tests.

All modules are imported once, as plain Python. A process that is forked for each mutation gets the changed code into
the function objects that are there: nothing is written, and nothing is imported or collected again.
"""

from __future__ import annotations

import functools
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
_SILENT = 120  # seconds of a test of which no more is expected: it waits for what does not come


class Runner:
    """Catches mutations instead of running all tests once.

    Args:
        mutations: to be caught.
        kept: file of what is known about lines and tests, or where it goes.
        most: tests for one mutation.
        seconds: for one mutation; more is a catch, as a test of CI has an end, too.
        tell: is given each mutation, how it was caught (``""`` when it was not) and how many tests could.
    """

    def __init__(
        self,
        mutations: Sequence[Mutation],
        kept: Path,
        most: int,
        seconds: float,
        tell: Callable[[Mutation, str, int], None],
    ) -> None:
        self._mutations, self._kept = mutations, kept
        self._most, self._seconds, self._tell = most, seconds, tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        known = _known(self._kept)
        new = [item for item in session.items if item.nodeid not in known["tests"]]
        while new:
            # In parts, so that a run that is stopped keeps what it has.
            said = _forked(functools.partial(_record, new[:_PART], known, self._kept), _SILENT)
            known = _known(self._kept)
            there = set(known["tests"])
            new = [item for item in new if item.nodeid not in there]
            if said == "timeout":
                _leave_out(known, self._kept)
                new = [item for item in new if item.nodeid not in set(known["tests"])]
            elif said:
                raise pytest.UsageError(f"the tests could not be run: {said}")
        items = {item.nodeid: item for item in session.items}
        for mutation in self._mutations:
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

    def _caught(self, mutation: Mutation, items: Sequence[pytest.Item]) -> str:
        """The first test that fails, or what else stopped it."""

        def run() -> str:
            function = find(mutation)
            function.__code__ = mutation.code(ROOT)
            return _first_failed(items)

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


def _first_failed(items: Sequence[pytest.Item]) -> str:
    failed: list[str] = []

    class Reports:
        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    items[0].config.pluginmanager.register(Reports())
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            return failed[0]
    return ""


def _known(kept: Path) -> dict[str, Any]:
    """Names of tests, the CPU seconds of each, and for each file and line the numbers of those that run it."""
    if not kept.exists():
        return {"tests": [], "seconds": [], "lines": {}}
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def _record(items: Sequence[pytest.Item], known: dict[str, Any], kept: Path) -> str:
    """Run tests once, and add which lines of the package each runs, and how long it takes."""
    import coverage

    measured = coverage.Coverage(
        data_file=None, include=[f"{ROOT}/replica_client/*"], config_file=False
    )
    names, seconds = known["tests"], known["seconds"]
    first, broken = len(names), []
    for at, item in enumerate(items):
        measured.start()  # anew: a test may trace for itself
        measured.switch_context(str(at))
        begun = time.process_time()
        following = items[at + 1] if at + 1 < len(items) else None
        reports: list[Any] = []
        _watch(item, reports)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        measured.stop()
        names.append(item.nodeid)
        seconds.append(time.process_time() - begun)
        broken.append(any(report.failed or report.skipped for report in reports))
    data = measured.get_data()
    lines = known["lines"]
    for file in data.measured_files():
        of_file = lines.setdefault(str(Path(file).relative_to(ROOT)), {})
        for line, contexts in data.contexts_by_lineno(file).items():
            good = [first + int(one) for one in contexts if one and not broken[int(one)]]
            of_file[str(line)] = of_file.get(str(line), []) + good
    kept.write_text(json.dumps(known))
    return ""


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


def _forked(run: Callable[[], str], seconds: float) -> str:
    """What a function says in a process of its own; ``timeout`` when it does not come back."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.setpgid(0, 0)
        text = "crash"
        try:
            text = run()
        except BaseException as error:  # noqa: BLE001  a fork says everything by its pipe
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, text.encode("utf-8", "replace")[:4000])
            os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], seconds)
    said = os.read(reader, 4096).decode("utf-8", "replace") if ready else "timeout"
    if not ready:
        os.killpg(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return said or ("crash" if status and ready else "")
