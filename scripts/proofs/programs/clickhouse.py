"""mysql_ch_replicator: a MySQL's tables in ClickHouse."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

from programs.environments import PATIENCE, Run
from programs.programs import Program
from programs.shop import Shop, prepare

ENGINE = Path(__file__).with_name("clickhouse_engine.py")
QUERY = "SELECT * EXCEPT(_version) FROM shop.orders FINAL ORDER BY id FORMAT JSONEachRow"


class MysqlChReplicator(Program):
    """``run_all``: its own copy of python-mysql-replication reads the binlog, another process writes.

    The ClickHouse is the engine in chdb behind its HTTP interface.
    """

    name = "mysql-ch-replicator 0.1.16"
    packages = ("mysql-ch-replicator==0.1.16", "chdb==4.4.0")
    server = "mysql-9.7"
    fills = True
    stream = "mysql_ch_replicator.pymysqlreplication"
    options = ("--children", "--instead-of", stream)

    def run(self, shop: Shop, ours: bool) -> Run:
        """Let it copy the empty table, then change that, until ClickHouse has what the source has."""
        prepare(shop.server)
        home = self.directory / f"clickhouse-{'ours' if ours else 'theirs'}"
        (home / "binlog").mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        engine = [str(self.environment.python), str(ENGINE), str(port), str(home / "data")]
        with (home / "engine.log").open("wb") as log:
            process = subprocess.Popen(engine, stdout=log, stderr=log)
        try:
            return self._replicate(shop, ours, port, home)
        finally:
            process.kill()
            process.wait()

    def _replicate(self, shop: Shop, ours: bool, port: int, home: Path) -> Run:
        deadline = time.monotonic() + PATIENCE
        while _ask(port, "SELECT 1") != "1\n":
            if time.monotonic() > deadline:
                return Run("", 0, (home / "engine.log").read_text()[-2000:])
            time.sleep(0.2)
        configuration = {
            "mysql": shop.settings,
            "clickhouse": {"host": "127.0.0.1", "port": port, "user": "default", "password": ""},
            "binlog_replicator": {"data_dir": str(home / "binlog"), "records_per_file": 100_000},
            "databases": "shop",
            "log_level": "info",
        }
        file = home / "config.yaml"
        file.write_text(json.dumps(configuration))
        done: list[Shop] = []

        def is_done() -> bool:
            if "orders" not in _ask(port, "SHOW TABLES FROM shop"):
                return False
            if not done:
                done.append(shop.filled())
            found = _ask(port, "SELECT count(), min(id) FROM shop.orders FINAL")
            return found.split() == [str(shop.left), str(shop.inserted // 4 + 1)]

        program = str(self.environment.bin / "mysql_ch_replicator")
        command = self.environment.command(
            ours, program, "--config", str(file), "run_all", options=self.options
        )
        run = self.environment.run(command, home, is_done=is_done)
        self.shop = done[0] if done else shop
        return Run(_ask(port, QUERY), run.cpu, run.fault, run.parts)


def _ask(port: int, query: str) -> str:
    address = f"http://127.0.0.1:{port}/?query={urllib.parse.quote(query)}"
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
