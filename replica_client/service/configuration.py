"""The tables and keys of the daemon's configuration file.

Each class is a table of the file; ``EXAMPLE`` in :mod:`replica_client.service.examples` shows all.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from replica_client.errors import ConfigError
from replica_client.options import size_of
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.location import local_path
from replica_client.storage.toml_file import KeyPath

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Names = list[str] | str


def bytes_of(key: str, value: int | str) -> int:
    """Return a size in bytes, from a number or a text such as ``16m``.

    Raises:
        ConfigError: the value is neither, or less than 1.
    """
    if isinstance(value, str):
        size = size_of(value)
        if size is None:
            raise ConfigError(f'{key}: {value!r} is not a size; write bytes, or "64k", "16m", "2g"')
        value = size
    if value < 1:
        raise ConfigError(f"{key}: give at least 1 byte")
    return value


class DaemonTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[daemon]``.

    Attributes:
        name: name of the service, which identifies the writer to a destination; the file's name by
            default.
        state: directory of positions and dead letters; one daemon at a time may use it.
        listen: address and port of the status page; ``""`` disables it.
        hosts: public host names by which the page may be called. Addresses and private names always work.
        control_token: takes orders over HTTP at ``/control`` from whoever gives this token (16 characters or more), a
            reference such as ``file:/run/secrets/control``. Needs TLS, unless ``listen`` is a loopback address.
        tls_certificate: file in PEM format; the status page is then served by HTTPS.
        tls_key: file of the certificate's key.
        log_level: level of log messages.
        log_format: lines of text, or one JSON object per line.
        stop_timeout: seconds to finish pending work after SIGTERM.
        sample_seconds: interval between two points of the lag's plot.
        otlp: URL of an OpenTelemetry collector that gets metrics and traces (``http://collector:4318``), ``""`` for
            none; needs the extra ``otlp``.
        otlp_seconds: interval between two exports of metrics.
    """

    name: Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$")] = ""
    state: str = "state"
    listen: str = "127.0.0.1:9190"
    hosts: list[str] = field(default_factory=list)
    control_token: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    stop_timeout: Annotated[float, Meta(gt=0)] = 20.0
    sample_seconds: Annotated[float, Meta(ge=0.1)] = 5.0
    otlp: str = ""
    otlp_seconds: Annotated[float, Meta(ge=0.1)] = 30.0

    def __repr__(self) -> str:
        return f"<daemon at {self.listen}>"  # nothing that may hold a secret


class StoreTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[store]``: where positions are kept for sinks that do not keep their own.

    Attributes:
        type: a file for each sink, one SQLite database, or a table in a MySQL or MariaDB.
        path: ``file``: a directory; ``sqlite``: the database; in the state directory by default.
        url: ``mysql``: the server and database; ``mysql://user@host/database``.
        password: ``mysql``: password of the account, instead of one in the URL.
        table: ``sqlite`` and ``mysql``: name of the table.
    """

    type: Literal["file", "sqlite", "mysql"] = "file"
    path: str = ""
    url: str = ""
    password: str = ""
    table: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] = (
        "replica_client_positions"
    )

    def __repr__(self) -> str:
        return f"<store of type {self.type}>"  # nothing that may hold a password


class SourceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[[source]]``: a server to follow.

    Attributes:
        name: any name; positions are kept under it.
        url: URL of the source, or of several hosts of which one is the source.
        poll: seconds between two checks of where the source's binlog ends.
        signals: a table ``DATABASE.TABLE`` of the source whose rows request snapshots, see
            :mod:`replica_client.service.signals`. Anyone who may insert there can have tables copied
            again that the sinks get anyway.
        signal_raw_filters: filters of signals are SQL. Anyone who may insert into the table of
            signals can then read everything that the replication account may read, and occupy the
            source for 20 seconds with each signal.
        schema_file: what tables looked like where the first run begins, as ``schema export`` prints it and ``migrate``
            writes it. Needed where ``start`` is older than an ALTER and the binlog has no column names.
        options: the declared options of ``[[source]]``, by their names in Python.
        sinks: the sinks of its changes; ``[[source.sink]]``.
    """

    name: Name
    url: str
    poll: Annotated[float, Meta(ge=0.1)] = 10.0
    signals: Annotated[str, Meta(pattern=r"^([^.]+\.[^.]+)?$")] = ""
    signal_raw_filters: bool = False
    schema_file: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    sinks: list[dict[str, Any]] = field(default_factory=list, name="sink")

    def __repr__(self) -> str:
        return f"<source {self.name}>"  # nothing that may hold a password


class SinkTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of ``[[source.sink]]`` that every sink has; the others are the sink's own.

    Attributes:
        name: any name; the position is kept under it.
        type: type of the sink.
        tables: patterns of wanted tables, instead of the source's.
        exclude: patterns of unwanted tables, instead of the source's.
        columns: wanted columns, instead of the source's.
        snapshot: begin with a copy of the existing tables: mirrors copy before the stream, sinks of
            events (all others) while it runs. A table that is new, that comes back into
            ``tables``, or that a mirror cannot follow, is copied later.
        snapshot_rows: approximate rows copied at once.
        snapshot_locking: ``brief`` takes FLUSH TABLES WITH READ LOCK while a copy begins, for MySQL
            sources without GTIDs, and for tables without a primary key that change all the time.
        batch_rows: maximum rows of a commit.
        batch_bytes: maximum bytes of events of a commit.
        batch_seconds: how long a change waits for its commit if no other limit is reached; longer if
            commits are slow. None: adapted to the duration of commits: one duration between two
            commits if the sink has caught up, 20 if it has not, and at most 0.5 s.
        on_poison: the treatment of a change that can never be written: ``stop`` sets its table
            aside, ``dead-letter`` writes it to the dead letters.
        dead_letters: file of the dead letters; in the state directory by default.
        accept_set_aside: patterns of tables without which the service is ready, when set aside.
        retry_seconds: the longest wait between two attempts.
        commit_timeout: seconds in which a commit must be done; then the sink is opened again.
    """

    name: Name
    type: str
    tables: Names | None = None
    exclude: Names | None = None
    columns: list[str] | dict[str, list[str]] | None = None
    snapshot: bool = False
    snapshot_rows: Positive = 20_000
    snapshot_locking: Literal["never", "brief"] = "never"
    batch_rows: Positive = 10_000
    batch_bytes: int | str = "8m"
    batch_seconds: Seconds | None = None
    on_poison: Literal["stop", "dead-letter"] = "stop"
    dead_letters: str = ""
    accept_set_aside: Names | None = None
    retry_seconds: Annotated[float, Meta(gt=0)] = 30.0
    commit_timeout: Annotated[float, Meta(gt=0)] = 300.0


COMMON_SINK_KEYS = frozenset(SinkTable.__struct_fields__)
HOT_SINK_KEYS = frozenset(
    ("batch_rows", "batch_bytes", "batch_seconds", "on_poison", "retry_seconds", "commit_timeout")
)
"""Keys that a running sink adopts without being opened again."""


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """A source and one of its sinks, as written in the file; secrets are not resolved.

    Attributes:
        source: the source.
        sink: the keys that every sink has.
        options: the sink's own options.
        index: of the sink among the sinks of its source.
    """

    source: SourceTable
    sink: SinkTable
    options: dict[str, Any] = dataclasses.field(repr=False)
    index: int

    @property
    def name(self) -> str:
        """``source.sink``."""
        return f"{self.source.name}.{self.sink.name}"

    def runs_on_as(self, other: RouteConfig) -> bool:
        """Return whether a running route can adopt another configuration without a restart."""
        sink = [
            getattr(self.sink, key) == getattr(other.sink, key)
            for key in COMMON_SINK_KEYS - HOT_SINK_KEYS
        ]
        source = [
            getattr(self.source, key) == getattr(other.source, key)
            for key in SourceTable.__struct_fields__
            if key not in ("sinks", "poll")
        ]
        same_id = self.source.options["server_id"] is None or self.index == other.index
        return same_id and all(sink) and all(source) and self.options == other.options


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    """A checked configuration file.

    Attributes:
        file: the file.
        daemon: its ``[daemon]``.
        store: its ``[store]``.
        sources: its sources.
        routes: a route for each sink of each source.
        where: gives the file, and the line of a key.
    """

    file: Path
    daemon: DaemonTable
    store: StoreTable
    sources: tuple[SourceTable, ...]
    routes: tuple[RouteConfig, ...]
    where: Callable[[KeyPath], str]

    def located(self, path: KeyPath, text: str) -> str:
        """Return file and line of the key of a table that a message names, else those of the table."""
        words = re.findall(r"\w+", text.lower())
        keys = (key for key in words if self.where((*path, key)) != self.where(path))
        return self.where((*path, *(key for key in (next(keys, None),) if key)))

    @property
    def directory(self) -> Path:
        """The directory to which relative paths refer."""
        return self.file.parent

    @property
    def service(self) -> str:
        """The name of the service."""
        return self.daemon.name or self.file.stem

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.directory / local_path(self.daemon.state, "daemon.state").expanduser()
