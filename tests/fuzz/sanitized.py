"""Reads changed input of every kind until a budget of processor time is used.

``scripts/proofs/sanitize fuzz`` runs it with compiled modules that AddressSanitizer and UndefinedBehaviorSanitizer
watch: a report ends the process. Without them it is a short run of all the fuzzers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import replica_client as rc
from replica_client.errors import BinlogDecodeError
from tests.fuzz import file_harness, harness, packet_harness, sealed_harness
from tests.fuzz.file_harness import CaseMaker, FileCase, FileTally, examine_file
from tests.fuzz.harness import (
    Sample,
    TookTooLongError,
    deadline,
    decode_everything,
    mutated,
    mutated_file,
    samples_below,
    samples_of_goldens,
)
from tests.fuzz.scenes import CORPUS, corpus_scenes, encrypted_scenes, golden_scenes
from tests.fuzz.sealed_harness import IndexPlayground, IndexTally, PayloadMaker

SLOWER = 20
"""Factor of the deadlines: the sanitizers and a busy machine take their time."""


class Run:
    """All fuzzers in turn, a slice of each.

    Args:
        seed: of all cases.
        first: number of the first case, so that a run in parts repeats nothing.
    """

    def __init__(self, seed: int, first: int) -> None:
        self.seed, self.number = seed, first
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self._files = FileTally()
        self._indexes = IndexTally()
        samples = [*samples_of_goldens(), *samples_below([CORPUS] if CORPUS.is_dir() else [])]
        self._samples: dict[int, list[Sample]] = {}
        for sample in samples:
            self._samples.setdefault(sample.event[4], []).append(sample)
        self._all = samples
        scenes = [*golden_scenes(), *corpus_scenes()]
        self._maker = CaseMaker(scenes, list(encrypted_scenes()), seed)
        self._payloads = PayloadMaker(scenes, seed)
        self._playground = IndexPlayground(seed)
        self._talks = asyncio.run(packet_harness.conversations())
        self.slices: dict[str, Callable[[], None]] = {
            "crashers": self._crashers,
            "events": self._events,
            "files": self._changed_files,
            "payloads": self._changed_payloads,
            "indexes": self._changed_indexes,
            "sessions": self._sessions,
            "packets": self._packets,
        }

    def close(self) -> None:
        """Remove temporary files."""
        self._playground.close()

    def step(self) -> None:
        """Run a slice of each fuzzer."""
        for name, play in self.slices.items():
            begun = time.process_time()
            play()
            self.counts[f"{name} CPU ms"] += int((time.process_time() - begun) * 1000)
        self.number += 1000

    def _crashers(self) -> None:
        if self.counts["crashers"]:
            return
        for path in sorted(harness.CRASHERS.glob("*.json")):
            self._event(Sample.from_json(path.read_text()), path.name)
            self.counts["crashers"] += 1
        for path in sorted(file_harness.CRASHERS.glob("*.json")):
            self._file(FileCase.from_json(path.read_text()), path.name)
            self.counts["crashers"] += 1

    def _event(self, sample: Sample, where: str) -> None:
        try:
            with contextlib.suppress(BinlogDecodeError), deadline(harness.SECONDS):
                decode_everything(sample)
        except (Exception, TookTooLongError) as error:
            self.findings.append(f"{where}: {type(error).__name__}: {error!s:.200}")

    def _file(self, case: FileCase, where: str) -> None:
        if reason := examine_file(case, self._files):
            self.findings.append(f"{where}: {reason}")

    def _events(self) -> None:
        codes = sorted(self._samples)
        for number in range(self.number, self.number + 600):
            rng = random.Random(f"{self.seed}/event/{number}")
            some = self._samples[rng.choice(codes)]
            is_file = rng.random() < 0.03
            sample = (
                mutated_file(self._all, rng)
                if is_file
                else mutated(rng.choice(some), rng.choice(some), rng)
            )
            self._event(sample, f"event {number} of seed {self.seed}")
            self.counts["events"] += 1

    def _changed_files(self) -> None:
        for number in range(self.number, self.number + 300):
            self._file(self._maker.case(number), f"file {number} of seed {self.seed}")
            self.counts["files"] += 1

    def _changed_payloads(self) -> None:
        for number in range(self.number, self.number + 200):
            self._file(self._payloads.case(number), f"payload {number} of seed {self.seed}")
            self.counts["payloads"] += 1

    def _changed_indexes(self) -> None:
        for number in range(self.number, self.number + 30):
            self._playground.play(number, self._indexes)
            self.counts["indexes"] += 1
        self.findings += self._indexes.findings
        self._indexes.findings.clear()

    def _sessions(self) -> None:
        tally = packet_harness.Tally()
        asyncio.run(packet_harness.play(self._talks, tally, self.seed + self.number, 60))
        self.counts["sessions"] += tally.sessions
        self.findings += tally.findings

    def _packets(self) -> None:
        tally = packet_harness.Tally()
        packet_harness.play_packets(self._talks, tally, self.seed + self.number, 600)
        self.counts["packets"] += tally.packets
        self.findings += tally.findings


def main() -> int:
    """Run until the budget is used; print figures as JSON lines, the last one is the whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu-seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    for module in (harness, file_harness, sealed_harness):
        module.SECONDS *= SLOWER
    packet_harness.SESSION_TIMEOUT *= SLOWER
    memory = Path("/proc/self/maps").read_text()
    sanitized = "libasan" in memory and rc.compiled()
    run = Run(arguments.seed, arguments.first)
    try:
        while time.process_time() < arguments.cpu_seconds:
            run.step()
            used = time.process_time()
            state = {"cpu_seconds": round(used, 1), "sanitized": sanitized, "next": run.number}
            print(json.dumps(state | dict(run.counts)), flush=True)
            while run.findings:
                print(f"FINDING {run.findings[0]}", flush=True)
                run.counts["findings"] += 1
                run.findings.pop(0)
    finally:
        run.close()
    return 1 if run.counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
