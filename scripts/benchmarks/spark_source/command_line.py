"""The command line of ``scripts/benchmarks/spark``."""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

from benchmarks.spark_source.archive import archive, identical
from benchmarks.spark_source.input_files import prepare
from benchmarks.spark_source.micro_batches import micro_batches
from benchmarks.spark_source.planning import plan_many, scan_speed
from benchmarks.spark_source.transport import transport

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def main(arguments: list[str]) -> int:
    """Run a measurement; prints one JSON object per figure."""
    parser = argparse.ArgumentParser(prog="scripts/benchmarks/spark")
    parser.add_argument(
        "what", choices=["prepare", "archive", "identical", "transport", "plan", "batches"]
    )
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--size", default="1g", help="bytes of binlog to prepare")
    parser.add_argument("--files", type=int, default=10_000, help="files to plan")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=40, help="micro-batches")
    parser.add_argument("--url", help="of a real source, instead of the testing source")
    chosen = parser.parse_args(arguments)
    if chosen.directory is None and chosen.what != "batches":
        parser.error(f"{chosen.what} needs a directory")
    if chosen.what == "prepare":
        size = int(chosen.size[:-1]) * _UNITS[chosen.size[-1].lower()]
        figures = prepare(chosen.directory, size)
    elif chosen.what == "archive":
        figures = archive(chosen.directory, chosen.rounds)
    elif chosen.what == "identical":
        figures = identical(chosen.directory)
    elif chosen.what == "transport":
        figures = transport(chosen.directory, chosen.rounds)
    elif chosen.what == "plan":
        figures = itertools.chain(scan_speed(chosen.directory), plan_many(chosen.files))
    else:
        figures = micro_batches(chosen.count, chosen.url)
    for figure in figures:
        print(json.dumps(figure), flush=True)
    return 0
