"""pg_chameleon: a MySQL's or MariaDB's tables in a real PostgreSQL."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from programs.environments import Environment, Run
from programs.programs import Program
from programs.shop import Shop, prepare
from tests.integration.postgres_server import PostgresServer

TABLE = "copied.orders"


class PgChameleon(Program):
    """Copies the empty table, then brings its changes; they are there when it begins to follow."""

    name = "pg_chameleon 2.0.21"
    packages = ("pg_chameleon==2.0.21", "mysql-replication==1.0.17", "setuptools<81")
    # From MariaDB 11.4 on, events tell no position of their own, and it passes over all rows with both.
    server = "mariadb-10.11"
    fills = True

    def __init__(self, environment: Environment, directory: Path) -> None:
        super().__init__(environment, directory)
        self._postgres: PostgresServer | None = None

    def run(self, shop: Shop, ours: bool) -> Run:
        """Set up a replica, let it follow until PostgreSQL has what the source has."""
        with tempfile.TemporaryDirectory(prefix="pg") as name:
            postgres = PostgresServer(Path(name))
            try:
                return self._replicate(shop, ours, postgres.url)
            finally:
                postgres.stop()

    def _replicate(self, shop: Shop, ours: bool, target: str) -> Run:
        import psycopg2  # of the extra recipes

        prepare(shop.server)
        home = self.directory / f"chameleon-{'ours' if ours else 'theirs'}"
        settings = home / ".pg_chameleon/configuration"
        settings.mkdir(parents=True)
        for folder in ("pid", "logs"):
            (home / ".pg_chameleon" / folder).mkdir()
        (settings / "default.yml").write_text(json.dumps(_configuration(shop, target, home)))
        program = str(self.environment.bin / "chameleon.py")
        variables = {"HOME": str(home)}
        # It does not run as root: where that is the user, it sees itself as another one.
        other = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
        start = other if os.geteuid() == 0 else []
        names = ("--config", "default")
        source = (*names, "--source", "mysql")
        for words in (
            ("create_replica_schema", *names),
            ("add_source", *source),
            ("init_replica", *source, "--debug"),
        ):
            done = self.environment.run(
                [*start, *self.environment.command(ours, program, *words)],
                home,
                variables=variables,
            )
            if done.fault:
                return done
        self.shop = filled = shop.filled()
        with psycopg2.connect(target) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:

                def is_done() -> bool:
                    cursor.execute(f"SELECT count(*), min(id) FROM {TABLE}")
                    return cursor.fetchone() == (filled.left, filled.inserted // 4 + 1)

                words = ("start_replica", *source, "--debug")
                command = self.environment.command(ours, program, *words)
                done = self.environment.run(
                    [*start, *command], home, is_done=is_done, variables=variables
                )
                cursor.execute(f"SELECT * FROM {TABLE} ORDER BY id")
                text = "\n".join(map(repr, cursor.fetchall()))
        return Run(text, done.cpu, done.fault, done.parts)


def _configuration(shop: Shop, target: str, home: Path) -> dict[str, object]:
    where = urlsplit(target)
    return {
        "pid_dir": str(home / ".pg_chameleon/pid"),
        "log_dir": str(home / ".pg_chameleon/logs"),
        "log_dest": "file",
        "log_level": "info",
        "log_days_keep": 10,
        "rollbar_key": "",
        "rollbar_env": "",
        "type_override": {},
        "pg_conn": {
            "host": where.hostname,
            "port": str(where.port),
            "user": where.username,
            "password": where.password,
            "database": where.path[1:],
            "charset": "utf8",
        },
        "sources": {
            "mysql": {
                "type": "mysql",
                "db_conn": {**shop.settings, "charset": "utf8", "connect_timeout": 10},
                "schema_mappings": {"shop": TABLE.partition(".")[0]},
                "limit_tables": [],
                "skip_tables": [],
                "grant_select_to": [],
                "lock_timeout": "120s",
                "my_server_id": 7775,
                "replica_batch_size": 10_000,
                "replay_max_rows": 10_000,
                "batch_retention": "1 day",
                "copy_max_memory": "300M",
                "copy_mode": "file",
                "out_dir": "/tmp",
                "sleep_loop": 1,
                "on_error_replay": "continue",
                "on_error_read": "exit",
                "auto_maintenance": "disabled",
                "gtid_enable": False,
                "skip_events": {"insert": [], "delete": [], "update": []},
                "keep_existing_schema": False,
                "net_read_timeout": 600,
            }
        },
    }
