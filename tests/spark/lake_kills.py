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
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pyspark

from replica_client.errors import ReplicaClientError
from replica_client.lake.config import load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.pipeline_state import PATIENCE
from replica_client.lake.spark.spark_session import java_home
from replica_client.lake.verify.verification import Verification, VerifyReport
from replica_client.storage.location import Location, ObjectUrl
from tests.spark.lake_workload import DATABASE, Workload, compare
from tests.spark.observed_pipeline import (
    COPYING,
    IDLE,
    WITHIN,
    WITHOUT_SPARK,
    die_in,
    forget_phase,
    live_on,
    read_phase,
)

WEIGHTS = {"driver": 6, "executor": 2, "java": 1, "connection": 1, "server": 1}
SIGKILLS = ("driver", "executor", "java")
"""Kinds of kills that end a process of the pipeline; the others are faults of its source."""

_AGAIN = 14
"""Times that a driver is killed again, at most, while it goes on with what the one before it left."""
_EXECUTOR_SECONDS = 90
_ROOT = Path(__file__).resolve().parents[2]
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class Report:
    """What happened.

    Attributes:
        kills: by what was killed.
        instants: SIGKILLs by what the driver was doing.
        epochs: times that all tables were compared with SELECT.
        looks: times that all current tables were compared right behind a kill, before anything was mended.
    """

    kills: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    looks: int = 0
    instants: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    exits: list[str] = field(default_factory=list)
    statements: Counter[str] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=dict)
    verified: VerifyReport | None = None

    @property
    def sigkills(self) -> int:
        """Processes of the pipeline that were killed."""
        return sum(self.kills[kind] for kind in SIGKILLS)

    def killed(self, kind: str, phase: str) -> None:
        self.kills[kind] += 1
        if kind in SIGKILLS:
            self.instants[phase] += 1

    def __str__(self) -> str:
        inside = self.sigkills - self.instants[IDLE]
        return (
            f"{self.sigkills} SIGKILLs and {sum(self.kills.values()) - self.sigkills} other faults {dict(self.kills)}, "
            f"{inside} inside a phase {dict(self.instants)}; {self.starts} starts, {dict(self.statements)} statements; "
            f"{self.epochs} times all tables equal, {self.looks} times right behind a kill; rows {self.rows}"
        )


