"""The pipeline's configuration file.

::

    [source]
    url = "mysql://repl@db1/"          # or path = "/backup/binlog.*"
    password_env = "REPL_PASSWORD"     # or password_file, or in the url
    tls_fingerprint = "sha256:…"       # of the server's certificate: TLS with it, or no connection
    tables = ["shop.*"]                # default: all
    exclude = ["shop.tmp_*"]
    start = "snapshot"                 # copy, then follow; or earliest (default), latest, a position, GTIDs, a time
    record_losses = ["gtid_gap"]       # after purged changes the tables are copied again; default: the run fails

    [pipeline]
    output = "lake"                    # directory: change_log/, tables/ and checkpoint/ in it; or s3://…
    checkpoint = "state"               # another directory or URL; default: checkpoint/ in output
    trigger = "available-now"          # or "continuous"
    interval = "5 seconds"             # least time between batches, continuous only
    max_bytes_per_trigger = "128m"     # of a batch
    format = "iceberg"                 # the tables in an Iceberg catalogue, too; default: delta
    catalog = {type = "sql", uri = "sqlite:////var/lib/lake/catalog.db"}  # as pyiceberg's load_catalog takes it
    engine = "auto"                    # Spark only where it is cheaper; or "local", "spark"
    local_below = "64m"                # bytes of binlog that auto reads without Spark
    listen = "127.0.0.1:9191"          # /metrics, /healthz, /readyz and /status.json; default: nowhere
    hosts = ["lake.example.com"]       # public names of that address, for a proxy; default: none
    master = "local[*]"                # or spark://host:7077, sc://host:15002 (Spark Connect)

    [lake]
    current = true                     # keep current-state tables; false: the change log only
    chunk_rows = 200000                # rows of a copy's chunk
    locking = "never"                  # or "brief": a copy begins under a global read lock
    distribute_above = "4m"            # bytes to merge above which executors do it, not the driver
    retain = "7 days"                  # how long applied changes stay in the change log; default: forever
    history = ["shop.orders"]          # versions of rows (SCD 2) of these tables; true: of all; default: none
    soft_deletes = false               # true, or tables: deleted rows stay, with _deleted = true
    merge = "always"                   # when changes are merged; or "10 minutes", "256m", "adaptive"
    report = "report.html"             # written at the end of a run, in the output directory; or s3://…

    [lake.tables."shop.orders"]
    merge = "adaptive"                 # of one table

    [storage]                          # of the object store; secrets come from the environment
    aws_endpoint_url = "https://…"

    [spark]                            # Spark's own settings
    "spark.driver.memory" = "2g"

Relative paths are relative to the file's directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from replica_client.errors import ConfigError, install_command
from replica_client.lake.source_options import SourceOptions, nearest
from replica_client.lake.unmerged import ALWAYS, MergePolicy
from replica_client.options import (
    COUNT,
    FILE,
    FLAG,
    OPTIONS,
    PATHS,
    PATTERNS,
    SIZE,
    SURFACES,
    TEXT,
    Kind,
    Option,
    choice,
    declare,
    options_on,
)
from replica_client.rows.selection import Selection
from replica_client.storage.location import Location, ObjectUrl, is_url, local_path, location
from replica_client.storage.toml_file import TomlFile
from replica_client.stream.position.losses import loss_kinds
from replica_client.stream.snapshot import Locking
from replica_client.stream.transport.connect_options import listen_address

CHANGE_LOG = "change_log"
"""Directory of the change log in the output."""

DEFAULT_TRIGGER_SIZE = "128m"
DEFAULT_DISTRIBUTE_ABOVE = 4 << 20
DEFAULT_LOCAL_BELOW = 64 << 20
Engine = Literal["auto", "local", "spark"]
_CHUNK_ROWS = 200_000
_SECTIONS = ("source", "pipeline", "lake", "storage", "spark")
_INTERVAL = re.compile(r"\s*\d+(\.\d+)?\s+(milliseconds?|seconds?|minutes?|hours?)\s*")
_INTERVALS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}
_RETAIN = re.compile(r"\s*(\d+)\s*(hour|day|week)s?\s*")
_SECONDS = {"hour": 3600, "day": 86400, "week": 7 * 86400}
_PLACE = FILE._replace(words="a directory or a URL in quotes")
_WHERE = TEXT._replace(words="a file name or a URL in quotes")
_TABLES = PATTERNS._replace(
    words='true, false, or a list of tables such as "shop.orders"',
    fits=lambda value: (
        isinstance(value, bool) or (isinstance(value, list) and PATTERNS.fits(value))
    ),
)


def _section(**kinds: Kind) -> Mapping[str, Option]:
    """Return the keys of a section."""
    family = dict.fromkeys(SURFACES, "")
    return {name: declare(name, kind, "", family=family) for name, kind in kinds.items()}


PIPELINE_KEYS: Final = _section(
    output=_PLACE,
    checkpoint=_PLACE,
    trigger=choice("available-now", "continuous"),
    format=choice("delta", "iceberg"),
    catalog=Kind(
        'a table such as {{type = "rest", uri = "https://catalog.example.com"}}',
        lambda value: (
            isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
        ),
        is_secret=True,
    ),
    engine=choice("auto", "local", "spark"),
    local_below=SIZE,
    interval=Kind(
        'a time such as "5 seconds"',
        lambda value: bool(_INTERVAL.fullmatch(str(value))),
    ),
    max_bytes_per_trigger=SIZE,
    max_rows_per_trigger=COUNT,
    master=TEXT,
    listen=TEXT,
    hosts=PATTERNS._replace(words="a list of host names"),
)
LAKE_KEYS: Final = _section(
    current=FLAG,
    chunk_rows=COUNT,
    locking=choice("never", "brief"),
    distribute_above=SIZE,
    report=_WHERE,
    retain=Kind(
        'a time such as "12 hours" or "7 days"',
        lambda value: bool(_RETAIN.fullmatch(str(value))),
    ),
    history=_TABLES,
    soft_deletes=_TABLES,
    merge=TEXT,
)
SOURCE_KEYS: Final[Mapping[str, Option]] = options_on("pipeline")


@dataclass(frozen=True)
class LakeConfig:
    """The settings of the current-state tables.

    Attributes:
        current: whether they are kept.
        copies: whether tables are copied when the binlog does not have all of their rows.
        chunk_rows: approximate number of rows of a copy's chunk.
        locking: see :data:`~replica_client.stream.snapshot.Locking`.
        distribute_above: bytes of files to rewrite above which executors do it.
        report: name of the report in the output directory, or URL of an object; ``""`` for none.
        retain: seconds after which changes are removed from the change log; None: never.
        history: patterns of the tables whose versions are kept.
        soft_deletes: patterns of the tables in which deleted rows stay, marked.
        merge: when changes are merged into the current tables.
        merge_of: policies of single tables, by their names.
    """

    current: bool = True
    copies: bool = False
    chunk_rows: int = _CHUNK_ROWS
    locking: Locking = "never"
    distribute_above: int = DEFAULT_DISTRIBUTE_ABOVE
    report: str = "report.html"
    retain: float | None = None
    history: tuple[str, ...] = ()
    merge: MergePolicy = ALWAYS
    merge_of: Mapping[str, MergePolicy] = field(default_factory=dict)
    soft_deletes: tuple[str, ...] = ()

    def merge_policy(self, table: tuple[str, str]) -> MergePolicy:
        """Return the policy for merging changes of a table."""
        return self.merge_of.get(".".join(table), self.merge)


@dataclass(frozen=True)
class PipelineConfig:
    """The input, the output and the settings of a pipeline.

    Attributes:
        file: the configuration file.
        source: options of the ``mysql-binlog`` source.
        output: directory of the lake, on this machine or in an object store.
        checkpoint: directory of the checkpoint, on this machine or in an object store.
        trigger: read the available changes once, or run continuously.
        interval: least seconds between two batches of a continuous run.
        master: Spark's master, or None.
        spark: Spark's own settings.
        listen: address and port of its pages over HTTP; ``""`` for none.
        hosts: public host names by which the pages may be called.
        engine: ``local``: all work in this process; ``spark``: on Spark's executors; ``auto``: by its size.
        local_below: bytes of binlog up to which ``auto`` reads in this process.
        lake: settings of the current-state tables.
        format: ``iceberg``: the current tables are in an Iceberg catalogue, too; ``delta``: they are not.
        catalog: properties of that catalogue, as pyiceberg's ``load_catalog`` takes them.
    """

    file: Path
    source: Mapping[str, str] = field(repr=False)
    output: Location
    checkpoint: Location
    trigger: Literal["available-now", "continuous"]
    interval: float
    master: str | None = field(repr=False)  # a Spark Connect server's may hold a token
    spark: Mapping[str, str]
    lake: LakeConfig = LakeConfig()
    listen: str = ""
    hosts: Sequence[str] = ()
    engine: Engine = "auto"
    local_below: int = DEFAULT_LOCAL_BELOW
    format: Literal["delta", "iceberg"] = "delta"
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a token

    @property
    def change_log(self) -> Location:
        """Directory of the change log's table."""
        return self.output / CHANGE_LOG

    @property
    def origin(self) -> str:
        """The source without secrets, to show to people."""
        options = SourceOptions.parse(self.source)
        if options.connect is not None:
            return f"{options.connect.user}@{options.connect.address}"
        return ", ".join(options.paths)


