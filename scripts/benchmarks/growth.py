"""Whether ten times the data takes ten times as much: instructions of the Arrow path, under callgrind."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.callgrind import count
from benchmarks.made import Made

# What the smallest file is, and what grows in it ten and a hundred steps.
_GROWING = {
    "rows": (Made(transactions=20, rows=1), "rows", 150),
    "events": (Made(transactions=0), "transactions", 400),
    "tables": (Made(transactions=1, tables=1), "tables", 20),
    "columns": (Made(transactions=20, rows=50, columns=2), "columns", 20),
}
_INTERVALS = (1, 10, 100_000, 1_000_000)
_TRANSACTIONS = (500, 2_500)
TOLERANCE = 0.10


def growth() -> bool:
    """Print how each cost grows; whether all grow with the data, within 10 %."""
    made: list[Made] = []
    for name, (base, field, step) in _GROWING.items():
        for steps in (0, 1, 10):
            more = {field: getattr(base, field) + steps * step}
            if name == "tables":
                more["transactions"] = more["tables"]  # each table once
            made.append(replace(base, **more))
    for intervals in _INTERVALS:
        made += [Made(transactions=count, intervals=intervals) for count in _TRANSACTIONS]
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, f"binlog.{number:06d}") for number in range(len(made))]
        for path, what in zip(paths, made, strict=True):
            what.write(path)
        costs = [found.instructions for found in count(paths)]
    good = True
    for name, (_, _, step) in _GROWING.items():
        (none, once, tenfold), costs = costs[:3], costs[3:]
        ratio = (tenfold - none) / (once - none)
        good &= abs(ratio / 10 - 1) <= TOLERANCE
        each = (tenfold - none) / (10 * step)
        print(
            f"{name}: 10 times the {name} take {ratio:.2f} times as much; {each:.0f} instructions each"
        )
    first = 0.0
    for intervals in _INTERVALS:
        (few, many), costs = costs[:2], costs[2:]
        each = (many - few) / (_TRANSACTIONS[1] - _TRANSACTIONS[0])
        first = first or each
        good &= abs(each / first - 1) <= TOLERANCE
        print(f"GTID set of {intervals} intervals: {each:.0f} instructions a transaction")
    print("linear" if good else "NOT linear", "within 10 %")
    return good
