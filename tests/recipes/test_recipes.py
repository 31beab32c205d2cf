"""The recipes of docs/recipes run, and give what the files hold."""

from __future__ import annotations

import importlib.util
import json
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import replica_client as rc
from tests.recipes.served import DATA, served

RECIPES = Path(rc.__file__).parents[1] / "docs" / "recipes"
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
