"""Example configurations, and a systemd unit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from replica_client.service.configuration import DaemonConfig

EXAMPLE: Final = """\
# What `replica-client run` does. Every key is shown; those with a # before them have that value anyway.
# Any key can be overridden: REPLICA_CLIENT__DAEMON__LISTEN=0.0.0.0:9190,
# REPLICA_CLIENT__SOURCE__SHOP__URL=…, REPLICA_CLIENT__SOURCE__SHOP__SINK__LINES__BATCH_ROWS=500.
# Any text may hold ${VARIABLE} or ${VARIABLE:-default}. Relative paths are relative to this file.
# SIGHUP reads it again; [store], and the keys of [daemon] but for log_… and stop_timeout, need a restart.

[daemon]
# name = ""                     # of the service: destinations keep it with what it writes; the file's by default
state = "state"                 # directory of positions and dead letters; one daemon at a time uses it
listen = "127.0.0.1:9190"       # status page, /metrics, /healthz, /readyz; "" for none
# hosts = []                    # public names of that address, such as "replica.example.com" at a proxy
# control_token = ""            # "file:/run/secrets/control": orders at /control with that token; TLS off loopback
# tls_certificate = ""          # "tls.crt": the page by HTTPS
# tls_key = ""                  # "tls.key"
# log_level = "info"            # debug, info, warning, error
# log_format = "text"           # or "json": one object per line
# stop_timeout = 20             # seconds in which SIGTERM finishes what was begun
# sample_seconds = 5            # between two points of the plots
# otlp = ""                     # "http://collector:4318": metrics and traces go there, too (the extra otlp)
# otlp_seconds = 30             # between two exports of metrics

[store]                         # positions of sinks that do not keep them with their data
# type = "file"                 # "sqlite": one database; "mysql": a table in a server
# path = "state"                # directory of the files, or the database
# url = "mysql://replica_client:${STORE_PASSWORD}@db2/meta"
# password = "file:/run/secrets/store"
# table = "replica_client_positions"

[[source]]
name = "shop"
# Several hosts are a source and the replicas that may take its place: mysql://repl@db1,db2:3307/
url = "mysql://repl@${SHOP_HOST:-127.0.0.1:3306}/"
password = "${SHOP_PASSWORD:-secret}"   # or "file:/run/secrets/shop", read again at each login
# url = "mysql://db1/?option_file=~/.my.cnf" takes user and password from there.
tables = ["shop.*"]             # patterns with * and ?; all by default
exclude = ["shop.tmp_*"]
# columns = { "shop.customers" = ["id", "city"] }
start = "earliest"              # of the first run: earliest, latest, FILE:OFFSET, a GTID set, a time
# schema_file = ""              # tables as they were at start ("schema.json", of migrate or `schema export`)
# server_id = 4242              # of the first sink's connection; each further sink takes the next; default: random
# heartbeat = 10                # seconds of silence after which the source says that it lives
# read_timeout = 0              # seconds without a byte until a connection is dead; 0: three heartbeats
# tls = "preferred"             # disabled, preferred, required, verify-ca, verify-identity
# tls_fingerprint = "sha256:…"  # of the server's certificate: TLS with it, or no connection
# compression = ""              # zlib or zstd
# semi_sync = false             # the source waits until the sink has committed
# part_size = "16m"             # larger transactions go to the sink in parts; they are committed whole
# on_statement = "error"        # a change logged as a statement; "deliver" passes it on as text
# on_unknown_table = "error"    # a table whose columns are not known; "positional": col_1, col_2 …
# full_rows = false             # true: refuse row images that lack columns (binlog_row_image is not FULL)
# invalid_text = "strict"       # bytes that are no text of their character set: an error; "replace": U+FFFD; "bytes"
# record_losses = []            # losses that are counted with the position instead of stopping: statement,
                                # undecodable, incomplete_row, gtid_gap, unknown_table, xa_prepare, or all
# poll = 10                     # seconds between two looks at where the source's binlog ends
# signals = "shop.signals"      # a table of the source whose rows ask for snapshots, in Debezium's form
# signal_raw_filters = false    # true: who may insert there reads with SQL whatever this account may read

