"""The few statements of an epoch that show a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.integration.mix_sessions import Entry
from tests.integration.mixes import (
    Epoch,
    Fault,
    Report,
    casefolds,
    check_files,
    files_of,
    replay_epoch,
)
from tests.servers.local import LocalServer

_Item = TypeVar("_Item")
_VARYING = re.compile(r"`[^`]*`|'[^']*'|\([^()]*\)|\S*\d\S*|[^\x00-\x7f]+")


def signature(fault: Fault) -> tuple[str, str]:
    """What two faults have in common that are one."""
    stopped = fault.kind.endswith("Error")
    return fault.kind, _VARYING.sub("#", fault.text.rpartition("; the binlog")[0] or fault.text)[
        :90
    ] if stopped else ""


def smallest(
    items: Sequence[_Item], shows: Callable[[Sequence[_Item]], bool], tries: int
) -> list[_Item]:
    """A part of a list that still shows what the whole does (delta debugging)."""
    kept, size = list(items), max(1, len(items) // 2)
    while tries > 0:
        at, removed = 0, False
        while at < len(kept) and tries > 0:
            less = kept[:at] + kept[at + size :]
            tries -= 1
            if less and shows(less):
                kept, removed = less, True
            else:
                at += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return kept


def reduce(server: LocalServer, epoch: Epoch, fault: Fault, tries: int = 150) -> list[Entry]:
    """The statements of an epoch without those that a fault does not need."""
    wanted = signature(fault)
    resume = epoch.seed if "resumed" in fault.reader else None
    casefold = casefolds(server)

    def shows(entries: Sequence[Entry]) -> bool:
        again = replay_epoch(server, epoch, entries)
        report = Report()
        paths = files_of(server, again.start, again.end)
        check_files(paths, again, report, resume=resume, casefold=casefold)
        return any(signature(one) == wanted for one in (*report.differences, *report.stops))

    entries = [one for n, one in enumerate(epoch.log[: fault.entry + 1]) if n not in epoch.refused]
    if not shows(entries):
        entries = list(epoch.log)
        if not shows(entries):
            return []
    found = smallest(entries, shows, tries)
    replay_epoch(server, epoch, ())
    return found
