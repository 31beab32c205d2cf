"""The import rules of pyproject.toml are checked and can fail."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.package_sources import sources, trees

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYERS = [
    ["cli"],
    ["compat", "testing"],
    ["service"],
    ["server"],
    ["lake"],
    ["sinks"],
    ["archive"],
    ["stream"],
    ["rows"],
    ["schema", "storage"],
    ["protocol"],
    ["options"],
    ["errors"],
]
INNER = [
    *(
        "protocol/wire",
        "protocol/binlog",
        "protocol/position",
        "protocol/gtid",
        "protocol/codec",
        "protocol/constants",
    ),
    *(
        "stream/position",
        "stream/position/stores",
        "stream/transport",
        "stream/pages",
        "stream/live",
        "stream/files",
    ),
    *(
        "stream/fast",
        "stream/transforms",
        "stream/transactions",
        "stream/tables",
        "stream/snapshot",
    ),
    *("lake/pipeline", "lake/source", "lake/spark", "lake/verify", "service/doctor"),
]
PACKAGES = [package for layer in LAYERS for package in layer]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=root, capture_output=True, text=True
    )


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """A package with every layer of ours and nothing in them, under our configuration."""
    pytest.importorskip("importlinter", reason="import-linter is in the dev extra only")
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    package = tmp_path / "replica_client"
    package.mkdir()
    package.joinpath("__init__.py").touch()
    for name in PACKAGES:
        package.joinpath(name).mkdir()
        package.joinpath(name, "__init__.py").touch()
    for name in INNER:
        package.joinpath(name).mkdir()
        package.joinpath(name, "__init__.py").touch()
    return tmp_path


def plant(root: Path, package: str, line: str, name: str) -> None:
    path = root / "replica_client" / package / f"{name}.py"
    path.write_text(line + "\n", encoding="utf-8")


def test_the_layers_are_those_of_the_design() -> None:
    (contract,) = (c for c in CONFIG["tool"]["importlinter"]["contracts"] if c["id"] == "layers")
    stated = [
        [name.strip().strip("()") for name in layer.split("|")] for layer in contract["layers"]
    ]
    assert stated == LAYERS


def test_an_empty_skeleton_keeps_the_rules(skeleton: Path) -> None:
    result = lint(skeleton)
    assert result.returncode == 0, result.stdout


VIOLATIONS = [
    ("protocol/binlog", "import replica_client.protocol.wire"),
    ("protocol/wire", "import replica_client.protocol.binlog"),
    ("protocol/codec", "import replica_client.protocol.binlog"),
    ("rows", "import replica_client.stream.transport"),
    ("stream/transactions", "import replica_client.cli"),
    ("errors", "import replica_client.protocol.constants"),
    ("lake/spark", "import replica_client.service"),
    ("lake", "import pyspark"),
    ("lake", "import replica_client.lake.spark"),
    ("stream/tables", "import replica_client.lake"),
    ("stream/tables", "import replica_client.sinks"),
    ("stream/transactions", "import replica_client.service.doctor"),
    ("protocol/wire", "import asyncio"),
    ("protocol/binlog", "import socket"),
    ("schema", "import pyarrow"),
    ("stream/position", "import asyncio"),
    ("stream/transactions", "import pymysql"),
    ("rows", "import aiomysql"),
    ("stream/transactions", "import pyarrow"),
    ("cli", "import pyspark"),
]


def test_each_planted_violation_is_reported(skeleton: Path) -> None:
    for number, (package, line) in enumerate(VIOLATIONS):
        plant(skeleton, package, line, f"planted_{number}")
    result = lint(skeleton)
    assert result.returncode == 1, result.stdout
    for number, (package, line) in enumerate(VIOLATIONS):
        module = f"replica_client.{package.replace('/', '.')}.planted_{number}"
        assert re.search(rf"{re.escape(module)}\b", result.stdout), line


def test_what_the_design_allows_is_not_reported(skeleton: Path) -> None:
    allowed = [
        ("stream/transport", "import asyncio, aiomysql, pymysql"),
        ("rows", "import pyarrow"),
        ("lake/spark", "import pyspark, pyarrow, replica_client.stream"),
        ("lake", "import pyarrow, replica_client.stream.tables, replica_client.stream.snapshot"),
        ("stream/position/stores", "import os, asyncio"),
    ]
    for number, (package, line) in enumerate(allowed):
        plant(skeleton, package, line, f"planted_{number}")
    result = lint(skeleton)
    assert result.returncode == 0, result.stdout


def test_a_package_without_a_position_is_reported(skeleton: Path) -> None:
    skeleton.joinpath("replica_client", "helpers").mkdir()
    skeleton.joinpath("replica_client", "helpers", "__init__.py").touch()
    result = lint(skeleton)
    assert result.returncode == 1, result.stdout
    assert "helpers" in result.stdout


def test_no_module_is_named_for_what_it_is_not() -> None:
    for path in map(Path, sources()):
        if path.parts[0] == "compat" and len(path.parts) > 2:
            continue  # the originals' names, which programs import
        assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}, path


# Each is to go; none may come.
KNOWN_CIRCLES = (
    {"archive.archive", "archive.as_of"},
    {"server.binlog_server", "server.session"},
    {"service.metrics", "service.pages", "service.service", "service.telemetry"},
)


def test_modules_import_each_other_in_one_direction() -> None:
    """No circle, also not of imports for type checkers, apart from those that are known."""
    paths = {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): tree
        for path, tree in trees().items()
        # The interfaces of others have their circles.
        if not path.startswith("compat/")
    }
    imports: dict[str, set[str]] = {}
    for name, tree in paths.items():
        imports[name] = set()
        blocks = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
        for node in (
            node for block in blocks for node in block if isinstance(node, ast.ImportFrom)
        ):
            module = (node.module or "").removeprefix("replica_client").removeprefix(".")
            if node.module and node.module.startswith("replica_client"):
                inner = {f"{module}.{alias.name}" for alias in node.names}
                imports[name] |= (inner & paths.keys()) or ({module} & paths.keys())
    reached: dict[str, set[str]] = {}
    for start in imports:
        reached[start], todo = set(), [start]
        while todo:
            fresh = (imports[todo.pop()] & imports.keys()) - reached[start]
            reached[start] |= fresh
            todo += fresh
    circles = [name for name in imports if name in reached[name]]
    left = {name.rpartition(".")[0] if "as_of." in name else name for name in circles}
    assert left <= set().union(*KNOWN_CIRCLES), sorted(left)