# What is done to rows, definitions and statements before any sink sees them. Columns of these tables that are neither
# kept nor named by a rule are withheld, those that an ALTER adds, too.
[[source.transform]]
tables = ["shop.secrets"]
keep = ["id"]
# drop = ["password"]
# mask = { name = "***" }       # values of other types than text become NULL
# truncate = { note = 2 }
# replace = { address = ["[0-9]+", "#"] }
# hash = ["email"]              # HMAC-SHA-256 by the key
# tokenise = ["phone"]          # other letters and digits by the key
# key = "file:/run/secrets/transforms"
# rename = { id = "secret_id" }
# where = "id > 100"            # rows that are given
# route = "vault.{table}"       # the table's new name
# shard = { shard = "{database}" }  # a column of the key that tells tables apart which route makes one of
# soft_delete = "deleted"       # a column that marks rows which the source has deleted
# outbox = true                 # rows are messages: columns id, aggregateid, aggregatetype, payload

# Each sink has its own connection and its own position: one that is slow or away stops no other.
[[source.sink]]
name = "lines"
type = "file"                   # or stdout, parquet, sqlite, mysql, postgres, duckdb, clickhouse, redis, kafka, http,
                                # nats, yours
path = "changes"                # a directory: changes-000001.jsonl, …
# format = "native"             # or "debezium", "maxwell", "canal"
# format_options = {}           # such as { decimal_handling_mode = "string" } of debezium
# tables, exclude, columns: instead of the source's
# snapshot = false              # true: the rows that are there come, too; "start" is not used
# snapshot_rows = 20000         # that are copied at once
# snapshot_locking = "never"    # "brief": a read lock for a moment, where a source has no GTIDs
# batch_rows = 10000            # what was written is committed at the first of these limits
# batch_bytes = "8m"
# batch_seconds = 0.5           # as commits cost where it is not given, and at most so
# on_poison = "stop"            # a change that can never be written; "dead-letter": into a file
# dead_letters = "state/shop.lines.dead-letters.jsonl"
# retry_seconds = 30            # the longest wait between two tries
# commit_timeout = 300          # seconds in which a commit must be done; then the sink is opened again
"""


RELAY_EXAMPLE: Final = """\
# What `replica-client relay` does. Every key is shown; those with a # before them have that value anyway.
# Any key can be overridden: REPLICA_CLIENT__RELAY__LISTEN=0.0.0.0:3307.
# Any text may hold ${VARIABLE} or ${VARIABLE:-default}. Relative paths are relative to this file.

[relay]
directory = "relay"             # the binlog files; one relay at a time uses it
listen = "127.0.0.1:3307"       # for replicas and other clients
status = "127.0.0.1:9191"       # status page, /metrics, /healthz, /readyz; "" for none
# hosts = []                    # public names of that address, such as "relay.example.com" at a proxy
# keep_size = ""                # "500g": remove the oldest files beyond that; "" keeps all
# keep_days = 0                 # remove files so long after their last write; 0 keeps all
# client_days = 7               # a client that has gone holds what it has not read for so long
# archive = ""                  # "s3://bucket/relay": finished files are kept there, and served from there
# semi_sync = false             # ask replicas that offer it for acknowledgements
# connections = 1000            # logged in at once
# user_connections = 100        # of one account at once; 0: any number
# write_timeout = 60            # seconds that a client may take nothing
# log_level = "info"            # debug, info, warning, error
# log_format = "text"           # or "json": one object per line

[source]
# Several hosts are a source and the replicas that may take its place (GTIDs): mysql://repl@db1,db2:3307/
url = "mysql://repl@${SHOP_HOST:-127.0.0.1:3306}/"
password = "${SHOP_PASSWORD:-secret}"   # or "file:/run/secrets/shop", read again at each login
# server_id = 4242              # ours, unique among the source's replicas; default: random
# heartbeat = 10                # seconds of silence after which the source says that it lives
# read_timeout = 0              # seconds without a byte until the connection is dead; 0: three heartbeats
# tls = "preferred"             # disabled, preferred, required, verify-ca, verify-identity
# tls_fingerprint = "sha256:…"  # of the server's certificate: TLS with it, or no connection
# compression = ""              # zlib or zstd
# semi_sync = false             # the source waits until the relay has its events on disk

