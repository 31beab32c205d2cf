"""Tail a source as JSON lines, resume after a stop, and end on SIGTERM.

    python tail_json.py mysql://repl:secret@db1/ 'shop.*' > changes.jsonl

A line is written before its position is saved: after a kill the last lines may come again, and none is missing.
"""

import signal
import sys
import threading

import replica_client as rc

stopping = threading.Event()


def tail(url: str, *tables: str) -> None:
    with rc.follow(url, tables=tables or None, position_store="tail.position") as stream:
        for change in stream.changes(timeout=0.5):  # None: no change came within half a second
            if change is not None:
                print(change.to_json())
            if change is None or stopping.is_set():
                sys.stdout.flush()
                stream.acknowledge()
            if stopping.is_set():
                break


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    tail(*sys.argv[1:])
