"""The lake needs no PySpark."""

import pkgutil
import subprocess
import sys

from replica_client import lake


def test_no_module_of_the_lake_imports_pyspark() -> None:
    packages = pkgutil.walk_packages(lake.__path__, "replica_client.lake.", onerror=print)
    names = [one.name for one in packages if not one.name.startswith("replica_client.lake.spark")]
    assert len(names) > 20
    programs = [name for name in names if name.startswith("replica_client.lake.pipeline")]
    assert len(programs) > 5
    for without, some in (
        ("rich=None, typer=None", [name for name in names if name not in programs]),
        ("typer=None, h11=None, prometheus_client=None", programs),
    ):
        code = (
            f"import importlib, sys; sys.modules.update(pyspark=None, py4j=None, {without}); "
            f"[importlib.import_module(name) for name in {some!r}]"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
