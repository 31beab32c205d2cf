"""The programs: how each is installed, told what to do, and what it delivers."""

from __future__ import annotations

import json
import re
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from programs.environments import Environment, Run
from programs.recorder import Recorder
from programs.shop import Shop


class Program(ABC):
    """A program on one of the originals.

    Attributes:
        name: what it is called.
        packages: it and the original, as it asks for them.
        server: which source it is run on.
        step: rows in a statement of the workload.
        fills: it has to know the empty table before the workload runs, and runs it itself.
        stream: the package that reads the binlog.
        options: of the shim.
        shop: what was filled last, by a program that does it itself.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    server: ClassVar[str]
    step: ClassVar[int] = 100
    fills: ClassVar[bool] = False
    stream: ClassVar[str] = "pymysqlreplication"
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, environment: Environment, directory: Path) -> None:
        self.environment = environment
        self.directory = directory
        self.shop: Shop | None = None

    @abstractmethod
    def run(self, shop: Shop, ours: bool) -> Run:
        """Let it do its job, with the original or with the shim."""


class TapMysql(Program):
    """A Singer tap: the binlog as RECORD messages."""

    name = "pipelinewise-tap-mysql 1.6.0"
    packages = ("pipelinewise-tap-mysql==1.6.0", "setuptools<81")
    server = "mariadb-11.8"

    def run(self, shop: Shop, ours: bool) -> Run:
        """Discover, then read from the start of the file."""
        tap = str(self.environment.bin / "tap-mysql")
        settings = shop.settings | {"port": str(shop.settings["port"])}
        settings |= {"engine": "mariadb", "server_id": "7771", "use_gtid": False}
        config = self._write("config.json", settings)
        command = [str(self.environment.python), tap, "--config", config, "--discover"]
        found = subprocess.run(command, check=True, capture_output=True)
        catalog = json.loads(found.stdout)
        catalog["streams"] = [s for s in catalog["streams"] if s["table_name"] == "orders"]
        for metadata in catalog["streams"][0]["metadata"]:
            if not metadata["breadcrumb"]:
                metadata["metadata"] |= {"selected": True, "replication-method": "LOG_BASED"}
        position = {"log_file": shop.file, "log_pos": 4, "version": 1}
        state = {"bookmarks": {catalog["streams"][0]["tap_stream_id"]: position}}
        files = ("--catalog", self._write("catalog.json", catalog))
        files += ("--state", self._write("state.json", state))
        command = self.environment.command(ours, tap, "--config", config, *files)
        done = self.environment.run(command, self.directory)
        # When it ran, and the order of a schema's properties, differ from run to run.
        lines = [
            json.dumps(json.loads(line), sort_keys=True)
            for line in done.output.splitlines()
            if line
        ]
        text = re.sub(r'"time_extracted": "[^"]*"', "", "\n".join(lines))
        return Run(text, done.cpu, done.fault)

    def _write(self, name: str, value: object) -> str:
        path = self.directory / name
        path.write_text(json.dumps(value))
        return str(path)


class Binlog2sql(Program):
    """The binlog as SQL statements."""

    name = "binlog2sql"
    packages = ("PyMySQL==0.7.11", "mysql-replication==0.13")
    server = "mysql-5.6"
    source = "https://github.com/danfengcao/binlog2sql.git"
    options = ("--names-from-source",)

    def run(self, shop: Shop, ours: bool) -> Run:
        """From the start of the file to the end of the binlog."""
        program = self.environment.bin.parent / "binlog2sql/binlog2sql/binlog2sql.py"
        if not program.exists():
            clone = ["git", "clone", "--quiet", "--depth=1", self.source, program.parents[1]]
            subprocess.run(clone, check=True)
        settings = shop.settings
        arguments = [f"-h{settings['host']}", f"-P{settings['port']}", "-udep", "-pdep", "-dshop"]
        arguments += ["--start-file", shop.file]
        command = self.environment.command(ours, str(program), *arguments, options=self.options)
        return self.environment.run(command, self.directory)


class Meilisync(Program):
    """Rows into a search engine, on asyncmy; it takes the first row of each event."""

    name = "meilisync 0.1.3"
    packages = ("meilisync[all]==0.1.3", "asyncmy==0.2.18", "PyMySQL")
    server = "mysql-9.7"
    step = 1
    stream = "asyncmy"

    def run(self, shop: Shop, ours: bool) -> Run:
        """From the start of the file until all documents are there."""
        progress = self.directory / "progress.json"
        position = {"master_log_file": shop.file, "master_log_position": 4}
        progress.write_text(json.dumps(position))
        # It hands Decimal to a JSON encoder that does not take it.
        fields = {name: name for name in ("id", "customer", "state", "placed", "due", "note")}
        with Recorder() as recorder:
            settings = {
                "progress": {"type": "file", "path": str(progress)},
                "source": {"type": "mysql", "database": "shop", "server_id": 7772, **shop.settings},
                "meilisearch": {"api_url": recorder.url, "insert_size": 100, "insert_interval": 1},
                "sync": [{"table": "orders", "pk": "id", "fields": fields}],
            }
            config = self.directory / "config.yml"
            config.write_text(json.dumps(settings))
            program = str(self.environment.bin / "meilisync")
            command = self.environment.command(ours, program, "-c", str(config), "start")
            rows = shop.rows * 4 // 7
            done = self.environment.run(
                command, self.directory, is_done=lambda: recorder.is_idle(rows - rows // 4)
            )
            return Run(recorder.text(), done.cpu, done.fault)
