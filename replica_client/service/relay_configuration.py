"""The tables and keys of the relay's configuration file.

Each class is a table of the file; ``EXAMPLE`` in :mod:`replica_client.service.examples` shows all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.service.configuration import Positive, Seconds

Days = Annotated[float, Meta(gt=0)]


class RelayTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[relay]``.

    Attributes:
        directory: directory of the files; one relay at a time may use it.
        listen: address and port for replicas.
        status: address and port of the status page; ``""`` disables it.
        hosts: public host names by which the page may be called. Addresses and private names always work.
        keep_size: maximum bytes of all files together; ``""`` keeps all.
        keep_days: how long a file is kept after its last write; 0: for ever.
        client_days: how long a disconnected client keeps the files that it has not read.
        archive: URL of an object store where finished files are kept and served from, ``""`` for none.
        semi_sync: request acknowledgements from clients that support them.
        connections: maximum connections that are logged in; when it is reached, the account with
            the most loses its newest one.
        user_connections: maximum connections of one account; 0: any number.
        write_timeout: seconds after which a client that reads nothing is disconnected.
        log_level: level of log messages.
        log_format: lines of text, or one JSON object per line.
    """

    directory: str = "relay"
    listen: str = "127.0.0.1:3307"
    status: str = "127.0.0.1:9191"
    hosts: list[str] = field(default_factory=list)
    keep_size: int | str = ""
    keep_days: Seconds = 0.0
    client_days: Days = 7.0
    archive: str = ""
    semi_sync: bool = False
    connections: Positive = 1000
    user_connections: Annotated[int, Meta(ge=0)] = 100
    write_timeout: Annotated[float, Meta(gt=0)] = 60.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"


class TlsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[tls]``: for the relay's own clients.

    Attributes:
        certificate: file of the certificate and its chain (PEM).
        key: file of the private key (PEM); by default it is in ``certificate``.
        required: refuse clients without TLS.
    """

    certificate: str
    key: str = ""
    required: bool = True


class RelaySourceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[source]``: the server to follow.

    Attributes:
        url: URL of the source, or of several hosts of which one is the source.
        options: the declared options of a relay's ``[source]``, by their names in Python.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "<source of a relay>"  # nothing that may hold a password


class AccountTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[[account]]``: an account that may log in.

    Attributes:
        user: name of the account.
        password: in clear text, or a reference; only its hash is kept in memory.
        hash: stored hash, instead of a password: ``*…`` of mysql_native_password, or the hexadecimal form
            (``SELECT HEX(authentication_string) FROM mysql.user``) of ``$A$005$…`` of caching_sha2_password.
        plugin: authentication plugin of the account.
        admin: whether it may ``PURGE BINARY LOGS``, and see and end the connections of other accounts.
    """

    user: Annotated[str, Meta(min_length=1, max_length=80)]
    password: str = ""
    hash: str = ""
    plugin: Literal["caching_sha2_password", "mysql_native_password"] = "caching_sha2_password"
    admin: bool = False

    def __repr__(self) -> str:
        return f"<account {self.user}>"  # neither password nor hash


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """A checked configuration file; secrets are not resolved.

    Attributes:
        file: its path.
        relay: its table.
        source: its table.
        accounts: its tables.
        tls: its table; None: clients have none.
    """

    file: Path
    relay: RelayTable
    source: RelaySourceTable
    accounts: tuple[AccountTable, ...]
    tls: TlsTable | None

    @property
    def directory(self) -> Path:
        """The directory of the file, to which relative paths refer."""
        return self.file.parent
