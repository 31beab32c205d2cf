"""The recipes of docs/content/recipes run, and give what the files hold."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import replica_client as rc
from tests.recipes.served import DATA, served

RECIPES = Path(rc.__file__).parents[1] / "docs" / "content" / "recipes"
DATA_FILES = sorted(path.name for path in DATA.glob("shop-bin.0*"))
CHANGES = list(rc.open_binlog(DATA).changes())
ORDERS = [change for change in CHANGES if change.table == "orders"]

pytestmark = [
    # Of the libraries that the recipes use.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def recipe(name: str, *needs: str) -> ModuleType:
    for needed in needs:
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install '.[recipes]'")
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FIRST = (
    "tail_json",
    "fastapi_sse",
    "redis_invalidation",
    "yesterday",
    "audit",
    "test_consumer",
    "sync_job",
)
"""The first programs of users; tests/recipes/test_typed.py checks their types."""


@pytest.mark.parametrize("name", FIRST)
def test_a_first_program_is_short_and_two_clicks_from_readme(name: str) -> None:
    assert len((RECIPES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 40
    root = RECIPES.parents[2]
    assert "(docs/content/how-to/recipes.md)" in (root / "README.md").read_text(encoding="utf-8")
    page = RECIPES.parent / "how-to" / "recipes.md"
    assert f"(../recipes/{name}.py)" in page.read_text(encoding="utf-8")


def test_tail_json_ends_on_sigterm_and_goes_on(tmp_path: Path) -> None:
    rc.FilePositionStore(tmp_path / "tail.position").save(rc.Position(DATA_FILES[0], 4))
    with served() as source:
        command = [sys.executable, str(RECIPES / "tail_json.py"), source.url]
        for expected in (len(CHANGES), 0):
            with (tmp_path / "out").open("w+", encoding="utf-8") as out:
                process = subprocess.Popen(command, stdout=out, cwd=tmp_path)
                until = time.monotonic() + 60
                while (
                    expected and len((tmp_path / "out").read_text("utf-8").splitlines()) < expected
                ):
                    assert time.monotonic() < until
                    assert process.poll() is None
                    time.sleep(0.05)
                time.sleep(0 if expected else 3)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
            assert len(lines) == expected
            assert all(json.loads(line)["kind"] for line in lines)


def test_fastapi_sse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOP_AT_END", "1")
    module = recipe("fastapi_sse", "fastapi", "httpx")
    from fastapi.testclient import TestClient

    with served() as source, TestClient(module.app) as client:
        monkeypatch.setenv("SOURCE_URL", source.url)

        def events(last: str) -> list[dict[str, str]]:
            text = client.get("/changes", headers={"Last-Event-ID": last}).text
            blocks = [one for one in text.split("\n\n") if one and not one.startswith(":")]
            return [dict(line.split(": ", 1) for line in one.splitlines()) for one in blocks]

        every = events(f"{DATA_FILES[0]}:4")
        assert len(every) == len(CHANGES)
        for at in range(0, len(every), 7):
            assert events(every[at]["id"]) == every[at + 1 :]
        assert client.get("/changes", headers={"Last-Event-ID": "x"}).status_code == 400


def test_redis_invalidation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = recipe("redis_invalidation", "redis")
    from tests.integration.redis_server import RedisServer

    monkeypatch.chdir(tmp_path)
    rc.FilePositionStore("cache.position").save(rc.Position(DATA_FILES[0], 4))
    server = RedisServer(tmp_path)
    try:
        with served() as source, server.client() as cache:
            names = {f"{one.database}.{one.table}:{one.key[0]}" for one in CHANGES}
            for name in (*names, "shop.orders:0"):
                cache.set(name, "cached")
            assert module.invalidate(source.url, cache, stop_at_end=True) == len(names)
            assert cache.keys() == [b"shop.orders:0"]
            assert module.invalidate(source.url, cache, stop_at_end=True) == 0
    finally:
        server.stop()


def test_yesterday() -> None:
    module = recipe("yesterday", "polars", "pyarrow")
    day = ORDERS[0].commit_time.replace(hour=0, minute=0, second=0, microsecond=0)
    frame = module.changes_of(str(DATA), "shop.orders", day)
    rows = frame.filter(frame["_change_type"].cast(str) != "update_preimage")
    wanted = [one for one in ORDERS if one.commit_time.date() == day.date()]
    assert rows["id"].to_list() == [(one.after or one.before)["id"] for one in wanted]
    assert module.changes_of(str(DATA), "shop.orders", day.replace(year=2020)).is_empty()


def test_audit(tmp_path: Path) -> None:
    for name in DATA_FILES:  # an archive has indexes next to its files
        shutil.copy(DATA / name, tmp_path)
    rows = recipe("audit").audit(str(tmp_path), "shop.orders")
    assert [(row[4], row[5]) for row in rows] == [(one.kind, one.key) for one in ORDERS]
    assert all(row[1] for row in rows)


def test_tests_of_a_consumer(tmp_path: Path) -> None:
    # An environment that was made before the plugin was declared does not find it alone.
    (tmp_path / "conftest.py").write_text(
        'pytest_plugins = ["replica_client.testing.pytest_plugin"]'
    )
    shutil.copy(RECIPES / "test_consumer.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout


def test_sync_job(tmp_path: Path) -> None:
    module = recipe("sync_job")
    path = str(tmp_path / "shop.db")
    current: dict[int, rc.Row] = {}
    for change in ORDERS:
        current.pop(change.key[0], None)
        if change.after is not None:
            current[change.key[0]] = change.after
    with served() as source:
        for _ in range(2):
            module.sync(source.url, path)
            database = sqlite3.connect(path)
            found = database.execute("SELECT id, row FROM orders ORDER BY id").fetchall()
            database.close()
            assert [one[0] for one in found] == sorted(current)
            assert all(json.loads(row)["sku"] == current[key]["sku"] for key, row in found)


def test_fastapi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = recipe("fastapi_lifespan", "fastapi", "httpx")
    from fastapi.testclient import TestClient

    expected = Counter(f"{change.database}.{change.table}" for change in CHANGES)
    with served() as source:
        monkeypatch.setenv("SOURCE_URL", source.url)
        monkeypatch.setenv("SOURCE_START", "earliest")
        monkeypatch.setenv("SOURCE_POSITION", str(tmp_path / "position"))
        with TestClient(module.app) as client:
            until = time.monotonic() + 60
            while client.get("/counts").json() != dict(expected):
                assert time.monotonic() < until, client.get("/health").json()
                time.sleep(0.05)
            assert client.get("/health").json() == {"follower": "running"}
    # A source that refuses ends the task, and /health reports it; one that cannot be reached is tried again.
    with served() as source:
        monkeypatch.setenv("SOURCE_URL", source.url)
        monkeypatch.setenv("SOURCE_START", "shop-bin.999999:4")
        monkeypatch.setenv("SOURCE_POSITION", str(tmp_path / "other"))
        with TestClient(module.app) as client:
            until = time.monotonic() + 60
            while client.get("/health").status_code != 503:
                assert time.monotonic() < until
                time.sleep(0.05)
            assert "no such binlog file" in client.get("/health").json()["follower"]


def test_celery(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROKER_URL", "memory://")
    module = recipe("celery_tasks", "celery")
    module.app.conf.task_always_eager = True
    module.app.conf.task_eager_propagates = True
    monkeypatch.chdir(tmp_path)
    with served() as source:
        for expected in (len(CHANGES), 0):
            module.main(source.url, start="earliest", stop_at_end=True)
            assert len(capsys.readouterr().out.splitlines()) == expected


def test_pandas() -> None:
    found = recipe("pandas_frame", "pandas", "pyarrow").frame(str(DATA), "shop.orders")
    rows = found[found["_change_type"] != "update_preimage"]
    assert list(rows["id"]) == [(change.after or change.before)["id"] for change in ORDERS]


def test_polars() -> None:
    found = recipe("polars_frame", "polars", "pyarrow").frame(str(DATA), "shop.orders")
    rows = found.filter(found["_change_type"].cast(str) != "update_preimage")
    assert rows["id"].to_list() == [(change.after or change.before)["id"] for change in ORDERS]


def test_duckdb() -> None:
    found = recipe("duckdb_query", "duckdb", "pyarrow", "pytz").latest(str(DATA), "shop.orders")
    current: dict[int, rc.Row] = {}
    for change in ORDERS:
        if change.before is not None:
            current.pop(change.before["id"])
        if change.after is not None:
            current[change.after["id"]] = change.after
    assert {row[10]: row[14] for row in found} == {
        key: row["total"] for key, row in current.items()
    }


def test_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="pip install '.[recipes]'")
    pytest.importorskip("ipykernel", reason="pip install '.[recipes]'")
    import nbformat

    notebook = nbformat.read(RECIPES / "notebook.ipynb", as_version=4)
    with served() as source:
        monkeypatch.setenv("SOURCE", str(DATA))
        monkeypatch.setenv("SOURCE_URL", source.url)
        nbclient.NotebookClient(notebook, timeout=90, kernel_name="python3").execute()
    shown = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert shown[0].startswith("Change(kind='insert',\n")
    assert json.loads(shown[-1]) == len(CHANGES)
