"""Compiles the hot modules while a wheel is built; leaves a pure wheel where that is impossible.

hatchling runs it (``[tool.hatch.build.targets.wheel.hooks.custom]``). The modules are those of
``COMPILED_MODULES`` in ``replica_client/_compiled.py``. A wheel gets one extension module beside
each of their ``.py`` files; an editable install gets them in the checkout. It is all or nothing:
when one does not compile, none is taken.

``REPLICA_CLIENT_BUILD=compiled`` makes a failure to compile an error, ``python`` does not try.

``python scripts/build/build_hook.py`` compiles in the checkout, without an install.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "replica_client"
REGISTRATION = Path(PACKAGE, "lake", "spark", "registration.py")
VARIABLE = "REPLICA_CLIENT_BUILD"
JOBS_VARIABLE = "REPLICA_CLIENT_BUILD_JOBS"
# What the compiled modules share; it has no source here: Cython writes it.
SHARED = f"{PACKAGE}._cython_shared"
# What else a module wants (boundscheck=False …) it says in its own first line. Without the source as comments and
# without Cython's pickling there is a fifth less C code; a class that is pickled has its own __reduce__, and
# Python refuses the others.
DIRECTIVES = {"language_level": "3", "emit_code_comments": False, "auto_pickle": False}
# -O1 takes a third less time to compile than -O2, but JSON to text, which is as hot as any, takes 10 to 16 % longer
# with it. -O3 takes a third more; it takes 5 % off the instructions of the way from bytes to columns, and 6 to 10 % off
# the time of small transactions as rows (scripts/bench -w b -w c --beside). -w: looking for warnings takes time, too,
# and those of translated code say nothing of ours.
FLAGS = ["-g0", "-w"]
# With this variable set to 1 all modules are built for AddressSanitizer and UndefinedBehaviorSanitizer, which
# scripts/proofs/sanitize loads into Python before it reads with them. -fwrapv stays: signed overflow is defined.
SANITIZED_VARIABLE = "REPLICA_CLIENT_SANITIZE"
SANITIZERS = "-fsanitize=address,undefined"
SANITIZED_FLAGS = ["-g1", "-w", "-O1", "-fno-omit-frame-pointer", SANITIZERS]
HOT = (
    "protocol.codec.event_queue",
    "stream.fast.column_fast_path",
    "stream.fast.fast_path",
    "stream.fast.row_fast_path",
    "stream.transactions.transaction",
    "rows.change",
    "rows.column",
    "rows.image",
    "rows.row",
    "rows.runs",
)
COLD = (
    "cli.",
    "compat.event_screen",
    "stream.fast.tagged_gtid",
    "rows.json_rows",
    "rows.row_lines",
    "rows.table_lines",
)


# What compiling needs; with a build that does not compile they are not installed for it.
COMPILING = ["Cython>=3.3,<4", "setuptools>=65,<83"]


class NotCompiledError(Exception):
    """Why the modules could not be compiled."""


def compiled_modules(root: Path) -> list[str]:
    """The literal ``COMPILED_MODULES``, read without importing the package."""
    tree = ast.parse((root / PACKAGE / "_compiled.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == "COMPILED_MODULES"
            and node.value is not None
        ):
            return list(ast.literal_eval(node.value))
    raise RuntimeError("replica_client/_compiled.py has no COMPILED_MODULES")


def compile_modules(root: Path, modules: list[str], into: Path) -> dict[str, Path]:
    """Compile modules; returns the extension's path by module.

    Args:
        root: the checkout.
        modules: dotted names.
        into: where the tree of extensions goes; ``root`` itself puts each beside its source.

    Raises:
        NotCompiledError: no compiler, no Python headers, or it refused a module.
    """
    if lacking := _lacking():
        raise NotCompiledError(lacking)
    # A process of its own: setuptools changes the process it runs in, and its output is long.
    command = [sys.executable, str(Path(__file__).resolve()), "--compile", str(root), str(into)]
    result = subprocess.run([*command, *modules], capture_output=True, text=True, cwd=root)
    if result.returncode:
        raise NotCompiledError(f"it failed:\n{result.stdout}{result.stderr}")
    found = {}
    for module in (SHARED, *modules):
        base = into.joinpath(*module.split("."))
        path = base.with_name(base.name + str(sysconfig.get_config_var("EXT_SUFFIX")))
        if not path.exists():
            raise NotCompiledError(f"the compiler left no {path.name}")
        found[module] = path
    return found


def _jobs() -> int:
    return int(os.environ.get(JOBS_VARIABLE) or os.cpu_count() or 1)


def _tell(text: str) -> None:
    """Print a line on the terminal: pip hides what a build prints, and compiling takes minutes."""
    try:
        with open("/dev/tty", "w") as terminal:
            terminal.write(f"\n  {text}\n")
    except OSError:
        print(text, file=sys.stderr, flush=True)


def _lacking() -> str | None:
    """What this machine lacks for compiling."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if os.name == "posix" and shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's C headers are not installed (python3-dev)"
    return None


def _flags(module: str) -> list[str]:
    if os.name != "posix":
        return []
    if os.environ.get(SANITIZED_VARIABLE) == "1":
        return SANITIZED_FLAGS
    cold = module.removeprefix(f"{PACKAGE}.").startswith(COLD)
    return [*FLAGS, "-O1" if cold else "-O3" if _is_hot(module) else "-O2"]


def _link_flags() -> list[str]:
    return [SANITIZERS] if os.environ.get(SANITIZED_VARIABLE) == "1" else []


def _is_hot(module: str) -> bool:
    name = module.removeprefix(f"{PACKAGE}.")
    return name.startswith(HOT) and not name.startswith(COLD)


