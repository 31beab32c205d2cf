"""Whether ten times the data takes ten times as much: instructions of the Arrow path, under callgrind."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.callgrind import count
from benchmarks.generated_log import Made

# What the smallest file is, and what grows in it ten and a hundred steps.
_GROWING = {
    "rows": (Made(transactions=20, rows=1), "rows", 150),
    "events": (Made(transactions=40), "transactions", 400),
    "tables": (Made(transactions=1, tables=1), "tables", 20),
    "table ids": (
        Made(transactions=20, tables=20, opened_anew=True),
        "transactions",
        400,
    ),
    "columns": (Made(transactions=20, rows=50, columns=2), "columns", 20),
}
TOLERANCE = 0.10


def _instructions(made: Made, directory: str) -> int:
    path = Path(directory, "binlog.000001")
    made.write(path)
    return count(path).instructions


def growth() -> bool:
    """Print how each cost grows; whether all grow with the data, within 10 %."""
    good = True
    with tempfile.TemporaryDirectory() as directory:
        for name, (base, field, step) in _GROWING.items():
            costs = []
            for steps in (0, 1, 10):
                more = {field: getattr(base, field) + steps * step}
                if name == "tables":
                    # Each table once.
                    more["transactions"] = more["tables"]
                costs.append(_instructions(replace(base, **more), directory))
            ratio = (costs[2] - costs[0]) / (costs[1] - costs[0])
            good &= abs(ratio / 10 - 1) <= TOLERANCE
            each = (costs[2] - costs[0]) / (10 * step)
            print(
                f"{name}: 10 times the {name} take {ratio:.2f} times as much; {each:.0f} instructions each",
                flush=True,
            )
        marginal = []
        for intervals in (1, 10, 100_000, 1_000_000):
            few, many = (
                _instructions(Made(transactions=n, intervals=intervals), directory)
                for n in (500, 2_500)
            )
            marginal.append((many - few) / 2_000)
            print(
                f"GTID set of {intervals} intervals: {marginal[-1]:.0f} instructions a transaction",
                flush=True,
            )
        good &= abs(marginal[-1] / marginal[0] - 1) <= TOLERANCE
    print("linear" if good else "NOT linear", "within 10 %")
    return good
