"""Arguments, runs, and the table of scripts/proofs/dependents."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from programs.chameleon import PgChameleon
from programs.clickhouse import MysqlChReplicator
from programs.environments import Environment
from programs.programs import Binlog2sql, Meilisync, Program, TapMysql
from programs.shop import Shop, make_user, prepare
from tests.servers.local import LocalServer, LocalServers

PROGRAMS = (TapMysql, Binlog2sql, Meilisync, PgChameleon, MysqlChReplicator)
STREAM_ALONE = Path(__file__).with_name("stream_alone.py")


def main(arguments: Sequence[str]) -> int:
    """Run the command line; 0 when every program delivers the same with both."""
    parser = argparse.ArgumentParser(prog="scripts/proofs/dependents")
    parser.add_argument("names", nargs="*", help="of programs, in part")
    parser.add_argument("--rows", type=int, default=20_000, help="that the table gets (20,000)")
    parser.add_argument("--environments", type=Path, help="where they are installed and stay")
    chosen = parser.parse_args(arguments)
    wanted = [
        program
        for program in PROGRAMS
        if not chosen.names or any(name in program.name for name in chosen.names)
    ]
    faults = 0
    servers: dict[str, LocalServer] = {}
    local = LocalServers()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        environments = (chosen.environments or directory / "environments").resolve()
        try:
            for kind in wanted:
                server = servers.get(kind.server)
                if server is None:
                    server = servers[kind.server] = local.fresh(kind.server, _options(kind.server))
                    make_user(server)
                rows = chosen.rows if kind.step > 1 else chosen.rows // 4
                prepare(server)
                shop = Shop(server, rows, kind.step)
                if not kind.fills:
                    shop = shop.filled()
                faults += not _compare(kind, shop, environments, directory)
        finally:
            local.close()
    return int(bool(faults))


def _options(server: str) -> list[str]:
    options = ["max-binlog-size=1G", "sync-binlog=0", "innodb-flush-log-at-trx-commit=0"]
    return options if server == "mysql-5.6" else [*options, "binlog-row-metadata=FULL"]


def _compare(kind: type[Program], shop: Shop, environments: Path, directory: Path) -> bool:
    environment = Environment(environments / kind.name.replace(" ", "_"), kind.packages)
    program = kind(environment, directory)
    theirs, ours = program.run(shop, False), program.run(shop, True)
    shop = program.shop or shop
    streams = [_stream_alone(kind, shop, environment, directory, ours) for ours in (False, True)]
    same = theirs.output == ours.output and bool(ours.output)
    result = "same" if same else "DIFFERENT"
    print(f"{kind.name}, {kind.server}, {shop.rows} rows: {result}, {len(ours.output)} characters")
    print(
        f"    whole program  {theirs.cpu:6.2f} s  {ours.cpu:6.2f} s  {theirs.cpu / ours.cpu:5.1f}x"
    )
    one, two = streams
    print(f"    stream alone   {one[0]:6.2f} s  {two[0]:6.2f} s  {one[0] / two[0]:5.1f}x")
    print(f"    start, imports {one[1]:6.2f} s  {two[1]:6.2f} s")
    rest = theirs.cpu - sum(one), ours.cpu - sum(two)
    most = theirs.cpu / rest[1]
    print(
        f"    its own        {rest[0]:6.2f} s  {rest[1]:6.2f} s  {most:5.1f}x at most",
        flush=True,
    )
    for name in ours.parts:
        print(f"        process {name[-60:]}: {ours.parts[name]:.2f} s with the shim")
    for name in theirs.parts:
        print(f"        process {name[-60:]}: {theirs.parts[name]:.2f} s with the original")
    for whose, run in (("the original", theirs), ("the shim", ours)):
        if run.fault:
            print(f"    with {whose}: {run.fault}")
    if not same:
        _show_difference(theirs.output, ours.output)
    return same and not ours.fault


def _stream_alone(
    kind: type[Program], shop: Shop, environment: Environment, directory: Path, ours: bool
) -> tuple[float, float]:
    settings = [str(shop.settings[key]) for key in ("host", "port", "user", "password")]
    command = environment.command(
        ours,
        *(str(STREAM_ALONE), kind.stream, *settings, shop.file, str(shop.rows)),
        options=kind.options,
    )
    done = environment.run(command, directory)
    if done.fault:
        raise RuntimeError(done.fault)
    rows, cpu, start = done.output.split()
    if int(rows) != shop.rows:
        raise RuntimeError(f"{rows} of {shop.rows} rows")
    return float(cpu), float(start)


def _show_difference(theirs: str, ours: str) -> None:
    lines = theirs.splitlines(), ours.splitlines()
    print(f"    lines: {len(lines[0])} with the original, {len(lines[1])} with the shim")
    for one, two in zip(*lines, strict=False):
        if one != two:
            print(f"    original: {one[:300]}\n    shim:     {two[:300]}")
            return
