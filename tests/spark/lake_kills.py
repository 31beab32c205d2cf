"""A pipeline on a real standalone cluster that loses its driver, executors, server and connections."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pyspark

from replica_client.lake.config import load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.verify.verification import Verification, VerifyReport
from replica_client.spark.pipeline.java import java_home
from replica_client.storage.location import Location
from tests.spark.lake_workload import DATABASE, Workload, compare
from tests.spark.observed_pipeline import COPYING, WITHIN, die_in, forget_phase, read_phase

WEIGHTS = {"driver": 6, "executor": 2, "java": 1, "connection": 2, "server": 1}
_ROOT = Path(__file__).resolve().parents[2]
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class Report:
    """What happened."""

    kills: Counter[str] = field(default_factory=Counter)
    instants: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    exits: list[str] = field(default_factory=list)
    statements: Counter[str] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=dict)
    verified: VerifyReport | None = None


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """A master and workers, processes of their own; gives the master's URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = java_home()
    environment = {
        **os.environ,
        **({"JAVA_HOME": home} if home else {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _LIGHT,
        "PYSPARK_PYTHON": sys.executable,
    }
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    url = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
              "--webui-port", "0"]  # fmt: skip
    processes = []
    try:
        for number in range(workers + 1):
            worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g",
                      "--webui-port", "0", "--work-dir", str(directory / f"work{number}"), url]  # fmt: skip
            log = (directory / f"cluster{number}.log").open("wb")
            processes.append(
                subprocess.Popen(
                    [spark_class, *(worker if number else master)],
                    env=environment, stdout=log, stderr=log, start_new_session=True,
                )
            )  # fmt: skip
            if not number:
                wait_port(port)
        yield url
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_port(port: int) -> None:
    """Returns when something listens there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.3)
    raise TimeoutError(f"nothing listens at port {port}")


def write_config(
    directory: Path,
    url: str,
    master: str,
    trigger: str,
    output: str = "lake",
    environment: Mapping[str, str] | None = None,
    distribute_above: str = "16m",
    history: bool = False,
) -> Path:
    """The pipeline's configuration; executors have the environment, as on a cluster."""
    file = directory / "pipeline.toml"
    file.write_text(
        f'[source]\nurl = "{url}"\ntables = ["{DATABASE}.*"]\nstart = "snapshot"\n'
        f'[pipeline]\noutput = "{output}"\ncheckpoint = "checkpoint"\ntrigger = "{trigger}"\n'
        'interval = "500 milliseconds"\n'
        f'master = "{master}"\nmax_bytes_per_trigger = "1m"\n[lake]\nchunk_rows = 500\n'
        f'distribute_above = "{distribute_above}"\nhistory = {str(history).lower()}\n'
        f'[spark]\n"spark.driver.extraJavaOptions" = "{_LIGHT}"\n"spark.executor.memory" = "512m"\n'
        f'"spark.executor.extraJavaOptions" = "{_LIGHT}"\n"spark.task.maxFailures" = "20"\n'
        '"spark.sql.streaming.numRecentProgressUpdates" = "20"\n"spark.cores.max" = "2"\n'
        + "".join(
            f'"spark.executorEnv.{name}" = "{value}"\n'
            for name, value in (environment or {}).items()
        )
    )
    return file


class Pipeline:
    """The process under test; it is started again when it has ended."""

    def __init__(self, config: Path, report: Report) -> None:
        self._config = config
        self._report = report
        self.process: subprocess.Popen[str] | None = None
        self.directory = config.parent
        self.log = config.parent / "pipeline.log"

    def ensure(self) -> None:
        process = self.process
        if process is not None and process.poll() is None:
            return
        if process is not None:
            text = self.log.read_text(errors="replace").strip().splitlines()
            self._report.exits.append(f"{process.returncode}: {text[-1][:300] if text else ''}")
            self._end_group()
        forget_phase(self.directory)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.observed_pipeline", str(self.directory),
                 "pipeline", str(self._config)],
                cwd=_ROOT, stdout=log, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        self._report.starts += 1

    def kill(self) -> None:
        """The driver's Python alone; its Java has to notice. The next start is another process."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            self._end_group()
            self.process = None

    def kill_in(self, phase: str, seconds: float = 180) -> None:
        """The same in the next phase of a kind, or anywhere when there is none for so long."""
        assert self.process is not None
        die_in(self.directory, phase)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.kill()

    def kill_java(self) -> None:
        """The driver's Java; its Python has to notice."""
        assert self.process is not None
        for number in processes(lambda path: _is_java_of(path, self.process.pid)):
            os.kill(number, signal.SIGKILL)

    def _end_group(self) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def finish(self) -> int:
        assert self.process is not None
        return self.process.wait(900)


