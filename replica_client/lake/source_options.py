"""Options of the ``mysql-binlog`` source: those of :data:`~replica_client.options.OPTIONS` that are Spark's.

``storage.NAME`` is an option of the object store of a path, such as ``storage.aws_endpoint_url``; other options
come from the environment of the driver and of the executors.

Sizes take k, m and g. Names are matched without regard to case. Defaults: files and batches start
at ``earliest``, a live stream at ``latest``; batches over files name columns by position where
their names are not known; all others stop with an error.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from replica_client.errors import ConfigError
from replica_client.options import fields_of, options_on, split_names
from replica_client.protocol.binlog.encryption import read_keys
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.selection import Selection, exact_pattern, split_patterns
from replica_client.storage.location import Location, ObjectUrl, location
from replica_client.storage.object_store import ObjectStore
from replica_client.stream.position.losses import LossKind
from replica_client.stream.transactions.arguments import Start, parse_start
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import ConnectOptions, parse_url, with_options


def secret_of(given: Mapping[str, str], variable: str, file: str) -> str | None:
    """Read a secret from an environment variable or a file of the driver; None if none is named.

    Raises:
        ConfigError: both are named, or the named one does not exist.
    """
    if variable in given and file in given:
        raise ConfigError(f"give one of the options {variable}, {file}")
    if variable in given:
        secret = os.environ.get(given[variable])
        if secret is None:
            raise ConfigError(
                f"option {variable}: the driver has no environment variable {given[variable]}"
            )
        return secret
    if file in given:
        return bytes_of_file(given[file], file).decode("utf-8", "surrogateescape").rstrip("\r\n")
    return None


def bytes_of_file(path: str, option: str) -> bytes:
    """Read a file of the driver.

    Raises:
        ConfigError: the file cannot be read; the message names the option.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"option {option}: {path}: {error.strerror or error}") from None


def transforms_of(given: Mapping[str, str]) -> str:
    """Return the transforms with their key, as JSON.

    Raises:
        ConfigError: they are wrong, or cannot be combined with another option.
    """
    key = secret_of(given, "transformKeyEnv", "transformKeyFile")
    text = given.get("transform")
    if text is None:
        if key is not None:
            raise ConfigError("option transformKeyFile or transformKeyEnv is for transform")
        return ""
    # Transforms name columns and tables of the source; these options name the transformed ones.
    if wrong := [name for name in ("columns", "filterPushdown") if name in given]:
        raise ConfigError(f"option {wrong[0]} does not go with transform, which says what is given")
    try:
        tables = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option transform is a JSON list of objects: {error}") from None
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ConfigError("option transform is a JSON list of objects")
    if any("key" in one for one in tables):
        raise ConfigError(
            "option transform: key: Spark shows options to people; give transformKeyFile or transformKeyEnv"
        )
    if key is not None:
        tables = [{**one, "key": key} for one in tables]
    found = Transformer.of(tables)
    if found is not None and found.has_outbox:
        raise ConfigError("option transform: outbox makes messages for sinks; Spark gets rows")
    return json.dumps(tables) if tables else ""


_OPTIONS = options_on("spark")

_STORAGE = "storage."  # prefix of the names of an object store's options
_PATHS = "paths"  # Spark's option for load([...])
_LIVE_ONLY = (
    "password", "passwordEnv", "passwordFile", "tlsFingerprint", "serverIdBase", "schemaFile",
    "heartbeatPeriod",
)  # fmt: skip
_NOT_AS_OF = (
    "url", "startingPosition", "endingPosition", "maxBytesPerTrigger", "maxRowsPerTrigger", "recordLosses",
    "transform", "shape", "onTruncate",
)  # fmt: skip


