"""A pytest plugin: which tests run which lines, then each mutation in a process of its own with those tests.

All modules are imported once, as plain Python. A process that is forked for each mutation gets the changed code into
the function objects that are there: nothing is written, and nothing is imported or collected again. As many of these
processes run at once as are wanted.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from mutants.forks import Task, run_all
from mutants.planting import Mutation

ROOT = Path(__file__).resolve().parents[3]
_PART = 250  # tests that are recorded at once
_SILENT = 60  # seconds after which a test waits for what does not come, or takes too long for this
_SAVED = 20  # seconds between two times that what was recorded is saved


@dataclass(frozen=True)
class Limits:
    """How much is run.

    Attributes:
        tests: for one mutation.
        silent: seconds for one test; more is a catch, as a test of CI has an end, too.
        together: CPU seconds of the tests for one mutation, behind which no further test begins.
        jobs: processes at once.
        until: of :func:`time.monotonic`; nothing is begun behind it.
    """

    tests: int
    silent: float
    together: float
    jobs: int
    until: float


class Runner:
    """Catches mutations instead of running all tests once.

    Args:
        mutations: to be caught; none that is known.
        kept: file of what is known about lines and tests, or where it goes.
        limits: how much is run.
        tell: is given each mutation, how it was caught (``""`` when it was not) and how many tests could.
    """

    def __init__(
        self,
        mutations: Sequence[Mutation],
        kept: Path,
        limits: Limits,
        tell: Callable[[Mutation, str, int], None],
    ) -> None:
        self._mutations, self._kept = mutations, kept
        self._limits, self._tell = limits, tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        known = self._recorded(session.items)
        if self._is_late():
            return True
        items = {item.nodeid: item for item in session.items}
        tasks: list[Task] = []
        planted: list[tuple[Mutation, int]] = []
        for mutation in self._mutations:
            lines = known["lines"].get(mutation.path, {})
            able = [
                (known["seconds"][at], name)
                for at in lines.get(str(mutation.line), ())
                if (name := known["tests"][at]) in items
            ]
            chosen = [items[name] for name in _different_first(able)[: self._limits.tests]]
            if not chosen:
                self._tell(mutation, "", 0)
                continue
            tasks.append(functools.partial(_first_failed, mutation, chosen, self._limits.together))
            planted.append((mutation, len(able)))
        for number, caught in run_all(tasks, self._limits.jobs, self._limits.silent, self._is_late):
            mutation, able_count = planted[number]
            self._tell(mutation, caught, able_count)
        return True

    def _is_late(self) -> bool:
        return time.monotonic() > self._limits.until

    def _recorded(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """What is known about lines and tests, after those ran of which it is not."""
        known = _known(self._kept)
        for left in self._kept.parent.glob(f"{self._kept.stem}.part*"):
            _merge(known, left)  # of a run that was stopped
        while not self._is_late():
            there = set(known["tests"])
            new = [item for item in items if item.nodeid not in there]
            if not new:
                break
            # In parts, so that a run that is stopped keeps what it has.
            parts = [new[at : at + _PART] for at in range(0, len(new), _PART)]
            files = [self._kept.with_suffix(f".part{number}") for number in range(len(parts))]
            tasks = [
                functools.partial(_record, part, file)
                for part, file in zip(parts, files, strict=True)
            ]
            for number, said in run_all(tasks, self._limits.jobs, _SILENT, self._is_late):
                at_hand = _at_hand(files[number])
                _merge(known, files[number])
                if said == "timeout":
                    # Some that use threads wait for ever in a process that was forked; others cut at every byte.
                    known["tests"].append(at_hand.read_text(encoding="utf-8"))
                    known["seconds"].append(0.0)
                elif said:
                    raise pytest.UsageError(f"the tests could not be run: {said}")
                _write(self._kept, known)
        return known


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


def _first_failed(
    mutation: Mutation, items: Sequence[pytest.Item], together: float, beat: Callable[[], None]
) -> str:
    """The first test that fails with a mutation; ``""`` when none did in so many seconds together."""
    find(mutation).__code__ = mutation.code(ROOT)
    failed: list[str] = []

    class Reports:
        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    items[0].config.pluginmanager.register(Reports())
    end = time.process_time() + together
    for at, item in enumerate(items):
        beat()
        following = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            return failed[0]
        if time.process_time() > end:
            break
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


def _at_hand(part: Path) -> Path:
    """The file with the name of the test that runs."""
    return part.with_name(f"{part.name}-at")


def _record(items: Sequence[pytest.Item], part: Path, beat: Callable[[], None]) -> str:
    """Run tests once, and keep in a file which lines of the package each runs, and how long it takes.

    ``beat`` is called before each.
    """
    import coverage

    measured = coverage.Coverage(
        data_file=None, include=[f"{ROOT}/replica_client/*"], config_file=False
    )
    known: dict[str, Any] = {"tests": [], "seconds": [], "lines": {}, "files": {}}
    names, seconds = known["tests"], known["seconds"]
    broken: set[int] = set()
    saved_at, saved = time.monotonic(), 0
    for at, item in enumerate(items):
        _at_hand(part).write_text(item.nodeid, encoding="utf-8")
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
            _write(part, known)
            measured.erase()
            saved_at, saved = time.monotonic(), len(names)
    return ""


def _write(path: Path, known: dict[str, Any]) -> None:
    new = path.with_name(f"{path.name}-new")
    new.write_text(json.dumps(known))
    new.replace(path)


def _merge(known: dict[str, Any], part: Path) -> None:
    """Add what a part found, and remove its file."""
    if part.name.endswith(("-at", "-new")) or not part.exists():
        return
    found = _known(part)
    first = len(known["tests"])
    known["tests"] += found["tests"]
    known["seconds"] += found["seconds"]
    known["files"].update(found["files"])
    for path, lines in found["lines"].items():
        of_file = known["lines"].setdefault(path, {})
        for line, tests in lines.items():
            of_file.setdefault(line, []).extend(first + at for at in tests)
    part.unlink()


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
