"""The first part: ``replica-client changes``, killed and started again."""

from __future__ import annotations

import json
from pathlib import Path

from replica_client._compiled import compiled
from replica_client.cli.demonstration.proof import (
    Proof,
    Rows,
    Screen,
    ServedBinlog,
    client_process,
    prove,
    reached,
)

_CHANGES_BEFORE_KILL = 20
_TIMEOUT = 60.0


class PlainClient:
    """The acts without Spark.

    Args:
        screen: to show them on.
        output: directory for its files.
    """

    def __init__(self, screen: Screen, output: Path) -> None:
        self._screen = screen
        self._served = ServedBinlog()
        self._position = output / "plain.position"
        self._files = [output / "plain-1.jsonl", output / "plain-2.jsonl"]

    def run(self) -> Proof:
        """Play them; returns the proof."""
        for file in (self._position, *self._files):
            file.unlink(missing_ok=True)
        with self._served.serving():
            where = self._served.url.rpartition("@")[2].rstrip("/")
            self._screen.say(f"A source speaks the replication protocol on {where}, from a binlog")
            self._screen.say(f"that {self._served.expected['server']} wrote.")
            if not compiled():
                self._screen.say(
                    "The client runs as plain Python here: the same results, but slower."
                )
                self._screen.say("Where a C compiler is installed, pip compiles it.")
            before = self._first_run()
            self._served.add_rest()
            log, again = self._second_run(before)
        proof = prove(log, self._served.changes(), self._served.expected["tables"])
        what = "What the client printed"
        self._screen.proof(proof, f"{what}, each change once," if again else what)
        self._screen.say(f"What it printed: {self._files[0]}, {self._files[1].name}")
        return proof

    def _first_run(self) -> Rows:
        self._screen.heading("The client follows it as a replica, and is killed")
        with client_process(self._arguments(), self._files[0]) as process:
            self._screen.wait(
                process,
                lambda: len(_log(self._files[0])) >= _CHANGES_BEFORE_KILL,
                lambda: "The client starts …",
                _TIMEOUT,
            )
            process.kill()
        log = _log(self._files[0])
        self._screen.changes(log)
        self._screen.say(
            f"{len(log)} changes had arrived after {self._screen.seconds:.1f} s, up to "
            f"{reached(log)}, when it got SIGKILL."
        )
        return log

    def _second_run(self, before: Rows) -> tuple[Rows, int]:
        more = len(self._served.changes(1))
        self._screen.heading("The source writes on, and the client starts again")
        self._screen.say(f"Another binlog file with {more} changes is there now.")
        with client_process([*self._arguments(), "--stop-at-end"], self._files[1]) as process:
            self._screen.wait(
                process,
                lambda: not process.running,
                lambda: "The client starts again …",
                _TIMEOUT,
            )
            process.wait()
        seen = {_key(row) for row in before}
        came = _log(self._files[1])
        new = [row for row in came if _key(row) not in seen]
        again = len(came) - len(new)
        repeats = f" {again} were delivered again: the kill came before the save." if again else ""
        self._screen.say(
            f"It went on at the saved position: {len(new)} more changes, "
            f"{len(before) + len(new)} in all.{repeats}"
        )
        return before + new, again

    def _arguments(self) -> list[str]:
        options = {
            "--table": "shop.*",
            "--since": "earliest",
            "--position-file": str(self._position),
        }
        pairs = [word for option in options.items() for word in option]
        return ["changes", self._served.url, *pairs, "--json"]


def _key(row: dict[str, object]) -> tuple[object, ...]:
    return row["_file"], row["_offset"], row["_row_index"]


def _log(file: Path) -> Rows:
    """Return the whole lines of the file, in the form of a change log's rows."""
    lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
    rows = []
    for line in lines:
        change = json.loads(line)
        images = {
            name: None if change[name] is None else json.dumps(change[name], ensure_ascii=False)
            for name in ("before", "after")
        }
        rows.append(
            {
                "_file": change["file"],
                "_offset": change["position"],
                "_row_index": change["row_index"],
                "_gtid": change["gtid"],
                "database": change["database"],
                "table": change["table"],
                "operation": change["kind"],
                **images,
            }
        )
    return rows
