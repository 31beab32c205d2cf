"""The C code of the hot path: every path that a processor can take gives what the plain one gives."""

import shutil
import subprocess
from pathlib import Path

import pytest

import replica_client
from tests.servers.plugin import unavailable

TESTS = Path(__file__).parents[3]
PACKAGE = Path(replica_client.__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        unavailable("no C compiler")
    path = tmp_path_factory.mktemp("native") / "cpu_paths"
    warnings = ["-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]
    source = TESTS / "native" / "cpu_paths.c"
    command = [compiler, "-std=gnu11", "-O2", *warnings, "-I", PACKAGE.parent, source, "-o", path]
    subprocess.run(command, check=True)
    return path


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_paths_give_the_same(program: Path, seed: int) -> None:
    result = subprocess.run([program, str(seed), "1500"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_no_c_code_is_in_a_string() -> None:
    """It is in ``.h`` files, which compilers, editors and sanitizers read."""
    for path in PACKAGE.rglob("*.pxd"):
        assert '"""' not in path.read_text(encoding="utf-8"), path
