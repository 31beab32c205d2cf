"""The pipeline's configuration file.

::

    [source]
    url = "mysql://repl@db1/"          # or path = "/backup/binlog.*"
    password_env = "REPL_PASSWORD"     # or password_file, or in the url
    tables = ["shop.*"]                # default: all
    exclude = ["shop.tmp_*"]
    start = "earliest"                 # latest, FILE:OFFSET, a GTID set, a time; of the first run

    [pipeline]
    output = "lake"                    # directory: change_log/ and checkpoint/ in it
    trigger = "available-now"          # or "continuous"
    interval = "5 seconds"             # between micro-batches, continuous only
    max_bytes_per_trigger = "64m"
    master = "local[*]"

    [spark]                            # Spark's own settings
    "spark.driver.memory" = "2g"

Relative paths are relative to the file's directory.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from replica_client.errors import ConfigError
from replica_client.spark.options import SourceOptions, nearest

DEFAULT_INTERVAL = "1 second"

# Key in [source] -> the source's option, and whether it is a path, a list or a plain value.
_SOURCE_KEYS = {
    "url": ("url", "text"),
    "path": ("path", "paths"),
    "password_env": ("passwordEnv", "text"),
    "password_file": ("passwordFile", "file"),
    "tables": ("tables", "list"),
    "exclude": ("exclude", "list"),
    "columns": ("columns", "list"),
    "start": ("startingPosition", "text"),
    "key_file": ("keyFile", "file"),
    "server_id_base": ("serverIdBase", "number"),
    "heartbeat_period": ("heartbeatPeriod", "number"),
    "poll_interval": ("pollInterval", "number"),
    "partition_size": ("partitionSize", "size"),
    "on_unknown_table": ("onUnknownTable", "text"),
}
_PIPELINE_KEYS = {
    "output": "file",
    "checkpoint": "file",
    "trigger": "text",
    "interval": "text",
    "max_bytes_per_trigger": "size",
    "max_rows_per_trigger": "number",
    "master": "text",
}
_SECTIONS = ("source", "pipeline", "spark")
_TRIGGERS = ("available-now", "continuous")
_INTERVAL = re.compile(r"\s*\d+(\.\d+)?\s*(milliseconds?|seconds?|minutes?|hours?)\s*")
_WANTED = {
    "text": "text in quotes",
    "file": "a path in quotes",
    "paths": "a path in quotes, or a list of them",
    "list": "a list of texts, or one text with commas",
    "number": "a number",
    "size": 'bytes as a number, or a text such as "64m"',
}


@dataclass(frozen=True)
class PipelineConfig:
    """What a pipeline reads, and where it writes.

    Attributes:
        file: the configuration file.
        source: options of the ``mysql-binlog`` source.
        output: directory of the change log.
        checkpoint: directory of Spark's checkpoint.
        trigger: once through what is there, or on and on.
        interval: between micro-batches of a continuous run.
        master: Spark's, or None.
        spark: Spark's own settings.
    """

    file: Path
    source: Mapping[str, str] = field(repr=False)
    output: Path
    checkpoint: Path
    trigger: Literal["available-now", "continuous"]
    interval: str
    master: str | None
    spark: Mapping[str, str]

    @property
    def change_log(self) -> Path:
        """Directory of the change log's table."""
        return self.output / "change_log"

    @property
    def origin(self) -> str:
        """The source, without secrets, for people."""
        options = SourceOptions.parse(self.source)
        if options.connect is not None:
            return f"{options.connect.user}@{options.connect.address}"
        return ", ".join(options.paths)


