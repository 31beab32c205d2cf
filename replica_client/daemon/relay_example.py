"""An example of a relay's configuration with every key."""

from __future__ import annotations

from typing import Final

EXAMPLE: Final = """\
# What `replica-client relay` does. Every key is shown; those with a # before them have that value anyway.
# Any key can be overridden: REPLICA_CLIENT__RELAY__LISTEN=0.0.0.0:3307.
# Any text may hold ${VARIABLE} or ${VARIABLE:-default}. Relative paths are relative to this file.

[relay]
directory = "relay"             # the binlog files; one relay at a time uses it
listen = "127.0.0.1:3307"       # for replicas and other clients
status = "127.0.0.1:9191"       # status page, /metrics, /healthz, /readyz; "" for none
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