def load_config(path: str | os.PathLike[str]) -> PipelineConfig:
    """Read and check a configuration file.

    Raises:
        ConfigError: the message names the file, the key and the nearest valid one.
        OSError: the file cannot be read.
    """
    toml = TomlFile(path)
    file, document = toml.path, toml.document
    for name, section in document.items():
        where = toml.where((name,))
        if name not in _SECTIONS:
            raise ConfigError(f"{where}: no section is named [{name}]; {nearest(name, _SECTIONS)}")
        if not isinstance(section, dict):
            raise ConfigError(f"{where}: {name} is a section: write [{name}]")
    reader = _Reader(toml)
    source = reader.source(document.get("source", {}))
    stored = reader.storage(document.get("storage", {}))
    pipeline = reader.checked("pipeline", document.get("pipeline", {}), PIPELINE_KEYS)
    if "output" not in pipeline:
        raise reader.wrong("pipeline", "output", "missing; give the directory to write to")
    for key in ("max_bytes_per_trigger", "max_rows_per_trigger"):
        if key in pipeline:
            source[OPTIONS[key].surfaces["spark"]] = str(pipeline[key])
    output = location(pipeline["output"], stored)
    # Without a URL among the source's paths, the options are for the output only.
    paths = source.get("path", "").split(",")
    if any(map(is_url, paths)) or not isinstance(output, ObjectUrl):
        source |= {f"storage.{name}": value for name, value in stored.items()}
    checkpoint = output / "checkpoint"
    if "checkpoint" in pipeline:
        checkpoint = location(pipeline["checkpoint"], stored)
    lake = reader.lake(document.get("lake", {}), source)
    if lake.current:
        source.setdefault("maxBytesPerTrigger", DEFAULT_TRIGGER_SIZE)
        # A table whose names are not known leaves the lake, or is copied again; the others go on.
        # So it is with rows that cannot be decoded: ChangeStream looks for them when a batch fails.
        losses = loss_kinds(source.get("recordLosses", "")) | {"unknown_table"}
        source["recordLosses"] = ",".join(sorted(losses))
    config = PipelineConfig(
        file,
        source,
        output,
        checkpoint,
        pipeline.get("trigger", "available-now"),
        _seconds(pipeline.get("interval", "1 second")),
        pipeline.get("master"),
        reader.spark(document.get("spark", {})),
        lake,
        reader.listen(pipeline.get("listen", "")),
        tuple(pipeline.get("hosts", ())),
        pipeline.get("engine", "auto"),
        pipeline.get("local_below", DEFAULT_LOCAL_BELOW),
        pipeline.get("format", "delta"),
        reader.iceberg(pipeline, output, lake),
    )
    try:
        if SourceOptions.parse(source).transforms:
            raise ConfigError("transform is for the data source; a lake is equal to its source")
    except ConfigError as error:
        raise ConfigError(f"{toml.where(('source',))}: [source]: {error}") from None
    return config