@contextmanager
def standalone_cluster(directory: Path, workers: int = 1) -> Iterator[str]:
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
            worker = ["org.apache.spark.deploy.worker.Worker", "--cores", str(2 // workers), "--memory", "1g",
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
    merge: str = "always",
    soft_deletes: bool = False,
    log_only: bool = False,
    more: str = "",
) -> Path:
    """The pipeline's configuration; executors have the environment, as on a cluster."""
    file = directory / "pipeline.toml"
    engine = "local" if master == "local[2]" else "spark"
    # In a store it lies in the output.
    checkpoint = "" if "://" in output else 'checkpoint = "checkpoint"\n'
    file.write_text(
        f'[source]\nurl = "{url}"\ntables = ["{DATABASE}.*"]\nstart = "{"earliest" if log_only else "snapshot"}"\n'
        'partition_size = "200k"\n'  # several tasks read a batch that has waited
        f'[pipeline]\noutput = "{output}"\n{checkpoint}trigger = "{trigger}"\n'
        'interval = "500 milliseconds"\n'
        f'master = "{master}"\nengine = "{engine}"\nmax_bytes_per_trigger = "1m"\n{more}\n[lake]\nchunk_rows = 500\n'
        f'distribute_above = "{distribute_above}"\nmerge = "{merge}"\n'
        f"history = {str(history and not log_only).lower()}\n"
        f"soft_deletes = {str(soft_deletes and not log_only).lower()}\n"
        f"current = {str(not log_only).lower()}\n"
        f'[spark]\n"spark.driver.extraJavaOptions" = "{_LIGHT}"\n"spark.executor.memory" = "512m"\n'
        f'"spark.executor.extraJavaOptions" = "{_LIGHT}"\n"spark.task.maxFailures" = "20"\n'
        '"spark.cores.max" = "2"\n'
        + "".join(
            f'"spark.executorEnv.{name}" = "{value}"\n'
            for name, value in (environment or {}).items()
        )
    )
    return file


class Pipeline:
    """The process under test; it is started again when it has ended."""

    def __init__(self, config: Path, report: Report) -> None:
        self.config = config
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
                 "pipeline", str(self.config)],
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

    def kill_in(self, *phases: str, seconds: float = 120) -> str | None:
        """The same in the next phase of these kinds, or anywhere when there is none for so long.

        Gives the phase; None when the process ended by itself.
        """
        die_in(self.directory, *phases)
        self.ensure()
        assert self.process is not None
        with suppress(subprocess.TimeoutExpired):
            if self.process.wait(seconds) != -signal.SIGKILL:
                self.ensure()
                live_on(self.directory)
                return None
        phase = read_phase(self.directory)
        self.kill()
        live_on(self.directory)
        return phase

    def kill_java(self) -> bool:
        """The driver's Java, if there is one; its Python has to notice."""
        assert self.process is not None
        found = processes(lambda path: _is_java_of(path, self.process.pid))
        for number in found:
            os.kill(number, signal.SIGKILL)
        return bool(found)

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
    whole_inserts: bool = False, history: bool = False, merge: str = "always", epoch: int = 25,
    soft_deletes: bool = False, between: float = 0.02, backlog: float = 0,
) -> Report:  # fmt: skip
    """Kills at random until there were so many or the time is over; compares everything after each epoch.

    A driver that goes on with what one before it left is killed again, several times: it does so before it starts
    Spark, so that such kills are cheap, and they hit recovery itself.

    Args:
        server: a fresh one.
        directory: for configuration, checkpoint and logs.
        kills: SIGKILLs and other faults.
        seed: of the workload and of the kills.
        seconds: after which no epoch begins.
        say: takes a line about each kill.
        weights: of the kinds of kills.
        cluster: a standalone one; else the driver's process does the work.
        pauses: least and most seconds between two kills.
        ddl: share of DDL in transactions.
        output: the lake, with `access` to its store in the environment; None: a directory.
        access: see there.
        whole_inserts: INSERTs give all columns a value.
        history: versions of rows are kept.
        merge: see ``merge`` in ``[lake]``.
        epoch: kills between two comparisons.
        soft_deletes: deleted rows stay, marked.
        between: seconds between two transactions.
        backlog: seconds of transactions that are logged first; then only drivers are killed that take them, before
            they start Spark: many kills for each start of it. 0: what is described above.
    """
    rng = random.Random(seed)
    report = Report()
    chances = weights or {k: w for k, w in WEIGHTS.items() if cluster or k != "executor"}
    first = Workload(server, seed, between, ddl, whole=whole_inserts)
    first.prepare()
    first.make_twins()
    deadline = time.monotonic() + seconds
    lake = output or directory / "lake"
    run = _Proof(server, directory, rng, report, chances, pauses, lake, say)
    run.configured = lambda master, trigger, log_only: write_config(
        directory, server.url(), master, trigger, str(lake), access, "64m" if backlog else "256k", history, merge,
        soft_deletes, log_only,
    )  # fmt: skip
    workload = first
    with standalone_cluster(directory) if cluster else nullcontext("local[2]") as master:
        while (done := sum(report.kills.values())) < kills and (
            not report.epochs or time.monotonic() < deadline
        ):
            if report.epochs:
                workload = first.again(seed + done + 1000 * report.epochs)
            if backlog:
                run.backlog(master, workload, min(kills, done + epoch), backlog)
            else:
                run.epoch(master, workload, min(kills, done + epoch))
    return report


