"""Options of the ``mysql-binlog`` source.

=====================  ========================================================================
option                 meaning
=====================  ========================================================================
path                   binlog files: a file, a directory, a glob, or several with commas; also URLs
                       of object stores (``s3://``, ``s3a://``, ``gs://``, ``abfss://``)
url                    ``mysql://user@host:port/`` or ``mariadb://…``: a live source
password               of the URL's user; Spark hides options of this name in its UI
passwordEnv            name of an environment variable of the driver that holds it
passwordFile           file on the driver that holds it
tlsFingerprint         live: ``sha256:…`` of the server's certificate: TLS with it, or no connection
tables, exclude        patterns ``database.table`` with ``*`` and ``?``, with commas
table                  one ``database.table``: its own typed columns instead of the envelope
columns                names of the wanted columns, with commas, or a JSON list of them
startingPosition       ``earliest``, ``latest``, FILE:OFFSET, a GTID set or a time
endingPosition         batch only: ``latest``, FILE:OFFSET or a time: changes before it; a GTID
                       set: the changes of its transactions
asOf                   batch over files, with table: the table as it was at a moment instead of its changes:
                       FILE:OFFSET, a GTID, a GTID set, a time or ``latest``
copy                   with asOf: an earlier copy to go forward from, a Parquet or Arrow file; without it from where
                       a CREATE TABLE or TRUNCATE in the files left the table empty
copyAt                 with copy: its position; files that ``as-of`` wrote contain it
maxBytesPerTrigger     stream: binlog bytes per micro-batch, in whole transactions
maxRowsPerTrigger      stream: changed rows per micro-batch, in whole transactions
partitionSize          bytes of a binlog file that one partition reads, about; files that are together
                       smaller than a quarter of it are read by one. A live source of eight files or more is cut
                       by files alone
indexDirectory         where indexes of binlog files are kept between queries (a cache); default:
                       ``$REPLICA_CLIENT_CACHE``, else the user's cache directory
filterPushdown         batch: ``true``: conditions on ``database``, ``table``, ``_file`` and ``_commit_timestamp`` leave
                       out other rows before they are decoded or passed to Spark; needs Spark's setting
                       ``spark.sql.python.filterPushdown.enabled=true``
transform              JSON of a list of transforms, with the keys of ``[[source.transform]]`` and
                       ``connect(transform=…)`` but ``key``: applied to rows before Spark gets them
transformKeyFile       file on the driver that holds the key of ``hash`` and ``tokenise``
transformKeyEnv        name of an environment variable of the driver that holds it
json                   ``string``, or ``variant``: JSON columns, and before and after, as VARIANT
onSchemaChange         with table: ``error``, or ``evolve``: rows of other definitions are fitted
                       to the columns; new ones appear when the query is started again
keyFile                keys of encrypted binlog files
serverIdBase           live: our server ids are this number and the following ones
schemaFile             live: a schema history that knows the tables at the start (``replica-client schema
                       export`` writes one), for sources whose binlog lacks definitions
heartbeatPeriod        live: seconds of silence after which the source sends a heartbeat
pollInterval           stream: seconds between two looks for something new
recordLosses           kinds of losses, with commas, or ``all``: such a loss becomes a row
                       (``operation`` ``loss``) instead of an error; ``gtid_gap``: also what a live source
                       purged
lowerCaseTableNames    files: ``lower_case_table_names`` (0, 1 or 2) of the server that wrote them, which files
                       do not have; without it a statement on ``Orders`` leaves ``orders`` unproven
fullRows               ``true``: refuse row images that lack wanted columns
allowEmpty             ``true``: accept a pattern of ``tables`` that matches no table; otherwise it is an
                       error in a batch, and a warning at the start of a stream of a live source
onUnknownTable         ``error``, or ``positional`` (col_1, col_2 …): a table whose column names
                       neither the binlog nor a statement in it has
=====================  ========================================================================

``storage.NAME`` is an option of the object store of a path, such as ``storage.aws_endpoint_url``; other options
come from the environment of the driver and of the executors.

Sizes take k, m and g. Names are matched without regard to case. Defaults: files and batches start
at ``earliest``, a live stream at ``latest``; batches over files name columns by position where
their names are not known; all others stop with an error.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from replica_client.errors import ConfigError
from replica_client.lake.option_secrets import bytes_of_file, secret_of, transforms_of
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.encryption import read_keys
from replica_client.rows.selection import Selection, exact_pattern, split_patterns
from replica_client.storage.location import Location, ObjectUrl, location
from replica_client.storage.object_store import ObjectStore
from replica_client.storage.toml_file import size_of
from replica_client.stream.transactions.arguments import Start, parse_start
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD
from replica_client.stream.transport.url import parse_url

KNOWN_OPTIONS = (
    "path",
    "url",
    "password",
    "passwordEnv",
    "passwordFile",
    "tlsFingerprint",
    "tables",
    "exclude",
    "table",
    "columns",
    "startingPosition",
    "endingPosition",
    "asOf",
    "copy",
    "copyAt",
    "maxBytesPerTrigger",
    "maxRowsPerTrigger",
    "partitionSize",
    "indexDirectory",
    "filterPushdown",
    "transform",
    "transformKeyFile",
    "transformKeyEnv",
    "json",
    "onSchemaChange",
    "keyFile",
    "serverIdBase",
    "schemaFile",
    "heartbeatPeriod",
    "pollInterval",
    "recordLosses",
    "fullRows",
    "allowEmpty",
    "lowerCaseTableNames",
    "onUnknownTable",
)
DEFAULT_PARTITION_SIZE = 64 << 20
DEFAULT_POLL_INTERVAL = 0.2

_STORAGE = "storage."  # prefix of the names of an object store's options
_PATHS = "paths"  # Spark's option for load([...])
_LIVE_ONLY = (
    "password", "passwordEnv", "passwordFile", "tlsFingerprint", "serverIdBase", "schemaFile",
    "heartbeatPeriod",
)  # fmt: skip
_NOT_AS_OF = (
    "url", "startingPosition", "endingPosition", "maxBytesPerTrigger", "maxRowsPerTrigger", "recordLosses",
    "transform",
)  # fmt: skip
_MAX_SERVER_ID = (1 << 32) - 1


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
        full_rows: whether row images that lack wanted columns are refused.
        allow_empty: whether patterns of tables may match nothing.
        letter_case: ``lower_case_table_names`` of the server that wrote the files; None: not known.
        storage: options of an object store.
        losses: kinds of losses that become rows.
        transforms: transforms of rows, as JSON; ``""`` for none.
        evolves: whether a typed query fits rows of other definitions to its columns.
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
    partition_size: int = DEFAULT_PARTITION_SIZE
    index_directory: str | None = None
    variant: bool = False
    full_rows: bool = False
    allow_empty: bool = False
    letter_case: int | None = None
    losses: tuple[str, ...] = ()
    evolves: bool = False
    pushes_filters: bool = False
    server_id_base: int | None = None
    schema_file: str | None = None
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD
    poll_interval: float = DEFAULT_POLL_INTERVAL
    on_unknown_table: Literal["error", "positional"] | None = None
    decode: DecodeOptions = field(default_factory=DecodeOptions, repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transforms: str = field(default="", repr=False)

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
        self = cls(
            paths=paths,
            as_of=given.get("asOf"),
            copy=given.get("copy"),
            copy_at=given.get("copyAt"),
            storage=tuple(sorted(storage.items())),
            connect=_connect_options(given) if "url" in given else None,
            tables=_patterns(given.get("tables")),
            exclude=_patterns(given.get("exclude")),
            table=_table(given["table"]) if "table" in given else None,
            columns=_words(given.get("columns"), "columns"),
            max_bytes=_size(given, "maxBytesPerTrigger"),
            max_rows=_count(given, "maxRowsPerTrigger"),
            partition_size=_size(given, "partitionSize") or DEFAULT_PARTITION_SIZE,
            server_id_base=_count(given, "serverIdBase"),
            heartbeat_period=_seconds(given, "heartbeatPeriod", DEFAULT_HEARTBEAT_PERIOD),
            poll_interval=_seconds(given, "pollInterval", DEFAULT_POLL_INTERVAL),
            on_unknown_table=_policy(given.get("onUnknownTable")),
            index_directory=given.get("indexDirectory"),
            schema_file=given.get("schemaFile"),
            letter_case=_letter_case(given),
            full_rows=_one_of(given, "fullRows", "false", "true") == "true",
            allow_empty=_one_of(given, "allowEmpty", "false", "true") == "true",
            losses=_words(given.get("recordLosses")) or (),
            variant=_one_of(given, "json", "string", "variant") == "variant",
            pushes_filters=_one_of(given, "filterPushdown", "false", "true") == "true",
            evolves=_one_of(given, "onSchemaChange", "error", "evolve") == "evolve",
            transforms=transforms_of(given),
        )
        if self.server_id_base is not None and self.server_id_base > _MAX_SERVER_ID - 10_000:
            raise ConfigError(f"option serverIdBase is at most {_MAX_SERVER_ID - 10_000}")
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

    def assembly(self) -> AssemblyOptions:
        """Return the selection of tables and columns, and how transactions are assembled.

        Raises:
            ConfigError: a pattern is wrong.
        """
        tables: tuple[str, ...] | None = self.tables
        if self.table is not None:
            tables = (exact_pattern(*self.table),)
        return AssemblyOptions(
            Selection(tables, self.exclude, self.columns),
            on_unknown_table=self.on_unknown_table,
            full_rows=self.full_rows,
            record_losses=self.losses,
        )


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
    names = {name.lower(): name for name in (*KNOWN_OPTIONS, _PATHS)}
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
                f"mysql-binlog has no option {name!r}; {nearest(name, KNOWN_OPTIONS)}"
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
    return _words(given.get("path")) or ()


def _words(text: str | None, option: str = "") -> tuple[str, ...] | None:
    """Split a text at commas, or read a JSON list, for names that contain commas."""
    if text is None:
        return None
    if option and text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise ConfigError(
                f"option {option} {text!r}: give names with commas, or a JSON list of them"
            )
        return tuple(listed) or None
    return tuple(part.strip() for part in text.split(",") if part.strip()) or None


def _patterns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(split_patterns(text)) or None


def _policy(text: str | None) -> Literal["error", "positional"] | None:
    if text is None:
        return None
    if text == "error":
        return "error"
    if text == "positional":
        return "positional"
    raise ConfigError(f"option onUnknownTable {text!r}: give error or positional")


def _one_of(given: Mapping[str, str], name: str, default: str, other: str) -> str:
    text = given.get(name, default).strip().lower()
    if text not in (default, other):
        raise ConfigError(f"option {name} {given[name]!r}: give {default} or {other}")
    return text


def _letter_case(given: Mapping[str, str]) -> int | None:
    text = given.get("lowerCaseTableNames")
    if text is None:
        return None
    if text.strip() not in ("0", "1", "2"):
        raise ConfigError(f"option lowerCaseTableNames {text!r}: give 0, 1 or 2")
    if "url" in given:
        raise ConfigError(
            "option lowerCaseTableNames is for files (path); a live source reports it"
        )
    return int(text)


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


def _size(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    size = size_of(text)
    if not size:
        raise ConfigError(f"option {name} {text!r}: give bytes above 0, such as 64m")
    return size


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or not int(text):
        raise ConfigError(f"option {name} {text!r}: give a whole number above 0")
    return int(text)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ConfigError(f"option {name} {text!r}: give seconds above 0")
    return value


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


def _connect_options(given: Mapping[str, str]) -> ConnectOptions:
    connect = parse_url(given["url"])
    if "tlsFingerprint" in given:
        connect = replace(connect, tls=replace(connect.tls, fingerprint=given["tlsFingerprint"]))
    sources = [name for name in ("password", "passwordEnv", "passwordFile") if name in given]
    if len(sources) > 1:
        raise ConfigError(f"give one of the options {', '.join(sources)}")
    if not sources:
        return connect
    value = secret_of(given, "passwordEnv", "passwordFile")
    if value is None:
        value = given["password"]
    return replace(connect, password=value)
