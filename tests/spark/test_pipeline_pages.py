"""The pages of a pipeline that runs: metrics, health, readiness, state; and its end by SIGTERM."""

import io
import json
import os
import signal
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from replica_client.errors import ConfigError
from replica_client.lake.config import load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.pipeline.report import RunState, pages_of
from replica_client.lake.pipeline.run_history import Progress, RunHistory
from tests.spark.binlogs import FILES, served
from tests.spark.test_pipeline import PROGRESS, running, wait, write_config


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def page(port, path):
    """Status and text; 0 where nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metrics(port):
    found = {}
    for family in text_string_to_metric_families(page(port, "/metrics")[1]):
        for sample in family.samples:
            found[
                (sample.name.removeprefix("replica_client_pipeline_"), *sample.labels.values())
            ] = sample.value
    return found


def test_a_pipeline_is_not_ready_before_its_stream_runs():
    run = RunState("here", Progress(Console(file=io.StringIO())), RunHistory())
    ready = pages_of(run)["/readyz"]
    assert (ready().status, pages_of(run)["/healthz"]().status) == (503, 200)
    run.streams = True
    assert ready().status == 200


def test_pages_and_sigterm(tmp_path):
    port = free_port()
    with served() as source:
        config = write_config(
            tmp_path, source.url, "continuous", more=f'listen = "127.0.0.1:{port}"\n'
        )
        with running(config) as process:
            wait(lambda: page(port, "/healthz") == (200, "ok\n"), process)
            wait(lambda: metrics(port).get(("changes_total",)) == 91, process)
            wait(lambda: metrics(port).get(("merges_total",), 0) > 0, process)
            catalog = LakeCatalog.load(tmp_path / "lake")
            statuses = {name: entry.status for name, entry in catalog.tables.items()}
            wait(lambda: page(port, "/readyz")[0] == 200, process)
            stated = json.loads(page(port, "/status.json")[1])
            assert stated["streams"] and stated["changes"] == 91
            assert stated["position"] == f"{FILES[1].name}:{FILES[1].stat().st_size}"
            assert {one["table"]: one["status"] for one in stated["tables"]} == {
                ".".join(name): status for name, status in statuses.items()
            }
            found = metrics(port)
            assert found[("up",)] == 1.0
            assert found[("tables", "current")] == len(statuses) > 0
            assert found[("table_current", "shop.orders")] == 1.0
            assert 0 < found[("last_commit_timestamp_seconds",)] < time.time()
            assert found[("process_cpu_seconds_total",)] > 0
            os.kill(process.pid, signal.SIGTERM)
            output, errors = process.communicate(timeout=120)
            assert process.returncode == 130
            assert output == ""
            last = errors.splitlines()[-1]
            assert last == (
                "interrupted: 91 changes were written; the next run goes on at shop-bin.000002:9422"
            )
            assert "Traceback" not in errors


@pytest.mark.parametrize("listen", ["here", "127.0.0.1:99999"])
def test_what_is_no_address(tmp_path, listen):
    config = write_config(tmp_path, "mysql://repl@nowhere/", more=f'listen = "{listen}"\n')
    with pytest.raises(ConfigError, match=r"line 8: \[pipeline\] listen: .*write 127"):
        load_config(config)


def test_an_address_that_is_taken_is_one_line(tmp_path):
    import socket

    with served() as source, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        more = f'listen = "127.0.0.1:{taken.getsockname()[1]}"\n'
        with running(write_config(tmp_path, source.url, more=more)) as process:
            output, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert output == ""
    *before, line = errors.splitlines()
    assert all(one.startswith(PROGRESS) for one in before), errors
    assert "set listen in [pipeline] to another address" in line