def processes(wanted: Callable[[Path], bool]) -> list[int]:
    """Processes whose directories in /proc are wanted."""
    found = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and wanted(path):
                found.append(int(path.name))
    return found


def _is_java_of(path: Path, leader: int) -> bool:
    session = (path / "stat").read_text().rpartition(")")[2].split()[3]
    return int(session) == leader and b"java" in (path / "cmdline").read_bytes().split(b"\0")[0]


def executors_of(directory: Path) -> list[int]:
    """Processes of executors that the workers in a directory started."""

    def is_one(path: Path) -> bool:
        words = (path / "cmdline").read_bytes()
        return b"CoarseGrainedExecutorBackend" in words and os.readlink(path / "cwd").startswith(
            str(directory)
        )

    return processes(is_one)


def kill_connections(server: Any) -> None:
    """Ends every session of the replica's user."""
    rows = server.query(
        "select id from information_schema.processlist where user = %s", (server.user,)
    )
    for (number,) in rows:
        with suppress(pymysql.err.MySQLError):
            server.execute(f"kill {int(number)}")


def prove(
    server: Any, directory: Path, *, kills: int, seed: int, seconds: float, say: Any = print,
    weights: dict[str, int] | None = None, cluster: bool = True, pauses: tuple[float, float] = (1, 6),
    ddl: float = 0.02, output: Location | None = None, access: Mapping[str, str] | None = None,
    whole_inserts: bool = False, history: bool = False,
) -> Report:  # fmt: skip
    """Kills at random until there were so many or the time is over; then compares everything.

    `output` is the lake, with `access` to its store in the environment; else a directory.
    """
    rng = random.Random(seed)
    report = Report()
    # Without a cluster executors are threads of the driver's Java.
    chances = weights or {k: w for k, w in WEIGHTS.items() if cluster or k != "executor"}
    workload = Workload(server, seed, ddl=ddl, whole=whole_inserts)
    workload.prepare()
    workload.make_twins()
    deadline = time.monotonic() + seconds
    url = server.url()
    lake = output or directory / "lake"

    def configured(master: str, trigger: str) -> Path:
        return write_config(directory, url, master, trigger, str(lake), access, "256k", history)

    def run(master: str) -> None:
        config = configured(master, "continuous")
        pipeline = Pipeline(config, report)
        pipeline.ensure()
        workload.start()
        while not _current(lake):
            pipeline.ensure()
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        try:
            while sum(report.kills.values()) < kills and time.monotonic() < deadline:
                time.sleep(rng.uniform(*pauses))
                pipeline.ensure()
                kind = rng.choices(list(chances), list(chances.values()))[0]
                phase = _kill(kind, server, pipeline, directory, rng, workload)
                report.kills[kind] += 1
                report.instants[phase] += 1
                say(f"{sum(report.kills.values())}: {kind}, in {phase}")
        finally:
            workload.stop()
            pipeline.kill()

    if cluster:
        with standalone_cluster(directory) as master:
            run(master)
    else:
        run("local[2]")
    config = configured("local[2]", "available-now")
    last = Pipeline(config, report)
    last.ensure()
    status = last.finish()
    assert status == 0, last.log.read_text(errors="replace")[-2000:]
    report.statements = workload.statements
    report.verified = Verification(load_config(config)).run()
    assert report.verified.equal, report.verified
    report.rows = compare(server, lake)
    return report


def _current(lake: Location) -> bool:
    catalog = LakeCatalog.load(lake)
    return catalog is not None and any(t.status == "current" for t in catalog.tables.values())


def _kill(
    kind: str,
    server: Any,
    pipeline: Pipeline,
    directory: Path,
    rng: random.Random,
    workload: Workload,
) -> str:
    """Gives what the driver was doing."""
    phase = read_phase(directory)
    if kind == "connection":
        kill_connections(server)
    elif kind == "server":
        server.kill()
        time.sleep(rng.uniform(0, 2))
        server.restart()
    elif kind == "executor":
        for number in executors_of(directory)[:1]:
            os.kill(number, signal.SIGKILL)
    elif kind == "java":
        pipeline.kill_java()
    else:
        wanted = rng.choice(list(WITHIN))
        if wanted in COPYING:
            workload.want_copy()
        pipeline.kill_in(wanted)
        phase = read_phase(directory)
        pipeline.ensure()
    return phase