[[account]]                     # who may connect to the relay
user = "replica"
password = "${RELAY_PASSWORD:-secret}"  # or "file:…"; only its hash is kept in memory
# hash = ""                     # instead: HEX(authentication_string) of mysql.user, or *… of
                                # mysql_native_password
# admin = false                 # it may PURGE BINARY LOGS, see and end connections of other accounts
# plugin = "caching_sha2_password"      # or "mysql_native_password", for MySQL 5.6 and MariaDB

# [tls]                         # without it passwords of caching_sha2_password come under an RSA key
# certificate = "relay.pem"     # certificate and chain
# key = "relay-key.pem"         # in the certificate's file when left out
# required = true               # refuse clients without TLS
"""


_UNIT = """\
# Once: useradd --system --user-group --shell /usr/sbin/nologin replica-client
[Unit]
Description=replica-client: follows MySQL and MariaDB sources ({title})
Documentation=man:systemd.service(5)
After=network-online.target
Wants=network-online.target
# The service retries on its own; a service that ends ten times in five minutes cannot start.
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
# `init` writes its file for its own user alone: the service's group gets the right to read it, and password files.
{readable}ExecStart={command} run {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=1
WatchdogSec=60
TimeoutStopSec={stop}
# Secrets as variables: ${{NAME}} in the configuration.
EnvironmentFile=-/etc/default/replica-client
User=replica-client
Group=replica-client
ConfigurationDirectory=replica-client
StateDirectory=replica-client
# The state directory in the configuration is this one:
Environment=REPLICA_CLIENT__DAEMON__STATE=/var/lib/replica-client
# glibc gives each thread a heap of its own; what is freed there stays: some MiB more after hundreds of reconnects.
Environment=MALLOC_ARENA_MAX=1
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
LockPersonality=yes
ProtectProc=invisible
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# CPython and the libraries of the sinks make no code while they run; remove this for one of your own that does.
MemoryDenyWriteExecute=yes
{writable}
[Install]
WantedBy=multi-user.target
"""


def _word(path: Path) -> str:
    """Return a path as a word of a unit: quoted, without specifiers (systemd.syntax(7), systemd.unit(5))."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    text = text.replace("%", "%%")
    return f'"{text}"' if re.search(r"[\s\"'\\;]", text) else text


def _argument(path: Path) -> str:
    """Return a path as an argument of a command: ``$`` begins no variable (systemd.service(5))."""
    return _word(path).replace("$", "$$")


def unit_file(config: DaemonConfig, command: Path) -> str:
    """Return the text of the systemd unit that runs a configuration.

    Args:
        config: the configuration.
        command: the installed ``replica-client``.
    """

    def absolute(value: object) -> Path | None:
        """Return a path of the configuration; None for a URL, a variable or no path."""
        if not isinstance(value, str) or not value:
            return None
        return None if re.search(r"\$|://", str(value)) else (config.directory / value).absolute()

    files = [route.options.get("path") for route in config.routes]
    files += [route.sink.dead_letters for route in config.routes]
    directories = [route.options.get("directory") for route in config.routes]
    (directories if config.store.type == "file" else files).append(config.store.path)
    found = {one.parent for one in map(absolute, files) if one}
    paths = sorted({*map(_word, found), *(_word(one) for one in map(absolute, directories) if one)})
    writable = f"# Where sinks write:\nReadWritePaths={' '.join(paths)}\n" if paths else ""
    secrets = [
        config.directory / Path(one).expanduser()
        for one in re.findall(r'"file:([^"$]+)"', config.file.read_text())
    ]
    names = " ".join(_argument(one.absolute()) for one in (config.file, *secrets))
    readable = "".join(
        f"ExecStartPre=+{step} {names}\n"
        for step in ("/bin/chgrp replica-client", "/bin/chmod 0640")
    )
    return _UNIT.format(
        readable=readable,
        title=str(config.file.absolute()).replace("%", "%%").replace("\n", " "),
        config=_argument(config.file.absolute()),
        command=_word(command),
        stop=int(config.daemon.stop_timeout + 10),
        writable=writable,
    )