def load_config(path: str | os.PathLike[str]) -> PipelineConfig:
    """Read and check a configuration file.

    Raises:
        ConfigError: naming the file, the key and the nearest valid one.
        OSError: the file cannot be read.
    """
    file = Path(path)
    with file.open("rb") as stream:
        try:
            document = tomllib.load(stream)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file}: not TOML: {error}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file}: not TOML: not UTF-8 text") from None
    for name, section in document.items():
        if name not in _SECTIONS:
            raise ConfigError(f"{file}: no section is named [{name}]; {nearest(name, _SECTIONS)}")
        if not isinstance(section, dict):
            raise ConfigError(f"{file}: {name} is a section: write [{name}]")
    reader = _Reader(file)
    source = reader.source(document.get("source", {}))
    pipeline = reader.checked("pipeline", document.get("pipeline", {}), _PIPELINE_KEYS)
    trigger = pipeline.get("trigger", "available-now")
    if trigger not in _TRIGGERS:
        raise reader.wrong("pipeline", "trigger", f"{trigger!r}; {nearest(trigger, _TRIGGERS)}")
    interval = pipeline.get("interval", DEFAULT_INTERVAL)
    if not _INTERVAL.fullmatch(interval):
        raise reader.wrong("pipeline", "interval", f'{interval!r}; write it like "5 seconds"')
    if "output" not in pipeline:
        raise reader.wrong("pipeline", "output", "missing; give the directory to write to")
    for key, option in (
        ("max_bytes_per_trigger", "maxBytesPerTrigger"),
        ("max_rows_per_trigger", "maxRowsPerTrigger"),
    ):
        if key in pipeline:
            source[option] = pipeline[key]
    output = Path(pipeline["output"])
    config = PipelineConfig(
        file,
        source,
        output,
        Path(pipeline.get("checkpoint") or output / "checkpoint"),
        "continuous" if trigger == "continuous" else "available-now",
        interval,
        pipeline.get("master"),
        reader.spark(document.get("spark", {})),
    )
    try:
        SourceOptions.parse(source)
    except ConfigError as error:
        raise ConfigError(f"{file}: [source]: {error}") from None
    return config


class _Reader:
    def __init__(self, file: Path) -> None:
        self._file = file

    def wrong(self, section: str, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self._file}: [{section}] {key}: {what}")

    def checked(
        self, section: str, values: Mapping[str, Any], kinds: Mapping[str, str]
    ) -> dict[str, str]:
        known = tuple(kinds)
        out = {}
        for key, value in values.items():
            if key not in kinds:
                raise ConfigError(
                    f"{self._file}: [{section}] has no key {key!r}; {nearest(key, known)}"
                )
            text = self._text(value, kinds[key])
            if text is None:
                raise self.wrong(section, key, f"give {_WANTED[kinds[key]]}")
            out[key] = text
        return out

    def source(self, values: Mapping[str, Any]) -> dict[str, str]:
        kinds = {key: kind for key, (_, kind) in _SOURCE_KEYS.items()}
        given = self.checked("source", values, kinds)
        if ("url" in given) == ("path" in given):
            raise ConfigError(
                f"{self._file}: [source] needs one of the keys url (a live source) and path (files)"
            )
        # A pipeline that was never told otherwise takes everything that is there.
        return {
            "startingPosition": "earliest",
            **{_SOURCE_KEYS[key][0]: text for key, text in given.items()},
        }

    def spark(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {key: text for key, value in _flat(values) if (text := self._setting(key, value))}

    def _setting(self, key: str, value: Any) -> str:
        if not key.startswith("spark."):
            raise self.wrong(
                "spark", key, "Spark's settings begin with spark.; quote the whole key"
            )
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self.wrong("spark", key, "give a text, a number, true or false")
        return str(value)

    def _text(self, value: Any, kind: str) -> str | None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind in ("number", "size") and number:
            return str(value)
        if isinstance(value, list) and kind in ("list", "paths"):
            if not value or not all(isinstance(item, str) and item for item in value):
                return None
            parts = [self._path(item) for item in value] if kind == "paths" else value
            return ",".join(parts)
        if not isinstance(value, str) or not value or kind == "number":
            return None
        if kind == "paths":
            return ",".join(self._path(part.strip()) for part in value.split(","))
        return self._path(value) if kind == "file" else value

    def _path(self, text: str) -> str:
        path = Path(text).expanduser()
        return str(path if path.is_absolute() else self._file.absolute().parent / path)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """``spark.driver.memory = …`` without quotes is nested tables; both forms are one key."""
    out = []
    for key, value in values.items():
        if isinstance(value, dict):
            out += _flat(value, f"{prefix}{key}.")
        else:
            out.append((f"{prefix}{key}", value))
    return out