def _seconds(interval: str) -> float:
    """Return a time such as "500 milliseconds" in seconds."""
    number, unit = interval.split()
    return float(number) * _INTERVALS[unit.removesuffix("s")]


class _Reader:
    def __init__(self, toml: TomlFile) -> None:
        self._toml = toml

    def wrong(self, section: str, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self._toml.where((section, key))}: [{section}] {key}: {what}")

    def checked(
        self, section: str, values: Mapping[str, Any], known: Mapping[str, Option]
    ) -> dict[str, Any]:
        """Return the values of a section's keys; paths and URLs are absolute."""
        given = {}
        for key, value in values.items():
            if key not in known:
                raise ConfigError(
                    f"{self._toml.where((section, key))}: [{section}] has no key {key!r}; {nearest(key, tuple(known))}"
                )
            try:
                given[key] = self._value(value, known[key])
            except ConfigError as error:
                raise self.wrong(section, key, str(error).removeprefix("a path: ")) from None
        return given

    def _value(self, value: Any, option: Option) -> Any:
        kind = option.kind
        if value in ("", []):
            raise ConfigError(f"{value!r}: give {option.said(kind.words, 'pipeline')}")
        value = option.read(value, "pipeline")
        if kind is _WHERE:
            location(value)
        if kind is PATHS:
            parts = value.split(",") if isinstance(value, str) else value
            return [self._source_path(part.strip()) for part in parts]
        if kind is _PLACE:
            return self._source_path(value)
        return self._path(value) if kind.is_path else value

    def source(self, values: Mapping[str, Any]) -> dict[str, str]:
        given = self.checked("source", values, SOURCE_KEYS)
        if ("url" in given) == ("path" in given):
            raise ConfigError(
                f"{self._toml.where(('source',))}: [source] needs one of the keys url (a live source) and path (files)"
            )
        # Without a configured start, a pipeline reads everything that is available.
        texts = {
            option.surfaces["spark"]: option.kind.write(given[key])
            for key, option in SOURCE_KEYS.items()
            if key in given
        }
        return {"startingPosition": "earliest", **texts}

    def iceberg(
        self, given: Mapping[str, Any], output: Location, lake: LakeConfig
    ) -> Mapping[str, str]:
        """Return the properties of the Iceberg catalogue; empty for none."""
        catalog: Mapping[str, str] = given.get("catalog", {})
        if given.get("format", "delta") == "delta":
            if catalog:
                raise self.wrong("pipeline", "catalog", 'it is for format = "iceberg"')
            return {}
        if not catalog:
            raise self.wrong("pipeline", "format", "iceberg needs a catalog, too")
        if isinstance(output, ObjectUrl):
            raise self.wrong("pipeline", "format", "iceberg needs an output on this machine")
        if not lake.current:
            raise self.wrong("pipeline", "format", "iceberg needs current tables")
        if find_spec("pyiceberg") is None:
            raise self.wrong(
                "pipeline", "format", f"iceberg needs pyiceberg: {install_command('iceberg')}"
            )
        return catalog

    def listen(self, given: str) -> str:
        """Check and return the address of the pages."""
        try:
            if given:
                listen_address(given)
        except ConfigError as error:
            raise self.wrong("pipeline", "listen", str(error).removeprefix("listen: ")) from None
        return given

    def lake(self, values: Mapping[str, Any], source: dict[str, str]) -> LakeConfig:
        """Read the section [lake]; replace the start "snapshot" in the source's options."""
        of_tables = values.get("tables", {})
        values = {key: value for key, value in values.items() if key != "tables"}
        given = self.checked("lake", values, LAKE_KEYS)
        copies = source.get("startingPosition") == "snapshot"
        if copies:
            source["startingPosition"] = "latest"
        current = given.pop("current", "columns" not in source)
        if current and "columns" in source:
            raise self.wrong("lake", "current", "current tables need all columns")
        if copies and not (current and "url" in source):
            raise self.wrong(
                "source", "start", '"snapshot" needs a live source (url) and current tables'
            )
        for key in ("history", "soft_deletes"):
            given[key] = self._patterns(key, given.get(key, False), current)
        if "retain" in given:
            count, unit = _RETAIN.fullmatch(given["retain"]).groups()  # type: ignore[union-attr]
            given["retain"] = float(count) * _SECONDS[unit]
        given["merge"] = self._merge("lake", given.get("merge", "always"))
        return LakeConfig(
            current=current, copies=copies, merge_of=self._of_tables(of_tables), **given
        )

    def _merge(self, section: str, given: str) -> MergePolicy:
        try:
            return MergePolicy.parse(given)
        except ConfigError as error:
            raise self.wrong(section, "merge", str(error)) from None

    def _of_tables(self, given: Any) -> dict[str, MergePolicy]:
        """Read the sections ``[lake.tables."shop.orders"]``."""
        if not isinstance(given, dict) or not all(isinstance(v, dict) for v in given.values()):
            raise self.wrong("lake", "tables", 'write sections such as [lake.tables."shop.orders"]')
        found = {}
        for table, values in given.items():
            section = f'lake.tables."{table}"'
            if "." not in table:
                raise self.wrong(section, "merge", "the name has no dot; write database.table")
            if "merge" in (keys := self.checked(section, values, _section(merge=TEXT))):
                found[table] = self._merge(section, keys["merge"])
        return found

    def _patterns(self, key: str, given: bool | list[str], current: bool) -> tuple[str, ...]:
        patterns = (("*.*",) if given else ()) if isinstance(given, bool) else tuple(given)
        try:
            Selection(list(patterns))
        except ConfigError as error:
            raise self.wrong("lake", key, str(error)) from None
        if patterns and not current:
            raise self.wrong("lake", key, "needs current tables")
        return patterns

    def storage(self, values: Mapping[str, Any]) -> dict[str, str]:
        for key, value in values.items():
            if not isinstance(value, str | int | bool):
                raise self.wrong("storage", key, "give a text, a number, true or false")
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in values.items()
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

    def _path(self, text: str) -> str:
        """Return the absolute path of a file or directory on this machine.

        Raises:
            ConfigError: it is a URL.
        """
        path = local_path(text, "a path").expanduser()
        return str(path if path.is_absolute() else self._toml.path.absolute().parent / path)

    def _source_path(self, text: str) -> str:
        """Return the location of binlog files, on this machine or in an object store."""
        found = location(text)
        return str(found) if isinstance(found, ObjectUrl) else self._path(text)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested tables as dotted keys.

    ``spark.driver.memory = …`` without quotes makes nested tables in TOML; with quotes it is one
    key.
    """
    out = []
    for key, value in values.items():
        if isinstance(value, dict):
            out += _flat(value, f"{prefix}{key}.")
        else:
            out.append((f"{prefix}{key}", value))
    return out
