"""Tables that leave a lake's selection and come back, and copies that are asked for beside the running pipeline."""

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_tables import open_lake
from replica_client.lake.pipeline.runner import run_pipeline
from tests.integration.truth_ways import copied_files

COMMAND = [sys.executable, "-m", "replica_client"]


def written(directory, url, tables, trigger="available-now"):
    file = directory / "shop.toml"
    shown = ", ".join(f'"{one}"' for one in tables)
    file.write_text(
        f'[source]\nurl = "{url}"\ntables = [{shown}]\nstart = "snapshot"\n'
        f'[pipeline]\noutput = "lake"\ntrigger = "{trigger}"\nmaster = "local[2]"\n'
        '[spark]\n"spark.ui.enabled" = "false"\n"spark.driver.memory" = "1g"\n'
    )
    return file


def rows_of(directory, name):
    found = open_lake(directory / "lake").table(name).arrow().to_pylist()
    return sorted((one["id"], one["n"]) for one in found)


def test_a_table_leaves_and_comes_back_and_is_copied_beside_the_stream(fresh_server, tmp_path):
    server = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    server.execute("CREATE DATABASE x")
    for name in ("t", "u", "w"):
        server.execute(f"CREATE TABLE x.{name} (id INT PRIMARY KEY, n INT)")
        server.execute(f"INSERT INTO x.{name} VALUES (1, 1), (2, 2)")
    assert run_pipeline(written(tmp_path, server.url(), ["x.t", "x.u"])).tables == 2
    # It leaves, and is no table of the lake any more.
    server.execute("UPDATE x.u SET n = 7 WHERE id = 1")
    assert run_pipeline(written(tmp_path, server.url(), ["x.t"])).tables == 1
    assert set(LakeCatalog.load(tmp_path / "lake").tables) == {("x", "t")}
    server.execute("DELETE FROM x.u WHERE id = 2")
    server.execute("ALTER TABLE x.w ADD m INT")
    # It comes back, with a table that was never there, and both are copied.
    # A copy beside the running pipeline, which takes a table back in that was left out.
    config = written(tmp_path, server.url(), ["x.*"], "continuous")
    with (tmp_path / "log").open("wb") as log:
        pipeline = subprocess.Popen([*COMMAND, "pipeline", str(config)], stderr=log, stdout=log)
    try:
        until(lambda: all(status_of(tmp_path, one) == "current" for one in ("t", "u", "w")))
        assert rows_of(tmp_path, "x.u") == [(1, 7)]
        assert rows_of(tmp_path, "x.w") == [(1, 1), (2, 2)]
        # A table is left out, and a copy beside the stream takes it back in.
        with server.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
            cursor.execute("INSERT INTO x.u (id) VALUES (5)")
            cursor.execute("COMMIT")
        until(lambda: status_of(tmp_path, "u") == "left_out")
        server.execute("INSERT INTO x.t VALUES (9, 9)")
        command = [*COMMAND, "snapshot", str(config), "--table", "x.u", "--table", "x.w", "--wait"]
        done = subprocess.run(command, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert b"x.u: copied" in done.stdout
        assert b"waits for the pipeline" in done.stderr or b"chunks" in done.stderr
        assert rows_of(tmp_path, "x.u") == [(1, 7), (5, None)]
        server.execute("UPDATE x.u SET n = 8 WHERE id = 5")
        until(lambda: rows_of(tmp_path, "x.u") == [(1, 7), (5, 8)])
        until(lambda: rows_of(tmp_path, "x.t") == [(1, 1), (2, 2), (9, 9)])
        refused = subprocess.run(
            [*COMMAND, "snapshot", str(config), "--table", "x.none"], capture_output=True
        )
        assert refused.returncode == 2
        assert b"no table x.none" in refused.stderr
    finally:
        pipeline.send_signal(signal.SIGTERM)
        assert pipeline.wait(60) == 130


def status_of(directory, name):
    entry = LakeCatalog.load(directory / "lake").tables.get(("x", name))
    return entry and entry.status


def until(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_tables_that_cannot_be_read_leave_the_others_alone(fresh_server, tmp_path):
    server = fresh_server("mysql-9.7", ["binlog-row-metadata=MINIMAL", "binlog-checksum=NONE"])
    server.execute("CREATE DATABASE y")
    server.execute("CREATE TABLE y.unknown (id INT PRIMARY KEY)")
    server.reset_binlog()  # the files do not have its CREATE TABLE
    for name in ("good", "bad"):
        server.execute(f"CREATE TABLE y.{name} (id INT PRIMARY KEY, document JSON)")
    server.execute("INSERT INTO y.good VALUES (1, '[1]')")
    server.execute("INSERT INTO y.unknown VALUES (1)")
    server.execute("INSERT INTO y.bad VALUES (1, '\"damaged\"')")
    server.execute("INSERT INTO y.good VALUES (2, '[2]')")
    (file,) = copied_files(server, tmp_path / "files")
    data = bytearray(file.read_bytes())
    data[data.rindex(b"\x0c\x07damaged")] = 0xEE  # the type of the document's value
    file.write_bytes(data)
    config = tmp_path / "lake.toml"
    config.write_text(
        f'[source]\npath = "{file}"\ntables = ["y.*"]\n[pipeline]\noutput = "lake"\nengine = "local"\n'
    )
    for _ in range(2):
        result = run_pipeline(config)
        reasons = {one["table"]: one["reason"] for one in result.not_current}
        assert reasons.keys() == {"y.unknown", "y.bad"}
        assert "CREATE TABLE" in reasons["y.unknown"]
        assert "document" in reasons["y.bad"] and file.name in reasons["y.bad"]
        found = open_lake(tmp_path / "lake").table("y.good").arrow().to_pylist()
        assert sorted(one["id"] for one in found) == [1, 2]
