"""The command line of `scripts/servers`."""

import argparse
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from local_servers import docker_daemon, images, instances, kafka, roots
from local_servers.binaries import program_command, tool_path
from local_servers.debian import install_programs
from local_servers.faults import ServersError
from local_servers.instances import Instance
from local_servers.recipes import RECIPES, Recipe, recipe_named

EXAMPLES = f"""\
servers: {", ".join(RECIPES)}, {kafka.NAME}

examples:
  scripts/servers prepare                        get everything
  scripts/servers start mysql-9.7 mariadb-11.8 --option=binlog-row-metadata=FULL
  scripts/servers status --json
  scripts/servers tool mysql-9.7 mysqlbinlog --version
  scripts/servers stop                           stop what `start` started
  scripts/servers images mysql-9.7               build a container image
"""


def parser() -> argparse.ArgumentParser:
    """All subcommands with their options."""
    top = argparse.ArgumentParser(
        prog="scripts/servers",
        description="Prepares, starts and stops real MySQL, MariaDB and Kafka servers on loopback.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True)

    prepare = commands.add_parser("prepare", help="download and unpack what the servers need")
    prepare.add_argument("names", nargs="*", metavar="NAME", help="default: all, and Docker")
    prepare.add_argument("--rebuild", action="store_true", help="build again what is there already")

    start = commands.add_parser("start", help="start a new server of each name")
    start.add_argument("names", nargs="+", metavar="NAME")
    _add_server_options(start)
    start.add_argument("--owner-pid", type=int, help="stop it once this process has gone")

    restart = commands.add_parser("restart", help="start an instance again on its data and port")
    restart.add_argument("ids", nargs="+", metavar="ID")
    _add_server_options(restart)

    stop = commands.add_parser("stop", help="stop servers and remove their data")
    stop.add_argument(
        "which", nargs="*", metavar="ID|NAME", help="default: all but test sessions' own"
    )
    stop.add_argument("--all", action="store_true", help="running test sessions' servers too")

    status = commands.add_parser("status", help="what is prepared and what runs")
    status.add_argument("--json", action="store_true")

    tool = commands.add_parser("tool", help="run a server's own client program, e.g. mysqlbinlog")
    tool.add_argument("name", metavar="NAME")
    tool.add_argument("program", metavar="PROGRAM")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)

    build = commands.add_parser("images", help="build container images (root)")
    build.add_argument("names", nargs="*", metavar="NAME", help="default: all")

    daemon = commands.add_parser("dockerd", help="start or stop a Docker daemon by hand (root)")
    daemon.add_argument("action", choices=("start", "stop"))
    return top


def _add_server_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option",
        action="append",
        metavar="OPTION[=VALUE]",
        help="an option of the server itself, with or without its dashes; repeatable",
    )
    command.add_argument("--json", action="store_true", help="one JSON object per server")
    command.add_argument("--timeout", type=float, default=60.0, help="seconds to wait (60)")


def main(arguments: list[str]) -> int:
    """Runs one subcommand and returns its exit status.

    0: done; 1: a fault, which one line names; 2: wrong usage; 130: interrupted.
    """
    chosen = parser().parse_args(arguments)
    try:
        _run(chosen)
    except ServersError as error:
        print(f"scripts/servers: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(chosen: argparse.Namespace) -> None:
    match chosen.command:
        case "prepare":
            _prepare(chosen.names, rebuild=chosen.rebuild)
        case "start":
            for name in chosen.names:
                _show(_started(name, chosen), as_json=chosen.json)
        case "restart":
            for identity in chosen.ids:
                instance = _instance(identity)
                restart = kafka.restart if instance.name == kafka.NAME else instances.restart
                _show(restart(instance, chosen.option, timeout=chosen.timeout), as_json=chosen.json)
        case "stop":
            for instance in _to_stop(chosen.which, everything=chosen.all):
                instances.stop(instance)
                print(f"{instance.id} stopped")
        case "status":
            _status(as_json=chosen.json)
        case "tool":
            recipe = recipe_named(chosen.name)
            roots.need_root_of(recipe)
            command = program_command(recipe, tool_path(recipe, chosen.program))
            os.execv(command[0], [*command, *chosen.arguments])
        case "images":
            for recipe in _recipes(chosen.names):
                print(f"{recipe.image}  {images.build(recipe)}", flush=True)
        case "dockerd":
            print(docker_daemon.start() if chosen.action == "start" else docker_daemon.stop())


def _started(name: str, chosen: argparse.Namespace) -> Instance:
    options, owner_pid, timeout = chosen.option or [], chosen.owner_pid, chosen.timeout
    if name != kafka.NAME:
        return instances.start(recipe_named(name), options, owner_pid=owner_pid, timeout=timeout)
    directory, owner = instances.new_directory(name, owner_pid)
    try:
        return kafka.start(directory, directory.name, options, owner, timeout)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _recipes(names: Iterable[str]) -> list[Recipe]:
    return [recipe_named(name) for name in names] or list(RECIPES.values())


def _prepare(names: list[str], *, rebuild: bool) -> None:
    others = [name for name in names if name != kafka.NAME]
    if not names:
        try:
            install_programs(docker_daemon.PROGRAMS, doing="preparing Docker")
        except ServersError as error:
            if os.geteuid() == 0:
                raise
            print(f"no containers: {error}", file=sys.stderr)

    def prepare(recipe: Recipe) -> str:
        began = time.monotonic()
        version = roots.prepare(recipe, rebuild=rebuild)
        return f"{recipe.name:14} ready in {time.monotonic() - began:5.1f} s  {version}"

    # Two at a time: one downloads while the other unpacks.
    with ThreadPoolExecutor(max_workers=2) as workers:
        for line in workers.map(prepare, _recipes(others) if others or not names else []):
            print(line, flush=True)
    if not names or kafka.NAME in names:
        print(f"{kafka.NAME:14} ready  {kafka.prepare(rebuild=rebuild)}", flush=True)


def _instance(identity: str) -> Instance:
    for instance in instances.all_instances():
        if instance.id == identity:
            return instance
    raise ServersError(f"no instance is named {identity!r}; see: scripts/servers status")


def _to_stop(which: list[str], *, everything: bool) -> list[Instance]:
    known = instances.all_instances()
    free = known if everything else [one for one in known if one.owner is None or one.orphaned]
    if not which:
        return free
    chosen: list[Instance] = []
    for wanted in which:
        if wanted in RECIPES or wanted == kafka.NAME:
            chosen += [one for one in free if one.name == wanted and one not in chosen]
        else:
            chosen.append(_instance(wanted))
    return chosen


def _show(instance: Instance, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dataclasses.asdict(instance)), flush=True)
        return
    state = "running" if instance.running else "stopped"
    print(f"{instance.id}  {state}  {instance.version}  {instance.url}", flush=True)
    if instance.socket:
        print(f"    root: no password, socket {instance.socket}", flush=True)
    print(f"    data: {instance.datadir}", flush=True)


def _status(*, as_json: bool) -> None:
    known = instances.all_instances()
    if as_json:
        prepared = {
            name: roots.staleness(recipe, thorough=False) for name, recipe in RECIPES.items()
        }
        prepared[kafka.NAME] = kafka.staleness()
        running = [{**dataclasses.asdict(one), "running": one.running} for one in known]
        print(json.dumps({"prepared": prepared, "instances": running}))
        return
    for name, recipe in RECIPES.items():
        print(f"{name:14} {roots.staleness(recipe, thorough=False) or 'prepared'}")
    print(f"{kafka.NAME:14} {kafka.staleness() or 'prepared'}")
    for instance in known:
        _show(instance, as_json=False)
