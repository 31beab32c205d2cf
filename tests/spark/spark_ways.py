"""The ways to start Spark, each run for real: spark-submit, a standalone cluster, Spark Connect."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

import replica_client
from replica_client.lake.spark.spark_session import java_home
from tests.spark.lake_kills import standalone_cluster, wait_port, write_config
from tests.spark.lake_workload import DATABASE, Workload, compare

_MAIN = Path(replica_client.__file__).parent / "__main__.py"
_CONNECT = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
options = json.loads(sys.argv[2])
batch = spark.read.format("mysql-binlog").options(**options).load()
rows = batch.where("operation in ('insert', 'update', 'delete')").count()
query = (
    spark.readStream.format("mysql-binlog").options(**options).load()
    .writeStream.format("parquet").option("path", sys.argv[3]).option("checkpointLocation", sys.argv[4])
    .trigger(availableNow=True).start()
)
query.awaitTermination(120)
found = spark.read.parquet(sys.argv[3]).where("operation in ('insert', 'update', 'delete')")
print(json.dumps([rows, found.count(), found.selectExpr("sum(hash(before, after))").first()[0],
                  batch.where("operation in ('insert', 'update', 'delete')")
                  .selectExpr("sum(hash(before, after))").first()[0]]))
spark.stop()
"""


def _environment() -> dict[str, str]:
    home = java_home()
    return {
        **os.environ,
        **({"JAVA_HOME": home} if home else {}),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(_MAIN.parent.parent), os.environ.get("PYTHONPATH", "")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _run(*words: str) -> str:
    done = subprocess.run(
        words, env=_environment(), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, (words, done.returncode, done.stdout[-500:], done.stderr[-2000:])
    return done.stdout


def _submit(master: str, *words: str) -> str:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = ("--conf", "spark.cores.max=2", "--conf", "spark.executor.memory=512m")
    return _run(submit, "--master", master, *settings, str(_MAIN), *words)


def _result(text: str) -> dict[str, Any]:
    """The command's line; spark-submit gives what goes to standard error before it, too."""
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found


def _submitted(server: Any, directory: Path, master: str) -> str:
    config = write_config(directory, server.url(), "", "available-now")
    config.write_text(config.read_text().replace('master = ""\n', ""))
    return _followed(server, directory, config, lambda *words: _submit(master, *words))


def _followed(server: Any, directory: Path, config: Path, command: Callable[..., str]) -> str:
    """Copy, follow, and verify on executors."""
    server.execute(f"drop database if exists {DATABASE}")
    workload = Workload(server, 1)
    workload.prepare()
    first = _result(command("pipeline", "--json", str(config)))
    server.execute(f"update {DATABASE}.orders set v = v + 1 where id < 100")
    server.execute(f"delete from {DATABASE}.`lines` where nr < 10")
    second = _result(command("pipeline", "--json", str(config)))
    assert second["rows"] > 0, (first, second)
    rows = compare(server, directory / "lake")
    verified = command("verify", "--spark", str(config))
    assert verified.count(": equal") == len(rows), verified
    return f"copied, followed ({second['rows']} changes), verified on executors, every row compared: {rows}"


def by_submit(server: Any, directory: Path) -> str:
    """On this machine."""
    return _submitted(server, directory, "local[2]")


def on_cluster(server: Any, directory: Path) -> str:
    """On a standalone cluster of two workers."""
    with standalone_cluster(directory, 2) as master:
        return _submitted(server, directory, master)


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """A Spark Connect server, a process of its own; gives its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = (
        f"spark.connect.grpc.binding.port={port}",
        "spark.connect.grpc.binding.address=127.0.0.1",
    )
    words = [word for setting in settings for word in ("--conf", setting)]
    log = (directory / "connect.log").open("wb")
    process = subprocess.Popen(
        [submit, "--master", "local[2]", *words, "--class",
         "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"],
        env=_environment(), stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:
        wait_port(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def over_connect(server: Any, directory: Path) -> str:
    """Clients of Spark Connect, whose server has the package installed."""
    with connect_server(directory) as url:
        read = _read_over(url, server, directory)
        config = write_config(directory, server.url(), url, "available-now")
        ours = (sys.executable, str(_MAIN))
        return f"{read}; {_followed(server, directory, config, lambda *words: _run(*ours, *words))}"


def _read_over(url: str, server: Any, directory: Path) -> str:
    """A batch and a stream of the same changes."""
    server.execute(f"drop database if exists {DATABASE}")
    file, offset = server.binlog_position()
    Workload(server, 1).prepare()
    options = {
        "url": server.url(),
        "startingPosition": f"{file}:{offset}",
        "tables": f"{DATABASE}.*",
    }
    positions = (str(directory / "out"), str(directory / "checkpoint"))
    text = _run(sys.executable, "-c", _CONNECT, url, json.dumps(options), *positions)
    assert text.strip(), "Spark Connect does not start; run: pip install 'pyspark[connect]'"
    batch, stream, one, other = json.loads(text.strip().splitlines()[-1])
    assert batch == stream == 4500, text
    assert one == other, text
    return f"{batch} rows as batch and as stream, of the same hash"


WAYS: dict[str, Callable[[Any, Path], str]] = {
    "spark-submit": by_submit,
    "cluster": on_cluster,
    "connect": over_connect,
}
