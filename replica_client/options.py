"""The declared options: name, type, help, and the surfaces on which each appears.

One row of :data:`OPTIONS` is a keyword of :func:`~replica_client.connect`, a parameter of a source's URL, a flag of
the command line, a key of a configuration file and an option of the Spark source. Each surface reads its options from
this table, so that a wrong value has one message and the reference one page. An option that is missing from a surface
states the reason.
"""

# Over 500 lines: one table.

from __future__ import annotations

import inspect
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeVar, get_args

from replica_client.errors import USER_BOUNDARY, ConfigError, without_secrets

_P = ParamSpec("_P")
_T = TypeVar("_T")

Surface = Literal["keyword", "url", "flag", "service", "relay", "pipeline", "spark"]
"""An interface through which options are given; the last but Spark's are configuration files."""

SURFACES: Final[tuple[Surface, ...]] = get_args(Surface)
MAX_SECONDS: Final = 100_000_000
"""More than three years: what is longer is a mistake of the unit."""

_PREFIXES: Final[Mapping[Surface, str]] = {
    "keyword": "{}=",
    "url": "option {} in the URL: ",
    "flag": "{}: ",
    "spark": "option {} ",
}
_TRUTH: Final = dict.fromkeys(("1", "true", "yes"), True) | dict.fromkeys(
    ("0", "false", "no"), False
)
_SIZE: Final = re.compile(r"([0-9]+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size_of(text: str) -> int | None:
    """Parse a number with an optional k, m or g (steps of 1024) into bytes; return None if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) * _FACTORS[match[2].lower()] if match else None


class Kind(NamedTuple):
    """A type of options.

    Attributes:
        words: description of a value for messages, after "give".
        fits: test of a value of Python or TOML.
        read: conversion of text; the result must fit. ValueError or KeyError: it cannot be converted.
        write: text of a value, as Spark's options take it.
        type: annotation of a flag's parameter.
        metavar: placeholder of a flag's value.
        is_path: whether a relative path in a configuration file begins in the file's directory.
        is_secret: whether messages hide the value.
    """

    words: str
    fits: Callable[[Any], bool]
    read: Callable[[str], object] = str
    write: Callable[[Any], str] = str
    type: Any = str
    metavar: str | None = None
    is_path: bool = False
    is_secret: bool = False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _number(words: str, fits: Callable[[float], bool], type: Callable[[str], float]) -> Kind:
    def is_number(value: object) -> bool:
        is_real = isinstance(value, int if type is int else (int, float))
        return is_real and not isinstance(value, bool) and math.isfinite(value) and fits(value)  # type: ignore[arg-type]

    return Kind(words, is_number, type, type=type, metavar="N")


def _is_names(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, (str, bytes, Mapping))
        and all(isinstance(name, str) for name in value)
    )


def _is_columns(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _is_names(names) for name, names in value.items())
    return _is_names(value)


def _is_kinds(value: object) -> bool:
    return isinstance(value, str) or (
        hasattr(value, "__iter__")
        and not isinstance(value, (bytes, Mapping))
        and all(isinstance(kind, str) for kind in value)
    )


def _is_keys(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(key, bytes) for name, key in value.items()
    )


def split_names(text: str) -> tuple[str, ...]:
    """Split a text at commas, or read a JSON list, for names that contain commas."""
    if not text.lstrip().startswith("["):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    listed = json.loads(text)
    if not _is_names(listed):
        raise ValueError(text)
    return tuple(listed)


def _joined(value: str | Collection[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def choice(*values: str, read: Callable[[str], str] = str.lower) -> Kind:
    """Return the type of an option with a few values."""
    *others, last = (f'"{value}"' for value in values)
    return Kind(
        f"{', '.join(others)} or {last}",
        lambda value: isinstance(value, str) and value in values,
        read,
        type=Literal[values],
        metavar="HOW",
    )


FLAG: Final = Kind(
    "{true} or {false}",
    lambda value: isinstance(value, bool),
    lambda text: _TRUTH[text.strip().lower()],
    lambda value: str(value).lower(),
    bool,
)
TEXT: Final = Kind("text", _is_text)
SECRET: Final = TEXT._replace(is_secret=True)
FILE: Final = Kind("the path of a file", _is_path, is_path=True, metavar="FILE")
SECONDS: Final = _number("seconds, 0 or more", lambda value: 0 <= value <= MAX_SECONDS, float)
PERIOD: Final = _number("seconds, more than 0", lambda value: 0 < value <= MAX_SECONDS, float)
COUNT: Final = _number("a whole number, at least 1", lambda value: value >= 1, int)
SIZE: Final = Kind(
    'bytes, or a text such as "64m"',
    lambda value: bool(size_of(value)) if isinstance(value, str) else COUNT.fits(value),
)
PATTERNS: Final = Kind(
    'a pattern such as "shop.*", or a list of them',
    lambda value: isinstance(value, str) or _is_names(value),
    write=_joined,
    type=list[str],
    metavar="PATTERN",
)
PATHS: Final = PATTERNS._replace(words="a path in quotes, or a list of them")
COLUMNS: Final = Kind(
    'a list of names, or {{"shop.orders": ["id", "total"]}}',
    _is_columns,
    split_names,
    lambda value: json.dumps(list(value)),
)
KINDS: Final = Kind(
    'a list of kinds such as ["statement"], or "all"',
    _is_kinds,
    write=_joined,
    type=list[str],
    metavar="KIND",
)
_ANY: Final = Kind("a value", lambda value: True)
_TRIES: Final = _number("a number of tries, or {none} for no end", lambda value: True, int)
_PACKET: Final = _number("bytes, at least 1 MiB", lambda value: value >= 1 << 20, int)
_TLS_WORDS: Final = {
    "true": "required",
    "false": "disabled",
    "verify_ca": "verify-ca",
    "verify_identity": "verify-identity",
}


def _refused(before: str, shown: str, wanted: str) -> ConfigError:
    shown = without_secrets(shown)
    return ConfigError(f"{before}{shown if len(shown) <= 60 else f'{shown[:57]}…'}: give {wanted}")


class Option(NamedTuple):
    """A declared option.

    Attributes:
        name: its name in Python.
        kind: the type of its values.
        help: meaning, a sentence or two; ``{none}`` stands for the value that chooses the default.
        surfaces: its name on each surface that has it.
        without: why another surface does not have it.
        target: the object that has it as a field: ``connect``, ``tls``, ``stream``, ``selection``, ``assembly``,
            ``decode``; ``""``: the surface uses it.
        field: the name of the field.
        default: the value that applies when it is not given; None: as ``help`` says.
        unset: the value that means "not given" in the files of services.
    """

    name: str
    kind: Kind
    help: str
    surfaces: Mapping[Surface, str]
    without: Mapping[Surface, str]
    target: str
    field: str
    default: Any
    unset: Any

    def said(self, text: str, surface: Surface) -> str:
        """Return a text about the option in the words of a surface."""
        python = surface == "keyword"
        none = "None" if python else "0" if self.unset == 0 else "nothing"
        return text.format(
            none=none, true=str(python or "true"), false="False" if python else "false"
        )

    def read(self, value: object, surface: Surface) -> Any:
        """Return the value of an option as given on a surface: text of a URL or of Spark, else an object.

        Raises:
            ConfigError: it is of another type; the message names the option, but not a key of a file.
        """
        if surface in ("service", "relay") and value == self.unset and not isinstance(value, bool):
            return None
        with suppress(ValueError, KeyError):
            is_text = surface in ("url", "spark") and isinstance(value, str)
            read: Any = self.kind.read(value) if is_text else value  # type: ignore[arg-type]
            if self.kind.fits(read):
                return size_of(read) if self.kind is SIZE and isinstance(read, str) else read
        before = _PREFIXES.get(surface, "").format(self.surfaces.get(surface, self.name))
        shown = "…" if self.kind.is_secret else repr(value)
        raise _refused(before, shown, self.said(self.kind.words, surface))

    def spelled(self, value: Any, surface: Surface) -> str:
        """Return the text that gives the option a value on a surface; ``""`` if it is not there."""
        name = self.surfaces.get(surface)
        if name is None:
            return ""
        if surface == "flag":
            import shlex  # only a message needs it

            texts = [value] if isinstance(value, str) else value
            if isinstance(value, bool):
                return name if value else f"no {name}"
            return " ".join(f"{name} {shlex.quote(text)}" for text in texts)
        if surface in ("url", "spark"):
            return f"{name}={self.kind.write(value)}"
        return f"{name}={value!r}" if surface == "keyword" else f"{name} = {json.dumps(value)}"


class _Not(str):
    """The reason why a surface does not have an option."""

    __slots__ = ()


_HERE: Final = ""
"""On a surface, under the name that follows from the option's own."""


def declare(
    name: str,
    kind: Kind,
    help: str,
    *,
    family: Mapping[Surface, str],
    target: str = "",
    field: str = "",
    default: Any = None,
    unset: Any = "",
    **own: str,
) -> Option:
    """Return an option; ``own`` has its names and reasons by surface, where they are not those of the family."""
    first, *others = name.split("_")
    derived = {
        "flag": f"--{name.replace('_', '-')}",
        "spark": first + "".join(word.capitalize() for word in others),
    }
    stated = {surface: own.get(surface, family[surface]) for surface in SURFACES}
    there = {
        key: text or derived.get(key, name)
        for key, text in stated.items()
        if not isinstance(text, _Not)
    }
    without = {key: str(text) for key, text in stated.items() if isinstance(text, _Not)}
    return Option(name, kind, help, there, without, target, field or name, default, unset)


def _family(**texts: str) -> Mapping[Surface, str]:
    """Return names or reasons by surface; several surfaces are joined by ``_``."""
    return {
        surface: text
        for names, text in texts.items()
        for surface in SURFACES
        if surface in names.split("_")
    }


_connection = partial(
    declare,
    target="connect",
    family=_family(
        url=_HERE, keyword_flag_service_relay_pipeline_spark=_Not("a parameter of the URL")
    ),
)
_tls = partial(_connection, target="tls")
_stream = partial(
    declare,
    target="stream",
    family=_family(
        keyword=_HERE,
        url=_Not("a URL names a source, not how it is followed"),
        flag=_Not("a command connects with the default"),
        service=_Not("a service follows without end"),
        relay=_Not("a relay has all events, without end"),
        pipeline_spark=_Not("tasks of Spark connect with the default"),
    ),
)
_reading = partial(
    declare,
    target="assembly",
    family=_family(
        keyword_flag_service_pipeline_spark=_HERE,
        url=_Not("a URL names a source, not what is read of it"),
        relay=_Not("a relay has the bytes of all events"),
    ),
)
_files = partial(
    declare,
    family=_family(
        keyword_flag_spark=_HERE,
        url_service_relay_pipeline=_Not("for binlog files"),
    ),
)
_field = partial(
    declare,
    family=_family(
        keyword=_HERE,
        url_flag_service_relay_pipeline_spark=_Not("a field of an object that programs make"),
    ),
)
_spark = partial(
    declare,
    family=_family(
        spark=_HERE,
        keyword_url_flag_service_relay=_Not("for Spark's source"),
        pipeline=_Not("the pipeline decides"),
    ),
)
_ONE_FORM: Final = _Not("rows have one form there")

_ROWS: Final = (
    # Connection.
    _tls(
        "tls",
        choice(
            *("disabled", "preferred", "required", "verify-ca", "verify-identity"),
            read=lambda text: _TLS_WORDS.get(text.lower(), text.lower()),
        ),
        "disabled; preferred: TLS when the server has it; required: TLS or failure; verify-ca: also the certificate's "
        "chain; verify-identity: also its host name. With a CA preferred and required check the chain, too.",
        field="mode",
        keyword=_HERE,
        service=_HERE,
        relay=_HERE,
    ),
    _tls(
        "tls_ca",
        FILE,
        "CA certificates (PEM); by default the system's, where a mode verifies.",
        field="ca",
    ),
    _tls(
        "tls_cert", FILE, "Our own certificate (PEM), for accounts that require one.", field="cert"
    ),
    _tls(
        "tls_key", FILE, "Its private key (PEM); by default in the certificate's file.", field="key"
    ),
    _tls("tls_key_password", SECRET, "Password of the private key.", field="key_password"),
    _tls(
        "tls_fingerprint",
        TEXT,
        "sha256: and 64 hexadecimal digits of the server's certificate, several with commas: TLS with it, or no "
        "connection.",
        field="fingerprint",
        service=_HERE,
        relay=_HERE,
        pipeline=_HERE,
        spark=_HERE,
    ),
    _connection("unix_socket", FILE, "Path of a Unix socket to use instead of TCP.", url="socket"),
    _connection(
        "password",
        SECRET,
        "Password of the account, instead of one in the URL; a service reads a reference again at each login.",
        service=_HERE,
        relay=_HERE,
        pipeline=_Not("password_env or password_file"),
        spark=_HERE,
        unset=None,
    ),
    _connection("connect_timeout", PERIOD, "Seconds until the login must be done."),
    _connection(
        "answer_timeout",
        PERIOD,
        "Seconds until the answer to a statement must be there.",
        field="read_timeout",
        url="read_timeout",
    ),
    _connection("max_packet_size", _PACKET, "Bytes that one packet (one event) may have."),
    _connection(
        "max_answer_size",
        _PACKET,
        "Bytes of memory that the list of all tables and columns may take, about.",
    ),
    _connection(
        "allow_public_key_retrieval",
        FLAG,
        "Without TLS, trust the RSA key that the server sends for caching_sha2_password and sha256_password.",
    ),
    _connection(
        "unverified_password",
        choice("never", "caching_sha2", "any"),
        "Which servers get the password itself inside TLS when nothing proves the server's certificate.",
    ),
    _connection("server_public_key", FILE, "The server's RSA key (PEM)."),
    _connection(
        "compression",
        choice("", "zlib", "zstd")._replace(words="zlib, zstd or nothing"),
        "Compression of the protocol; none by default.",
        keyword=_HERE,
        service=_HERE,
        relay=_HERE,
    ),
    _connection("program_name", TEXT, "Program name in the server's connection attributes."),
    # Following.
    _stream(
        "start",
        _ANY._replace(metavar="START"),
        "earliest, latest, FILE:OFFSET, a GTID set, or a time.",
        target="",
        default="latest",
        flag="--since",
        service=_HERE,
        pipeline=_HERE,
        spark="startingPosition",
    ),
    _stream(
        "stop_at_end", FLAG, "End where a live source's binlog ends now.", default=False, flag=_HERE
    ),
    _stream(
        "server_id",
        _number(
            "a number from 1 to 4294967295, or {none} for a random one",
            lambda value: 0 < value < 1 << 32,
            int,
        ),
        "Ours, unique among the source's replicas; random by default. Each further sink of a service takes the next.",
        service=_HERE,
        relay=_HERE,
        pipeline=_Not("each task has its own: server_id_base"),
        spark=_Not("each task has its own: serverIdBase"),
    ),
    _stream(
        "heartbeat_period",
        PERIOD,
        "Seconds of silence after which the source sends a heartbeat.",
        default=10.0,
        service="heartbeat",
        relay="heartbeat",
        pipeline=_HERE,
        spark=_HERE,
    ),
    _stream(
        "read_timeout",
        PERIOD._replace(words="seconds, more than 0, or {none} for three heartbeats"),
        "Seconds without a byte after which a connection is dead; by default three heartbeats.",
        unset=0,
        url=_Not("there read_timeout is the time for an answer"),
        service=_HERE,
        relay=_HERE,
    ),
    _stream(
        "semi_sync",
        FLAG,
        "The source waits for our acknowledgement, sent after the commit; by a relay when events are on disk.",
        default=False,
        service=_HERE,
        relay=_HERE,
    ),
    _stream(
        "allow_empty",
        FLAG,
        "A table, GTID, thread or range that matches nothing gives an empty answer; else it is an error.",
        default=False,
        flag=_HERE,
        service=_Not("such a pattern is a warning"),
        pipeline=_Not("such a pattern is a warning"),
        spark=_HERE,
    ),
    _stream(
        "transform",
        Kind("a list of tables of keys", lambda value: isinstance(value, Sequence)),
        "Changes to rows, definitions and statements before delivery, with the keys of [[source.transform]].",
        target="",
        flag=_Not("a table of keys cannot be a flag"),
        service=_HERE,
        pipeline=_Not("a lake is equal to its source"),
        spark=_HERE,
    ),
    _stream(
        "schema",
        _ANY._replace(metavar="FILE"),
        "What tables looked like: the output of `replica-client schema export`.",
        flag=_HERE,
        service=_Not("schema_file; later it is saved with the position"),
        pipeline=_Not("it is saved with the position"),
        spark="schemaFile",
    ),
    _stream(
        "position_store",
        Kind(
            "the path of a file, or a position store",
            lambda value: _is_path(value) or hasattr(value, "load_checkpoint"),
            metavar="FILE",
        ),
        "Continue after the position in this file, and save it there.",
        target="",
        flag="--position-file",
        service=_Not("[store]"),
        pipeline=_Not("checkpoint"),
        spark=_Not("the query's checkpoint"),
    ),
    _stream(
        "save_interval",
        SECONDS,
        "Seconds that an acknowledged position may wait to be saved.",
        target="",
    ),
    _stream(
        "attempts",
        _TRIES,
        "Tries of each connection before giving up; without end by default.",
        target="",
    ),
    # Reading.
    _reading(
        "tables",
        PATTERNS,
        "Only these tables: database.table with * and ?.",
        target="selection",
        flag="--table",
    ),
    _reading(
        "exclude",
        PATTERNS,
        "Not these tables. mysql and sys are left out unless a pattern of wanted tables names them.",
        target="selection",
    ),
    _reading(
        "columns",
        COLUMNS,
        "Names of the wanted columns, for all tables or by table pattern.",
        target="selection",
        flag=_Not("a terminal shows what changed"),
    ),
    _reading("full_rows", FLAG, "Refuse row images that lack columns.", default=False),
    _reading(
        "record_losses",
        KINDS,
        "Count such losses with the position instead of stopping: statement, undecodable, "
        "incomplete_row, gtid_gap, unknown_table, xa_prepare, or all.",
    ),
    _reading(
        "on_statement",
        choice("error", "deliver"),
        "A row change that was logged as text: error stops, deliver prints the statement.",
        default="error",
        pipeline=_ONE_FORM,
        spark=_ONE_FORM,
    ),
    _reading(
        "on_unknown_table",
        choice("error", "positional"),
        "A table whose column names are not proven: error stops, positional names them col_1, col_2 …. "
        "Default: error for a live source, positional for files.",
    ),
    _reading(
        "part_size",
        SIZE,
        "Bytes above which a transaction is written in parts.",
        default="16m",
        flag=_Not("changes are printed one by one"),
        pipeline=_ONE_FORM,
        spark=_ONE_FORM,
    ),
    _reading(
        "invalid_text",
        choice("strict", "replace", "bytes"),
        "Bytes that are invalid in their character set (the server shows ?): strict stops, replace puts "
        "U+FFFD, bytes gives the value as bytes.",
        target="decode",
        default="strict",
        pipeline=_ONE_FORM,
        spark=_ONE_FORM,
    ),
    _reading(
        "temporals",
        choice("lossless", "python"),
        "Types of dates and times: lossless ones, or those of Python, which have no zero dates.",
        target="decode",
        flag=_ONE_FORM,
        service=_ONE_FORM,
        pipeline=_ONE_FORM,
        spark=_ONE_FORM,
    ),
    _reading(
        "keys",
        Kind(
            "a dict of bytes by key id; replica_client.protocol.binlog.encryption.read_keys reads a file",
            _is_keys,
            is_secret=True,
        ),
        "Keys of encrypted binlogs.",
        target="decode",
        flag=_Not("key_file"),
        service=_Not("a live source decrypts"),
        pipeline=_Not("key_file"),
        spark=_Not("key_file"),
    ),
    _reading(
        "key_file",
        FILE,
        "Keys of encrypted binlogs: a MySQL keyring file or MariaDB's key file; or that of kept files.",
        target="",
        keyword=_Not("keys"),
        service=_Not("a live source decrypts"),
    ),
    # Files.
    _files(
        "lower_case_table_names",
        _number("0, 1 or 2", lambda value: 0 <= value <= 2, int)._replace(metavar="0|1|2"),
        "For files: this setting of the server that wrote them, which files do not record.",
    ),
    _files(
        "threads",
        COUNT,
        "Threads that decode files.",
        default=1,
        spark=_Not("tasks decode in parallel"),
    ),
    _files(
        "memory_map",
        FLAG,
        "Read pages of files in place.",
        flag=_Not("programs decide"),
        spark=_Not("programs decide"),
    ),
    _files(
        "where",
        Kind("a condition as text", _is_text, metavar="CONDITION"),
        "Only changes with a row that meets this condition: "
        "\"status = 'new' AND total >= 10.5 OR note IS NULL\".",
        spark=_Not("Spark's own filter"),
    ),
    _files(
        "max_rows",
        _number("a whole number, at least 2", lambda value: value >= 2, int),
        "The most rows of a batch.",
        flag=_Not("rows are printed"),
        spark=_Not("Spark's own setting"),
    ),
    # Spark, and the pipeline's [source].
    _spark("url", TEXT, "mysql://user@host:port/ or mariadb://…: a live source.", pipeline=_HERE),
    _spark(
        "path",
        PATHS,
        "Binlog files: a file, a directory, a glob, or several with commas; also URLs of object stores (s3://, s3a://, "
        "gs://, abfss://).",
        pipeline=_HERE,
    ),
    _spark(
        "password_env",
        TEXT,
        "Environment variable of the driver that holds the password.",
        pipeline=_HERE,
    ),
    _spark("password_file", FILE, "File on the driver that holds the password.", pipeline=_HERE),
    _spark("table", TEXT, "One database.table: its own typed columns instead of the envelope."),
    _spark(
        "shape",
        choice("changes", "cdc"),
        "With table: cdc gives one row per change with _sequence, _deleted and _replica, for Auto CDC and MERGE; an "
        "update of the key is a delete and an insert.",
        default="changes",
    ),
    _spark(
        "on_truncate",
        choice("error", "skip"),
        "With shape=cdc: TRUNCATE, DROP, RENAME and the like, which take rows away without row changes: error stops, "
        "skip leaves the statement out with a warning.",
        target="spark",
        default="error",
    ),
    _spark(
        "ending_position",
        TEXT,
        "Batch: latest, FILE:OFFSET or a time: changes before it; a GTID set: the changes of its transactions.",
    ),
    _spark(
        "as_of",
        TEXT,
        "Batch over files, with table: the table as it was at a moment instead of its changes: FILE:OFFSET, a GTID, a "
        "GTID set, a time or latest.",
        target="spark",
    ),
    _spark(
        "copy",
        FILE,
        "With asOf: an earlier copy to go forward from, a Parquet or Arrow file; without it from where a CREATE TABLE "
        "or TRUNCATE in the files left the table empty.",
        target="spark",
    ),
    _spark(
        "copy_at",
        TEXT,
        "With copy: its position; files that as-of wrote contain it.",
        target="spark",
    ),
    _spark(
        "max_bytes_per_trigger",
        SIZE,
        "Stream: binlog bytes per micro-batch, in whole transactions.",
        target="spark",
        field="max_bytes",
        pipeline=_Not("a key of [pipeline]"),
    ),
    _spark(
        "max_rows_per_trigger",
        COUNT,
        "Stream: changed rows per micro-batch, in whole transactions.",
        target="spark",
        field="max_rows",
        pipeline=_Not("a key of [pipeline]"),
    ),
    _spark(
        "partition_size",
        SIZE,
        "Bytes of a binlog file that one partition reads, about; files that are together smaller than a quarter of it "
        "are read by one. A live source of eight files or more is cut by files alone.",
        target="spark",
        default="64m",
        pipeline=_HERE,
    ),
    _spark(
        "index_directory",
        FILE,
        "Where indexes of binlog files are kept between queries (a cache); by default $REPLICA_CLIENT_CACHE, else the "
        "user's cache directory.",
        target="spark",
    ),
    _spark(
        "filter_pushdown",
        FLAG,
        "Batch: conditions on database, table, _file and _commit_timestamp leave out other rows before they are "
        "decoded or passed to Spark; needs Spark's setting spark.sql.python.filterPushdown.enabled=true.",
        target="spark",
        field="pushes_filters",
        default=False,
    ),
    _spark(
        "transform_key_file", FILE, "File on the driver that holds the key of hash and tokenise."
    ),
    _spark("transform_key_env", TEXT, "Environment variable of the driver that holds it."),
    _spark(
        "json",
        choice("string", "variant"),
        "variant: JSON columns, and before and after, as VARIANT.",
        default="string",
    ),
    _spark(
        "on_schema_change",
        choice("error", "evolve"),
        "With table: evolve fits rows of other definitions to the columns; new ones appear when the query is started "
        "again.",
        default="error",
    ),
    _spark(
        "server_id_base",
        _number(
            "a whole number from 1 to 4294957295", lambda value: 0 < value < (1 << 32) - 10_000, int
        ),
        "Live: our server ids are this number and the following ones.",
        target="spark",
        pipeline=_HERE,
    ),
    _spark(
        "poll_interval",
        PERIOD,
        "Stream: seconds between two looks for something new.",
        target="spark",
        default=0.2,
        pipeline=_HERE,
    ),
    # Fields.
    _field("first_delay", SECONDS, "Seconds before the second try."),
    _field("max_delay", SECONDS, "Seconds that a delay grows to."),
    _field("first_attempts", _TRIES, "Tries to connect for the first time."),
    _field("verify_checksum", FLAG, "Check the CRC-32 of every event that has one."),
    _field("max_event_size", COUNT, "The most bytes of one event."),
    _field("max_uncompressed_size", COUNT, "The most bytes of one decompressed payload."),
    _field(
        "on_schema_mismatch",
        choice("error", "positional"),
        "A table map that contradicts the schema history.",
    ),
)
OPTIONS: Final[Mapping[str, Option]] = {option.name: option for option in _ROWS}
"""The options by their names in Python."""


URL_ALIASES: Final[Mapping[str, str]] = {
    "ssl_mode": "tls",
    "tls_mode": "tls",
    "ssl_ca": "tls_ca",
    "ssl_cert": "tls_cert",
    "ssl_key": "tls_key",
    "unix_socket": "socket",
}
"""MySQL's names of parameters of a URL, and ours."""


def options_on(surface: Surface) -> dict[str, Option]:
    """Return the options of a surface, by their names there."""
    return {option.surfaces[surface]: option for option in _ROWS if surface in option.surfaces}


def fields_of(values: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Return the given options that are fields of an object, by the names of the fields.

    Args:
        values: by the options' names in Python; others are passed over, and None is "not given".
        target: see :class:`Option`.
    """
    return {
        OPTIONS[name].field: value
        for name, value in values.items()
        if value is not None and name in OPTIONS and OPTIONS[name].target == target
    }


# Arguments of the Python API.


def _is_whole(value: object) -> bool:
    # numpy's integers are none of Python's.
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float) and not math.isnan(value)


def _are_texts(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(isinstance(one, str) for one in value)


def _class_is(name: str) -> Callable[[object], bool]:
    """Return a check for objects of a room that this one does not know."""
    return lambda value: any(base.__name__ == name for base in type(value).__mro__)


Instance = tuple[type | tuple[type, ...], str]
"""The classes of an argument that is an object of ours, and the words that say how to make one."""


def checked_arguments(**instances: Instance) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator of a public function that checks its keywords.

    Args:
        instances: what arguments take that are objects of other rooms, which this one does not know.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        names = set(inspect.signature(function).parameters)

        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            check_names(function.__name__, names, kwargs)
            with USER_BOUNDARY:
                for name, value in kwargs.items():
                    if value is None:
                        continue
                    if name in instances and not isinstance(value, instances[name][0]):
                        raise _refused(f"{name}=", repr(value), instances[name][1])
                    if name in OPTIONS and (name not in instances or isinstance(value, str)):
                        check_argument(name, value)
                return function(*args, **kwargs)

        return checked

    return decorate


_FITS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "None": (lambda value: value is None, ""),
    "str": (lambda value: isinstance(value, str), "a text"),
    "bytes": (lambda value: isinstance(value, bytes), "bytes"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "int": (lambda value: _is_whole(value), "a whole number"),
    "float": (lambda value: _is_whole(value) or _is_number(value), "a number"),
    "Path": (lambda value: isinstance(value, os.PathLike), "a path"),
    "Sequence[str]": (_are_texts, "a list of texts"),
    "Values": (lambda value: isinstance(value, Mapping), "a dict of values by column"),
    "Mapping[str, object]": (lambda value: isinstance(value, Mapping), "a dict"),
    "Callable[[int], None]": (callable, "a function"),
    "datetime.datetime": (lambda value: type(value).__name__ == "datetime", "a datetime"),
    "GtidSet": (_class_is("GtidSet"), "a GtidSet"),
    "MariadbGtidSet": (_class_is("MariadbGtidSet"), "a MariadbGtidSet"),
    "Gtid": (_class_is("Gtid"), "a Gtid"),
    "MariadbGtid": (_class_is("MariadbGtid"), "a MariadbGtid"),
    "Position": (_class_is("Position"), "a Position"),
}
"""Requirement for a value, by its annotation. An annotation with a part that is not listed is not checked."""


def checked_types(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Check the arguments of a public function or method by its annotations.

    Raises:
        ConfigError: when it is called, where an argument is of another type.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    kinds: dict[str, list[tuple[Callable[[Any], bool], str]]] = {}
    for name, annotation in function.__annotations__.items():
        parts = str(annotation).split(" | ")
        if all(part in _FITS for part in parts):
            kinds[name] = [_FITS[part] for part in parts]

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in kinds and not any(fits(value) for fits, _ in kinds[name]):
                words = " or ".join(words for _, words in kinds[name] if words)
                raise ConfigError(
                    f"{function.__name__}(): {name} is of type {type(value).__name__}: give {words}"
                )
        return function(*args, **kwargs)

    return checked


def check_names(function: str, names: Collection[str], given: Iterable[str]) -> None:
    """Check that a function has the arguments of a call.

    Raises:
        TypeError: it has none of a name; the message says which one is near.
    """
    for name in given:
        if name not in names:
            import difflib  # only a mistake needs it

            near = difflib.get_close_matches(name, sorted(names), 1, 0.6)
            advice = f"did you mean {near[0]}=?" if near else f"it takes {', '.join(sorted(names))}"
            raise TypeError(f"{function}() has no argument {name!r}: {advice}")


def check_argument(name: str, value: object) -> None:
    """Check the value of an argument.

    Raises:
        ConfigError: it is of another type than the argument takes.
    """
    OPTIONS[name].read(value, "keyword")


# Names of options in messages, in the spelling of the user's interface.

_CURRENT: Final[ContextVar[Surface]] = ContextVar("replica_client.surface", default="keyword")
_REMEDIES: Final[Mapping[str, tuple[str, str, Any]]] = {
    "deliver statements": ("take such statements with {}", "on_statement", "deliver"),
    "record statement": ("count them as lost with {}", "record_losses", ["statement"]),
    "record gtid_gap": ("go on with a record of the loss ({})", "record_losses", ["gtid_gap"]),
    "incomplete rows": ("take incomplete rows ({})", "full_rows", False),
    "positional names": ("take names by position with {}", "on_unknown_table", "positional"),
    "empty answer": ("{} takes an empty answer", "allow_empty", True),
}


@contextmanager
def options_of(surface: Surface) -> Iterator[None]:
    """Hold a spelling of option names, for this context and the tasks that begin in it."""
    token = _CURRENT.set(surface)
    try:
        yield
    finally:
        # A generator may be closed from another context than the one in which it began.
        with suppress(ValueError):
            _CURRENT.reset(token)


def only_tables(pattern: str) -> str:
    """Return the advice how to follow only some tables."""
    surface = _CURRENT.get()
    value: Any = pattern if surface in ("flag", "spark") else [pattern]
    return f"write {OPTIONS['tables'].spelled(value, surface)}"


def remedies(*names: str) -> str:
    """Return the remedies that exist in this interface, joined by ``or``, for a message."""
    surface, found = _CURRENT.get(), []
    for text, name, value in map(_REMEDIES.__getitem__, names):
        if spelled := OPTIONS[name].spelled(value, surface):
            found.append(text.format(spelled))
        elif name == "allow_empty":
            found.append("leave the pattern out of tables")
    return ", or ".join(found)