class _Proof:
    def __init__(
        self, server: Any, directory: Path, rng: random.Random, report: Report, chances: dict[str, int],
        pauses: tuple[float, float], lake: Location, say: Any,
    ) -> None:  # fmt: skip
        self._server = server
        self._directory = directory
        self._rng = rng
        self._report = report
        self._chances = chances
        self._pauses = pauses
        self._lake = lake
        self._say = say
        self.configured: Callable[[str, str, bool], Path]

    def epoch(self, master: str, workload: Workload, kills: int) -> None:
        """Kills until there were so many; then everything has to be equal."""
        report = self._report
        live_on(self._directory)
        pipeline = Pipeline(self.configured(master, "continuous", False), report)
        pipeline.ensure()
        workload.start()
        try:
            until = time.monotonic() + 600
            while not _current(self._lake) and time.monotonic() < until:
                pipeline.ensure()
                time.sleep(1)
            while sum(report.kills.values()) < kills:
                time.sleep(self._rng.uniform(*self._pauses))
                pipeline.ensure()
                self._kill(pipeline, workload)
        finally:
            workload.stop()
            pipeline.kill()
            report.statements += workload.statements
        self._compare()

    def backlog(self, master: str, workload: Workload, kills: int, seconds: float) -> None:
        """Kills drivers that take a change log of so many seconds into the tables."""
        live_on(self._directory)
        if not self._report.epochs:
            self._finish(self.configured(master, "available-now", False))
        workload.start()
        time.sleep(seconds)
        workload.stop()
        self._report.statements += workload.statements
        self._finish(self.configured(master, "available-now", True))
        self._say(f"a change log of {dict(workload.statements)} statements is to be taken")
        pipeline = Pipeline(self.configured(master, "available-now", False), self._report)
        try:
            while sum(self._report.kills.values()) < kills:
                wanted = self._rng.sample(WITHOUT_SPARK, 3)
                phase = pipeline.kill_in(*wanted, seconds=PATIENCE + 300)
                if phase in (None, IDLE):
                    break  # all of it is taken
                self._tell("driver", phase)
                if self._rng.random() < 0.05:
                    self._report.looks += self._verified(pipeline.config) is not None
        finally:
            live_on(self._directory)
            pipeline.kill()
        self._compare()

    def _finish(self, config: Path) -> None:
        """A run to the end."""
        one = Pipeline(config, self._report)
        one.ensure()
        status = one.finish()
        assert status == 0, one.log.read_text(errors="replace")[-2000:]

    def _compare(self) -> None:
        """After a run to the end everything has to be equal."""
        report = self._report
        config = self.configured("local[2]", "available-now", False)
        self._finish(config)
        report.verified = self._verified(config)
        assert report.verified is not None
        report.rows = compare(self._server, self._lake)
        report.epochs += 1
        self._say(f"all equal: {report}")

    def _kill(self, pipeline: Pipeline, workload: Workload) -> None:
        rng = self._rng
        kind = rng.choices(list(self._chances), list(self._chances.values()))[0]
        phase = read_phase(self._directory)
        if kind == "connection":
            kill_connections(self._server)
        elif kind == "server":
            self._server.kill()
            time.sleep(rng.uniform(0, 2))
            self._server.restart()
        elif kind == "executor":
            # Spark starts long after the driver.
            until = time.monotonic() + _EXECUTOR_SECONDS
            while not (found := executors_of(self._directory)[:1]) and time.monotonic() < until:
                pipeline.ensure()
                time.sleep(0.1)
            if not found:
                return
            time.sleep(rng.uniform(0, 2))
            phase = read_phase(self._directory)
            with suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)
        elif kind == "java":
            if not pipeline.kill_java():
                return
        else:
            wanted = rng.sample(list(WITHIN), 3)
            if set(wanted) & set(COPYING):
                workload.want_copy()
            phase = pipeline.kill_in(*wanted)
        self._tell(kind, phase)
        if kind != "driver":
            return
        for _ in range(rng.randrange(_AGAIN + 1)):
            if phase not in (*WITHOUT_SPARK, "copy commit"):
                break  # it has left nothing to go on with
            if rng.random() < 0.1:
                # What readers see while no pipeline runs: tables that are said to be current are the source's.
                self._report.looks += self._verified(pipeline.config) is not None
            # In a store it waits first until it may believe that the one before it is dead.
            seconds = PATIENCE + 60 if isinstance(self._lake, ObjectUrl) else 30
            phase = pipeline.kill_in(*rng.sample(WITHOUT_SPARK, 2), seconds=seconds)
            self._tell(kind, phase)
        pipeline.ensure()

    def _tell(self, kind: str, phase: str | None) -> None:
        if phase is None:
            return
        self._report.killed(kind, phase)
        self._say(
            f"{time.strftime('%H:%M:%S')} {sum(self._report.kills.values())}: {kind}, in {phase}"
        )

    def _verified(self, config: Path) -> VerifyReport | None:
        try:
            found = Verification(load_config(config)).run()
        except (ReplicaClientError, OSError) as error:
            self._say(f"not looked at: {error}")
            return None
        wrong = [one for one in found.tables if one.outcome == "different"]
        assert not wrong, wrong
        return found


def _current(lake: Location) -> bool:
    catalog = LakeCatalog.load(lake)
    return catalog is not None and any(t.status == "current" for t in catalog.tables.values())
