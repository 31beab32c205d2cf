"""The pipeline as its users run it: a process, killed at random, whose change log has each change once."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.cli.demonstration.proof import ServedBinlog, prove
from replica_client.lake.change_log_files import change_log_row_count, change_log_rows
from tests.spark.binlogs import FILES, envelope_of, expected_tables, served

KILLS = 3
PROGRESS = (
    "waiting for the output",
    "looking at the source",
    "looking for changes",
    "starting Spark",
)
QUICK = '[spark]\n"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"\n'


def write_config(directory, url, trigger="available-now", master="local[2]", more=""):
    file = directory / "shop.toml"
    file.write_text(
        f'[source]\nurl = "{url}"\n[pipeline]\noutput = "lake"\ntrigger = "{trigger}"\n'
        f'interval = "100 milliseconds"\nmaster = "{master}"\n{more}{QUICK}'
    )
    return file


@contextmanager
def running(config):
    process = subprocess.Popen(
        [sys.executable, "-m", "replica_client", "pipeline", "--json", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        # Java too, which may outlive a driver for a moment.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finish(config):
    with running(config) as process:
        output, errors = process.communicate(timeout=240)
        return process.returncode, output, errors


def wait(done, process, seconds=240):
    deadline = time.monotonic() + seconds
    while not done():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def group_lives(leader):
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def proof_of(directory):
    log = change_log_rows(directory / "lake" / "change_log")
    return prove(log, ServedBinlog().changes(), expected_tables())


def test_killed_at_random_it_loses_and_repeats_nothing(tmp_path):
    chance = random.Random(os.environ.get("KILL_SEED", time.time_ns()))
    log = tmp_path / "lake" / "change_log"
    whole = (len(envelope_of(FILES[0])), 87)
    with served(FILES[0]) as source:
        more = "max_rows_per_trigger = 6\n"
        config = write_config(tmp_path, source.url, "continuous", more=more)
        killed_at = []
        for number in range(KILLS):
            before = change_log_row_count(log)
            with running(config) as process:
                # A fast run may have written all that its source has: the next then only starts again.
                wait(
                    lambda before=before: before < change_log_row_count(log) or before in whole,
                    process,
                )
                time.sleep(chance.uniform(0, 2.0))
                # The driver alone: its Java and workers have to notice.
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                killed_at.append(change_log_row_count(log))
            if number == 0:
                source.add_file(FILES[1])
        config = write_config(tmp_path, source.url, more=more)
        status, output, errors = finish(config)
        assert status == 0, errors
        assert json.loads(output)["position"] == f"{FILES[1].name}:{FILES[1].stat().st_size}"
    proof = proof_of(tmp_path)
    assert proof.holds, (proof, killed_at)
    assert proof.changes == 87
    assert killed_at[0] < 87


def test_again_there_is_nothing_and_an_interrupt_takes_java_with_it(tmp_path):
    with served(FILES[0]) as source:
        config = write_config(tmp_path, source.url, more='engine = "spark"\n')
        status, output, errors = finish(config)
        assert status == 0, errors
        assert 0 < json.loads(output)["rows"] < 87
        # Where nothing came since, Spark is not started: with this master it could not.
        status, again, errors = finish(write_config(tmp_path, source.url, master="nowhere"))
        assert status == 0, errors
        stated = json.loads(again)
        assert stated["rows"] == 0 and stated["position"] == json.loads(output)["position"]
        source.add_file(FILES[1])
        more = 'engine = "spark"\n'
        with running(write_config(tmp_path, source.url, "continuous", more=more)) as process:
            # Interrupted while Java starts, it takes Java with it.
            wait((tmp_path / "lake" / ".replica-client.lock").exists, process)
            time.sleep(1.0)
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(120) == 130
            gone = time.monotonic() + 60
            while group_lives(process.pid):
                assert time.monotonic() < gone
                time.sleep(0.2)
        # Another engine goes on at the same checkpoint.
        status, _, errors = finish(write_config(tmp_path, source.url, more='engine = "local"\n'))
        assert status == 0, errors
        assert proof_of(tmp_path).holds
    # A checkpoint that is gone must not make all of it look done, nor write it twice.
    for path in sorted((tmp_path / "lake" / "checkpoint").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    status, _, errors = finish(tmp_path / "shop.toml")
    assert status == 2
    assert "its checkpoint" in errors
    assert proof_of(tmp_path).holds


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (("secret", "hunter2"), 1, ["Access denied", "'repl'"]),
        (('output = "lake"', 'outptu = "lake"'), 2, ["'outptu'", "did you mean output?"]),
        (("[source]\n", '[source]\nstart = "shop-bin.000007:4"\n'), 1, ["no binlog file"]),
    ],
)
def test_fault_is_one_line(tmp_path, change, status, words):
    with served() as source:
        config = write_config(tmp_path, source.url)
        config.write_text(config.read_text().replace(*change))
        found, output, errors = finish(config)
    lines = [line for line in errors.splitlines() if line.strip()]
    assert found == status
    # On a busy machine it may tell before what it is at.
    assert all(line.startswith(PROGRESS) for line in lines[:-1]), errors
    assert all(word in lines[-1] for word in words), lines
    assert output == ""
    assert "hunter2" not in errors