@dataclass(frozen=True)
class SourceOptions:
    """The options, read and checked; can be sent to executors.

    Attributes:
        paths: files, directories and globs; empty for a live source.
        connect: connection of the live source; None for files.
        table: database and table of a typed query, or None.
        starting: where to start; None: the default of the kind of query.
        ending: where a batch stops, or None.
        as_of: the moment at which a table is read, or None: its changes are read.
        copy: an earlier copy of it, or None.
        copy_at: the position of the copy, or None.
        max_bytes: maximum bytes of a micro-batch, or None.
        max_rows: maximum rows of a micro-batch, or None.
        variant: whether JSON is VARIANT.
        allow_empty: whether patterns of tables may match nothing.
        letter_case: ``lower_case_table_names`` of the server that wrote the files; None: not known.
        storage: options of an object store.
        transforms: transforms of rows, as JSON; ``""`` for none.
        evolves: whether a typed query fits rows of other definitions to its columns.
        is_cdc: whether a typed query has one row per change, for Auto CDC and MERGE.
        reading: options of :class:`~replica_client.stream.transactions.assembler.AssemblyOptions`.
        following: options of :class:`~replica_client.stream.live.stream_options.StreamOptions`.
        others: see the options of the same names.
    """

    paths: tuple[str, ...] = ()
    connect: ConnectOptions | None = None
    tables: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    table: tuple[str, str] | None = None
    columns: tuple[str, ...] | None = None
    starting: Start | None = None
    ending: Start | None = None
    as_of: str | None = None
    copy: str | None = None
    copy_at: str | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    partition_size: int = 64 << 20
    index_directory: str | None = None
    variant: bool = False
    allow_empty: bool = False
    letter_case: int | None = None
    evolves: bool = False
    is_cdc: bool = False
    on_truncate: str = "error"
    pushes_filters: bool = False
    server_id_base: int | None = None
    schema_file: str | None = None
    poll_interval: float = 0.2
    decode: DecodeOptions = field(default_factory=DecodeOptions, repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transforms: str = field(default="", repr=False)
    reading: Mapping[str, Any] = field(default_factory=dict)
    following: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the user's options.

        Raises:
            ConfigError: an option is unknown, wrong, or missing; the message names it.
        """
        storage, given = _known(options)
        paths = _paths(given)
        if bool(paths) == ("url" in given):
            raise ConfigError(
                "give one of the options path (binlog files) and url (a live source)"
                + (", not both" if paths else "")
            )
        if paths and (wrong := [name for name in _LIVE_ONLY if name in given]):
            raise ConfigError(f"option {wrong[0]} is for a live source (url), not for files (path)")
        if "table" in given and ("tables" in given or "exclude" in given):
            raise ConfigError(
                "give either table (one table, typed columns) or tables and exclude (any, as JSON)"
            )
        _check_as_of(given)
        _check_cdc(given)
        values = {
            option.name: option.read(given[name], "spark")
            for name, option in _OPTIONS.items()
            if name in given
        }
        following = fields_of(values, "stream")
        self = cls(
            paths=paths,
            storage=tuple(sorted(storage.items())),
            connect=_connect_options(given, values) if "url" in given else None,
            tables=_patterns(given.get("tables")),
            exclude=_patterns(given.get("exclude")),
            table=_table(given["table"]) if "table" in given else None,
            columns=values.get("columns") or None,
            allow_empty=following.pop("allow_empty", False),
            schema_file=following.pop("schema", None),
            letter_case=values.get("lower_case_table_names"),
            variant=values.get("json") == "variant",
            evolves=values.get("on_schema_change") == "evolve",
            is_cdc=values.get("shape") == "cdc",
            transforms=transforms_of(given),
            decode=DecodeOptions(**fields_of(values, "decode")),
            reading=fields_of(values, "assembly"),
            following=following,
            **fields_of(values, "spark"),
        )
        if "url" in given and self.letter_case is not None:
            raise ConfigError(
                "option lowerCaseTableNames is for files (path); a live source reports it"
            )
        if "startingPosition" in given:
            starting = parse_start(given["startingPosition"], "earliest", "option startingPosition")
            self = replace(self, starting=starting)
        if "endingPosition" in given:
            self = replace(self, ending=_ending(given["endingPosition"]))
        if "keyFile" in given:
            keys = read_keys(bytes_of_file(given["keyFile"], "keyFile"))
            self = replace(self, decode=replace(self.decode, keys=keys))
        self.assembly()
        if any(isinstance(where, ObjectUrl) for where in self.locations):
            ObjectStore(next(where for where in self.locations if isinstance(where, ObjectUrl)))
        elif storage:
            raise ConfigError(
                f"option {_STORAGE}{min(storage)} is for an object store, and no path is the URL of one"
            )
        return self

    @property
    def transformer(self) -> Transformer | None:
        """A new transformer of rows, or None.

        Each range needs its own transformer, because it remembers tables.
        """
        return Transformer.of(json.loads(self.transforms)) if self.transforms else None

    @property
    def locations(self) -> tuple[Location, ...]:
        """The locations of the files, directories and globs.

        Raises:
            ConfigError: a URL is not of an object store.
        """
        return tuple(location(path, dict(self.storage)) for path in self.paths)

    @property
    def live(self) -> bool:
        """Whether the source is live."""
        return self.connect is not None

    @property
    def passes_gaps(self) -> bool:
        """Whether a query continues after changes that a live source purged."""
        return "gtid_gap" in self.assembly().record_losses

    def recording(self, kind: LossKind) -> SourceOptions:
        """Return these options with one more kind of loss on record."""
        kinds = {*self.assembly().record_losses, kind}
        return replace(self, reading={**self.reading, "record_losses": kinds})

    def assembly(self) -> AssemblyOptions:
        """Return the selection of tables and columns, and how transactions are assembled.

        Raises:
            ConfigError: a pattern is wrong.
        """
        tables: tuple[str, ...] | None = self.tables
        if self.table is not None:
            tables = (exact_pattern(*self.table),)
        return AssemblyOptions(Selection(tables, self.exclude, self.columns), **self.reading)


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return a hint for an error message: the most similar known name, or all known names."""
    lowered = {option.lower(): option for option in known}
    found = difflib.get_close_matches(name.lower(), list(lowered), 1, 0.5)
    if found:
        return f"did you mean {lowered[found[0]]}?"
    return f"known are {', '.join(known)}"


def _known(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of an object store, and all others by their known names.

    Raises:
        ConfigError: an option is unknown.
    """
    names = {name.lower(): name for name in (*_OPTIONS, _PATHS)}
    given, storage = {}, {}
    if any(name.lower() == "owner" or name.lower().startswith("option.") for name in options):
        # Spark 4.3 does not pass these to a Python source when the table is read.
        raise ConfigError(
            "CREATE TABLE: Spark does not give a table's options to a Python data source; "
            "write CREATE TEMPORARY VIEW … USING `mysql-binlog` OPTIONS (…)"
        )
    for name, value in options.items():
        if name.lower().startswith(_STORAGE):
            storage[name.lower().removeprefix(_STORAGE)] = value
            continue
        known = names.get(name.lower())
        if known is None:
            raise ConfigError(
                f"mysql-binlog has no option {name!r}; {nearest(name, tuple(_OPTIONS))}"
            )
        given[known] = value
    return storage, given


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    several = given.get(_PATHS)
    if several is not None:
        try:
            return tuple(str(path) for path in json.loads(several))
        except ValueError:
            raise ConfigError("option paths is a JSON list of paths") from None
    return split_names(given.get("path", ""))


def _patterns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(split_patterns(text)) or None


def _table(text: str) -> tuple[str, str]:
    database, dot, table = text.replace("`", "").partition(".")
    if not (database and dot and table) or "*" in text or "," in text:
        raise ConfigError(
            f"option table {text!r}: give one database.table; tables takes patterns and lists"
        )
    return database, table


def _ending(text: str) -> Start | None:
    end = parse_start(text, "latest", "option endingPosition")
    if end == "latest":
        return None
    if end == "earliest":
        raise ConfigError(
            f"option endingPosition {text!r}: give latest, FILE:OFFSET, a time or a GTID set"
        )
    return end


def _check_as_of(given: Mapping[str, str]) -> None:
    """Raise an error if an option cannot be combined with ``asOf``."""
    if "asOf" not in given:
        if wrong := [name for name in ("copy", "copyAt") if name in given]:
            raise ConfigError(f"option {wrong[0]} is for a table as it was (asOf)")
        return
    if wrong := [name for name in _NOT_AS_OF if name in given]:
        raise ConfigError(f"option {wrong[0]} is for changes, not for a table as it was (asOf)")
    if "table" not in given:
        raise ConfigError("asOf is of one table: name it with the option table")
    if "copyAt" in given and "copy" not in given:
        raise ConfigError("option copyAt says what the option copy is of; give that")


def _check_cdc(given: Mapping[str, str]) -> None:
    """Raise an error if an option cannot be combined with ``shape=cdc``, or is for it alone."""
    if given.get("shape") != "cdc":
        if "onTruncate" in given:
            raise ConfigError("option onTruncate is for shape=cdc")
        return
    if "table" not in given:
        raise ConfigError("option shape=cdc is of one table: name it with the option table")
    if "recordLosses" in given:
        raise ConfigError(
            "option recordLosses does not go with shape=cdc: a loss is no row of the table"
        )


def _connect_options(given: Mapping[str, str], values: Mapping[str, Any]) -> ConnectOptions:
    sources = [name for name in ("password", "passwordEnv", "passwordFile") if name in given]
    if len(sources) > 1:
        raise ConfigError(f"give one of the options {', '.join(sources)}")
    secret = secret_of(given, "passwordEnv", "passwordFile")
    if secret is not None:
        values = {**values, "password": secret}
    return with_options(parse_url(given["url"]), values)
