"""Initialised data directories, made once per root and copied for each instance."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from local_servers import layout
from local_servers.accounts import account_statements
from local_servers.binaries import server_command
from local_servers.commands import run
from local_servers.recipes import Recipe

INITIALISE_TIMEOUT = 180.0

# What names one server or belongs to its binary log must not be in two of them.
_NOT_SHARED = ("auto.cnf", "binlog.*", "mysql-bin.*", "*.pid", "*.err", "*.sock", "test")

_MARIADB_SCRIPTS = (
    "*_system_tables.sql",
    "*_performance_tables.sql",
    "*_system_tables_data.sql",
    "fill_help_tables.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "*_sys_schema.sql",
)


def run_as() -> list[str]:
    """The option without which a server refuses to run as root."""
    return ["--user=root"] if os.geteuid() == 0 else []


def copy_template(recipe: Recipe, target: Path, options: Sequence[str] = ()) -> None:
    """Puts a fresh data directory with the accounts in it at `target`.

    `options` are those that the server will start with: MySQL 8.0 and newer keep some of them for
    the life of a data directory, which has a template of its own then.
    """
    fixed = _fixed_options(recipe, options)
    home = layout.server_dir(recipe.name)
    template = home / "".join(["template", *(f"-{one.replace('=', '-')}" for one in fixed)])
    with layout.locked(home / "template.lock"):
        if not template.is_dir():
            building = home / "template-building"
            shutil.rmtree(building, ignore_errors=True)
            _initialise(recipe, building, fixed)
            building.rename(template)
    command = ("cp", "-a", "--reflink=auto", "--sparse=always", template, target)
    run(command, doing=f"copying the data directory of {recipe.name}", timeout=120)


def _fixed_options(recipe: Recipe, options: Sequence[str]) -> list[str]:
    """The options, without their dashes, that MySQL takes only when it makes a data directory."""
    if recipe.flavor != "mysql" or recipe.npm is not None:
        return []
    given = (option.lstrip("-").replace("_", "-") for option in options)
    return sorted(one for one in given if re.fullmatch(r"lower-case-table-names=[0-2]", one))


def _initialise(recipe: Recipe, directory: Path, options: Sequence[str] = ()) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    if recipe.npm is not None:
        _from_package(recipe, directory)
    elif recipe.flavor == "mysql":
        _initialise_mysql(recipe, directory, options)
    else:
        _initialise_mariadb(recipe, directory)
    for pattern in _NOT_SHARED:
        for path in directory.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _statements(recipe: Recipe) -> str:
    return "".join(f"{statement};\n" for statement in account_statements(recipe))


def _initialise_mysql(recipe: Recipe, directory: Path, options: Sequence[str]) -> None:
    init_file = directory.with_name("template-init.sql")
    init_file.write_text(_statements(recipe))
    command = [
        *server_command(recipe),
        *run_as(),
        "--initialize-insecure",
        f"--datadir={directory}",
        f"--init-file={init_file}",
        "--innodb-redo-log-capacity=8M",
        "--skip-log-bin",
        *(f"--{option}" for option in options),
    ]
    run(command, doing=f"initialising {recipe.name}", timeout=INITIALISE_TIMEOUT)
    init_file.unlink()


def _initialise_mariadb(recipe: Recipe, directory: Path) -> None:
    share = layout.root_dir(recipe.name) / recipe.share
    sql = ["create database if not exists mysql;", "use mysql;", "SET @auth_root_socket=NULL;"]
    for pattern in _MARIADB_SCRIPTS:
        # `*_system_tables.sql` would be matched by no other script: each pattern names one file.
        sql.extend(path.read_text() for path in share.glob(pattern))
    sql.append(_statements(recipe))
    directory.mkdir()
    _bootstrap(recipe, directory, "\n".join(sql), ["--max-allowed-packet=8M"])


def _from_package(recipe: Recipe, directory: Path) -> None:
    root = layout.root_dir(recipe.name)
    shutil.copytree(root / recipe.basedir / "data" / "mysql", directory)
    _bootstrap(recipe, directory, _statements(recipe), ["--explicit-defaults-for-timestamp"])


def _bootstrap(recipe: Recipe, directory: Path, sql: str, options: list[str]) -> None:
    command = [
        *server_command(recipe),
        *run_as(),
        "--bootstrap",
        f"--datadir={directory}",
        "--skip-log-bin",
        *options,
    ]
    run(command, doing=f"initialising {recipe.name}", timeout=INITIALISE_TIMEOUT, feed=sql.encode())
