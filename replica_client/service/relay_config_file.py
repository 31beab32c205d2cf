"""Reading of a relay's configuration file, and creation of the relay."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from replica_client.errors import ConfigError
from replica_client.options import fields_of
from replica_client.protocol.wire.auth.server import (
    NativeVerifier,
    Sha2Verifier,
    StoredPassword,
    stored_password,
)
from replica_client.server.accounts import Account
from replica_client.server.relay.relay_server import DEFAULT_LIMITS, Relay, RelayOptions
from replica_client.server.relay.retention import Retention
from replica_client.server.relay.upstream import UpstreamOptions
from replica_client.service.configuration import bytes_of
from replica_client.service.external_values import resolve
from replica_client.service.source_access import (
    AccountTable,
    RelayConfig,
    RelaySourceTable,
    RelayTable,
    TlsTable,
    hosts_of,
)
from replica_client.service.table_checker import TableChecker
from replica_client.storage.location import ObjectUrl, local_path
from replica_client.stream.transport.connect_options import listen_address

_LOG = logging.getLogger("replica_client.service")

_TABLES = ("relay", "source", "account", "tls")
_DAY = 86_400.0


def read_relay_config(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> RelayConfig:
    """Read a relay's configuration, apply the environment's overrides, and check every key.

    Args:
        path: the file.
        environment: variables to use instead of the process's.

    Raises:
        ConfigError: it is wrong; the message begins with file and line.
        OSError: it cannot be read.
    """
    checker = TableChecker.read(path, environment)
    document = checker.file.document
    checker.known((), document, _TABLES)
    relay = checker.table(("relay",), document.get("relay", {}), RelayTable)
    if relay.keep_size:
        checker.size(("relay", "keep_size"), relay.keep_size)
    if relay.archive:
        try:
            ObjectUrl.parse(relay.archive)
        except ConfigError as error:
            raise checker.wrong(("relay", "archive"), str(error)) from None
    for key in ("listen", "status"):
        text = getattr(relay, key)
        try:
            if text or key == "listen":
                listen_address(text)
        except ConfigError as error:
            raise checker.wrong(("relay", key), str(error).partition(": ")[2]) from None
    if "source" not in document:
        raise checker.wrong((), "there is no [source]: nothing to follow")
    if isinstance(document["source"], list):
        raise checker.wrong(("source",), "a relay has one source: write [source]")
    source = checker.table(("source",), document["source"], RelaySourceTable, "relay")
    tls = None
    if "tls" in document:
        tls = checker.table(("tls",), document["tls"], TlsTable)
    return RelayConfig(checker.file.path, relay, source, _accounts(checker, document), tls)


def _accounts(checker: TableChecker, document: dict[str, Any]) -> tuple[AccountTable, ...]:
    found = document.get("account", [])
    if not isinstance(found, list):
        raise checker.wrong(("account",), "write [[account]], in double brackets")
    if not found:
        raise checker.wrong((), "there is no [[account]]: nobody could log in")
    accounts = tuple(
        checker.table(("account", at), one, AccountTable) for at, one in enumerate(found)
    )
    names = [account.user for account in accounts]
    for at, account in enumerate(accounts):
        if account.user in names[:at]:
            raise checker.wrong(("account", at, "user"), f"{account.user!r} is there twice")
        if bool(account.password) == bool(account.hash):
            raise checker.wrong(("account", at), "give a password or a hash, and not both")
    return accounts


def make_relay(config: RelayConfig) -> Relay:
    """Create the relay of a configuration; resolve references and read certificates.

    Raises:
        ConfigError: a URL is malformed, a reference leads nowhere, a certificate or a hash cannot
            be read.
    """
    relay, source = config.relay, config.source
    host, port = listen_address(relay.listen)
    limits = replace(
        DEFAULT_LIMITS,
        connections=relay.connections,
        user_connections=relay.user_connections or None,
        write_timeout=relay.write_timeout,
    )
    options = RelayOptions(
        host=host,
        port=port,
        tls=_tls(config),
        tls_required=config.tls is not None and config.tls.required,
        limits=limits,
        upstream=UpstreamOptions(**fields_of(source.options, "stream")),
        semi_sync=relay.semi_sync,
        archive=ObjectUrl.parse(relay.archive) if relay.archive else None,
        retention=Retention(
            size=bytes_of("keep_size", relay.keep_size) if relay.keep_size else None,
            seconds=relay.keep_days * _DAY or None,
            client_seconds=relay.client_days * _DAY,
        ),
    )
    accounts = accounts_of(config)
    directory = config.directory / local_path(relay.directory, "relay.directory")
    return Relay(hosts_of(source, config.directory), directory, accounts, options)


def reload(relay: Relay, path: Path) -> None:
    """Read the configuration again; apply its accounts and its source unless it is faulty.

    Args:
        relay: the running relay.
        path: of the file, absolute.
    """
    try:
        config = read_relay_config(path)
        accounts = accounts_of(config)
        hosts = hosts_of(config.source, config.directory)
    except (ConfigError, OSError) as error:
        _LOG.error("the configuration was not read again: %s", error)
        return
    relay.change_accounts(accounts)
    relay.change_hosts(hosts)
    _LOG.info("%s was read again: %d accounts", path, len(accounts))


def accounts_of(config: RelayConfig) -> list[Account]:
    """Return the accounts of a configuration, with references resolved.

    Raises:
        ConfigError: a reference leads nowhere, or a hash cannot be read.
    """
    return [_account(config, account) for account in config.accounts]


def _account(config: RelayConfig, account: AccountTable) -> Account:
    where = f"account {account.user!r}"
    if account.hash:
        stored = _stored_hash(where, account)
        return Account(account.user, account.plugin, stored, admin=account.admin)
    password = resolve("password", account.password, config.directory, os.environ)
    if not password:
        raise ConfigError(f"{where}: the password is empty")
    stored = stored_password(account.plugin, password.encode())
    return Account(account.user, account.plugin, stored, admin=account.admin)


def _stored_hash(where: str, account: AccountTable) -> StoredPassword:
    try:
        if account.plugin == "mysql_native_password":
            return NativeVerifier.parse(account.hash)
        return Sha2Verifier.parse(bytes.fromhex(account.hash))
    except ValueError as error:
        raise ConfigError(f"{where}: hash: {error}") from None


def _tls(config: RelayConfig) -> ssl.SSLContext | None:
    if config.tls is None:
        return None
    certificate = config.directory / config.tls.certificate
    key = config.directory / config.tls.key if config.tls.key else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or getattr(error, "reason", None) or error
        raise ConfigError(f"tls: {certificate}: {reason}") from None
    return context