def _compile_here(root: Path, into: Path, modules: list[str]) -> None:
    import Cython.Build  # noqa: F401  # where processes are forked, they have it

    # Of one version of Cython: what another one translated does not fit the shared module.
    work = (
        root / "build" if into == root else into / ".work"
    ) / f"cython-{metadata.version('Cython')}"
    work.mkdir(parents=True, exist_ok=True)
    sizes = {module: _source(root, module).stat().st_size for module in modules}
    # The longest first: at the end no core waits for one that began late. A process translates a module and compiles
    # it at once, so that none waits for the translation of all.
    order = sorted(modules, key=lambda module: -sizes[module])
    with ProcessPoolExecutor(_jobs()) as processes:
        running = [processes.submit(_compile_shared, root, into, work)]
        running += [processes.submit(_compile_module, root, into, work, name) for name in order]
        try:
            for done in running:
                done.result()
        except BaseException:
            processes.shutdown(cancel_futures=True)
            raise


def _source(root: Path, module: str) -> Path:
    return root.joinpath(*module.split(".")).with_suffix(".py")


def _compile_module(root: Path, into: Path, work: Path, module: str) -> None:
    from Cython.Build import cythonize
    from setuptools import Extension

    os.chdir(root)
    extension = Extension(
        module,
        [_source(Path(), module).as_posix()],
        extra_compile_args=_flags(module),
        extra_link_args=_link_flags(),
        include_dirs=["."],
        # What the .pxd files take from C.
        depends=[path.as_posix() for path in Path(PACKAGE).rglob("*.h")],
    )
    translated = cythonize(  # type: ignore[no-untyped-call]
        [extension],
        build_dir=str(work),
        compiler_directives=DIRECTIVES,
        # Calls into the shared module cost what is hot 3 % of its instructions.
        shared_utility_qualified_name=None if _is_hot(module) else SHARED,
    )
    _build(into, work, translated)


def _compile_shared(root: Path, into: Path, work: Path) -> None:
    """Compile what Cython would put into every module: its function type, reading of arguments."""
    from setuptools import Extension

    os.chdir(root)
    source = work.joinpath(*SHARED.split(".")).with_suffix(".c")
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=work) as directory:
            # The file's name is the module's.
            translation = Path(directory, source.name)
            command = [sys.executable, "-m", "cython", "generate-shared", str(translation)]
            # No module has memoryviews of Cython's.
            subprocess.run([*command, "--exclude", "MemoryView"], check=True)
            translation.replace(source)
    flags, link_flags = _flags(SHARED), _link_flags()
    _build(
        into,
        work,
        [Extension(SHARED, [str(source)], extra_compile_args=flags, extra_link_args=link_flags)],
    )


def _build(into: Path, work: Path, extensions: list[Any]) -> None:
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"name": PACKAGE, "ext_modules": extensions}))
    command.build_lib = str(into)
    command.build_temp = str(work / "objects")
    command.ensure_finalized()
    command.run()


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds extension modules and Spark's registration module to a wheel."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        if os.environ.get(VARIABLE) == "python" or _lacking():
            return []
        return COMPILING

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is put together; ``version`` is ``standard`` or ``editable``."""
        root = Path(self.root)
        self._temporary = tempfile.TemporaryDirectory()
        into = Path(self._temporary.name)
        included: dict[str, str] = {}
        if (root / REGISTRATION).exists():
            # A copy, because a file that is put elsewhere is no longer packed where it was.
            copy = into / "pyspark_replica_client.py"
            shutil.copy(root / REGISTRATION, copy)
            included[str(copy)] = copy.name
        wanted = os.environ.get(VARIABLE, "")
        modules = compiled_modules(root)
        try:
            if wanted not in ("", "compiled", "python"):
                raise RuntimeError(f"{VARIABLE}={wanted}: it is 'compiled', 'python' or unset")
            if wanted == "python":
                raise NotCompiledError(f"{VARIABLE}=python")
            if not modules:
                raise NotCompiledError("COMPILED_MODULES is empty")
            if lacking := _lacking():
                raise NotCompiledError(lacking)
            _tell(
                f"compiling {len(modules)} modules of replica_client on {_jobs()} cores, 2 to 3 minutes of CPU time; "
                f"{VARIABLE}=python leaves it out"
            )
            began, used = time.monotonic(), os.times()
            if version == "editable":
                compile_modules(root, modules, root)
            else:
                for path in compile_modules(root, modules, into).values():
                    included[str(path)] = path.relative_to(into).as_posix()
            now = os.times()
            spent = (
                now.children_user + now.children_system - used.children_user - used.children_system
            )
            _tell(f"compiled in {time.monotonic() - began:.0f} s, {spent:.0f} s of CPU time")
        except NotCompiledError as error:
            if wanted == "compiled":
                raise RuntimeError(f"{VARIABLE}=compiled, but {error}") from error
            self.app.display_warning(f"replica_client: pure Python, not compiled: {error}")
        else:
            self.app.display_info(f"replica_client: compiled {', '.join(modules)}")
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        key = "force_include_editable" if version == "editable" else "force_include"
        build_data[key].update(included)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        self._temporary.cleanup()


def main() -> int:
    """Compile in the checkout; with ``--compile`` do one compilation for the hook."""
    if sys.argv[1:2] == ["--compile"]:
        root, into, *modules = sys.argv[2:]
        _compile_here(Path(root), Path(into), modules)
        return 0
    checkout = Path(__file__).resolve().parents[2]
    names = compiled_modules(checkout)
    try:
        compiled = compile_modules(checkout, names, checkout) if names else {}
    except NotCompiledError as error:
        print(f"not compiled: {error}", file=sys.stderr)
        return 1
    print(f"compiled {', '.join(compiled) or 'nothing: COMPILED_MODULES is empty'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
