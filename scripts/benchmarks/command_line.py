"""Arguments, runs, and the table of scripts/bench."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.chart import svg
from benchmarks.growth import growth
from benchmarks.text import OURS as TEXT_OURS, measure_text, text_files
from benchmarks.workloads import WORKLOADS, Workload

SCRIPTS = Path(__file__).resolve().parent.parent
CLIENT = Path(__file__).with_name("client.py")
PEERS = ("mysql-replication", "asyncmy", "mysql-event-stream", "cryptography")
OURS = (
    "arrow",
    "dicts",
    "file_arrow",
    "mapped_arrow",
    "memory_arrow",
    "filtered",
    "mapped_filtered",
    "memory_filtered",
)
PYTHON_PEERS = ("python_mysql_replication", "asyncmy", "mysql_event_stream")
SHIMS = ("pymysqlreplication_shim", "asyncmy_shim")
"""The peers' programs on this package; asyncmy's connections are its own."""
BESIDE = " beside"
"""Behind the name of a client of another checkout."""
TOOLS = {"mysql-9.7": "mysqlbinlog", "mariadb-11.8": "mariadb-binlog"}
_NO_TLS = {
    "mysqlbinlog": ["--ssl-mode=DISABLED", "--get-server-public-key"],
    "mariadb-binlog": ["--skip-ssl"],
}
_PATIENCE = 200
_TARGETS = (
    ("arrow", "python_mysql_replication", ">= 60"),
    ("arrow", "asyncmy", ">= 45"),
    ("arrow", "mysql_event_stream", ">= 8"),
    ("arrow", "mysqlbinlog", ">= 5"),
    ("arrow", "mariadb-binlog", ">= 5"),
    ("dicts", "python_mysql_replication", ">= 20"),
    ("dicts", "mysql_event_stream", ">= 2"),
    ("pymysqlreplication_shim", "python_mysql_replication", ">= 10"),
    ("asyncmy_shim", "asyncmy", ">= 5"),
)


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("-w", "--workload", action="append", choices=sorted(WORKLOADS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the workloads (1.0)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--client", action="append", help="only these; repeatable")
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="CHECKOUT",
        help="our clients of another, compiled checkout, too, in turn with those of this one",
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--svg", type=Path, help="write a chart there")
    parser.add_argument(
        "--read",
        type=Path,
        action="append",
        help="show figures that --json wrote instead of measuring; repeatable",
    )
    parser.add_argument(
        "--environment",
        type=Path,
        default=SCRIPTS.parent / ".venv-bench",
        help="where the peers are installed (.venv-bench)",
    )
    parser.add_argument(
        "--memory", action="store_true", help="peak memory of our clients while they read 1 GB"
    )
    parser.add_argument(
        "--growth",
        action="store_true",
        help="whether cost grows with the data; counts instructions, needs valgrind and no server",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="DIRECTORY",
        help="changes, events and check beside mysqlbinlog and mariadb-binlog, on files of 40 MB of each"
        " workload (times --scale), which stay in this directory; --client takes one of: "
        + ", ".join(TEXT_OURS),
    )
    chosen = parser.parse_args(arguments)
    if chosen.text:
        return _measure_text(chosen)
    if chosen.growth:
        return 0 if growth() else 1
    if chosen.read:
        known = [json.loads(path.read_text(encoding="utf-8")) for path in chosen.read]
        _report({name: result for each in known for name, result in each.items()}, chosen)
        return 0
    if chosen.memory:
        chosen.workload, chosen.scale, chosen.rounds = ["a"], 6.8, 1
        chosen.client = chosen.client or ["arrow", "dicts"]
    ours_only = chosen.client and set(chosen.client) <= set(OURS)
    python = Path(sys.executable) if ours_only else _peer_python(chosen.environment)
    servers: dict[str, dict[str, Any]] = {}
    results: dict[str, Any] = {}
    try:
        for name in chosen.workload or ("a", "b", "c"):
            workload = WORKLOADS[name]
            if workload.server not in servers:
                servers[workload.server] = _start(workload.server)
            results[name] = _measure(workload, servers[workload.server], python, chosen)
    finally:
        _stop(servers)
    _report(results, chosen)
    return 0


def _measure_text(chosen: argparse.Namespace) -> int:
    servers: dict[str, dict[str, Any]] = {}

    def write(workload: Workload, scale: float) -> Path:
        if workload.server not in servers:
            servers[workload.server] = _start(workload.server)
        return _write(workload, servers[workload.server], scale)[1]

    try:
        workloads = [WORKLOADS[name] for name in chosen.workload or WORKLOADS]
        files = text_files(chosen.text, workloads, write, chosen.scale)
    finally:
        _stop(servers)
    measure_text(files, chosen.rounds, chosen.client or ())
    return 0


def _stop(servers: dict[str, dict[str, Any]]) -> None:
    for server in servers.values():
        stop = [sys.executable, str(SCRIPTS / "servers"), "stop", server["id"]]
        subprocess.run(stop, check=False)


def _report(results: dict[str, Any], chosen: argparse.Namespace) -> None:
    for name, result in results.items():
        _show(name, result)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if chosen.svg:
        groups = {
            f"{name}: {result['about']}": {
                client: result["clients"][client]["cpu"] / result["clients"]["arrow"]["cpu"]
                for client in (*PYTHON_PEERS, *TOOLS.values())
                if client in result["clients"] and "arrow" in result["clients"]
            }
            for name, result in results.items()
        }
        chart = svg("CPU seconds, as a multiple of replica_client (Arrow)", groups)
        chosen.svg.write_text(chart, encoding="utf-8")


def _packages_of(python: Path) -> str:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.check_output([python, "-c", code], text=True).strip()


def _peer_python(environment: Path) -> Path:
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True)
    return python


def _start(name: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPTS / "servers"), "start", name, "--json"]
    options = ("binlog-row-metadata=FULL", "max-binlog-size=1G", "sync-binlog=0")
    command += [f"--option={option}" for option in options]
    command += ["--option=innodb-flush-log-at-trx-commit=0"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    server: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    return server


def _write(workload: Workload, server: dict[str, Any], scale: float) -> tuple[int, Path]:
    """Write a workload into a binlog file of its own: how many changes it has, and its path."""
    import pymysql

    connection = pymysql.connect(
        unix_socket=server["socket"], user=server["root_user"], password=server["root_password"]
    )
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE bench_{workload.name}")
        cursor.execute(f"USE bench_{workload.name}")
        # The privileges that peers ask for besides.
        cursor.execute(f"GRANT SELECT ON *.* TO '{server['replica_user']}'@'%'")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        file = cursor.fetchall()[-1][0]
    print(f"{workload.name}: writing {workload.about} …", file=sys.stderr, flush=True)
    changes = workload.write(connection, scale)
    connection.commit()
    connection.close()
    return changes, Path(server["datadir"], file)


def _measure(
    workload: Workload, server: dict[str, Any], python: Path, chosen: argparse.Namespace
) -> dict[str, Any]:
    changes, path = _write(workload, server, chosen.scale)
    file = path.name
    clients = chosen.client or [*OURS, *SHIMS, TOOLS[workload.server], *PYTHON_PEERS]
    if chosen.beside:
        clients = [
            name
            for client in clients
            for name in ([client, client + BESIDE] if client in OURS else [client])
        ]
    runs: dict[str, list[dict[str, float]]] = {client: [] for client in clients}
    for _ in range(chosen.rounds):
        for client in clients:
            found = None
            if client in runs:
                checkout = chosen.beside if client.endswith(BESIDE) else SCRIPTS.parent
                name = client.removesuffix(BESIDE)
                found = _run(name, server, python, file, changes, path, checkout)
            if found is None:
                runs.pop(client, None)  # it cannot read this
            else:
                runs[client].append(found)
                print(f"  {client}: {found}", file=sys.stderr, flush=True)
    medians = {
        client: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for client, found in runs.items()
        if found
    }
    return {
        "about": workload.about,
        "changes": changes,
        "mb": path.stat().st_size / 1e6,
        "rounds": chosen.rounds,
        "clients": medians,
    }


def _run(
    client: str,
    server: dict[str, Any],
    python: Path,
    file: str,
    changes: int,
    path: Path,
    checkout: Path,
) -> dict[str, float] | None:
    position = (
        server["host"],
        str(server["port"]),
        server["replica_user"],
        server["replica_password"],
    )
    if client in TOOLS.values():
        command = [sys.executable, str(SCRIPTS / "servers"), "tool", server["name"], client, "-v"]
        command += ["--base64-output=DECODE-ROWS", "--read-from-remote-server", "--protocol=tcp"]
        command += [f"--host={position[0]}", f"--port={position[1]}", f"--user={position[2]}"]
        command += _NO_TLS[client]
        return _timed([*command, file], {**os.environ, "MYSQL_PWD": position[3]})
    interpreter = str(python) if client in PYTHON_PEERS else sys.executable
    command = [interpreter, str(CLIENT), client, *position, file, str(changes), str(path)]
    environment = dict(os.environ)
    if interpreter == sys.executable:
        environment |= {"PYTHONPATH": str(checkout.resolve()), "REPLICA_CLIENT_IMPL": "compiled"}
    if client == "asyncmy_shim":
        environment["PYTHONPATH"] += f"{os.pathsep}{_packages_of(python)}"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"  {client}: no end after {_PATIENCE} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"  {client} failed:\n{done.stderr[-1500:]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout)
    if client in (*PYTHON_PEERS, *SHIMS) and found["result"] != changes:
        print(f"  {client}: {found['result']} of {changes} changes", file=sys.stderr)
        return None
    return found


def _timed(command: list[str], environment: dict[str, str]) -> dict[str, float] | None:
    """CPU seconds of a program and its children; the start of the wrapper is taken off."""
    idle = _children([*command[:5], "--version"], environment)
    found = _children(command, environment)
    if idle is None or found is None:
        return None
    return {**found, "cpu": found["cpu"] - idle["cpu"], "wall": found["wall"] - idle["wall"]}


def _children(command: list[str], environment: dict[str, str]) -> dict[str, float] | None:
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        print(f"  {command[4]} ended with status {status}", file=sys.stderr)
        return None
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - begun,
        "rss_mb": usage.ru_maxrss / 1024,
        "result": 0,
    }


def _show(name: str, result: dict[str, Any]) -> None:
    clients, changes, size = result["clients"], result["changes"], result["mb"]
    print(
        f"\n{name}: {result['about']} ({changes} changes, {size:.0f} MB, {result['rounds']} rounds)"
    )
    print(f"  {'client':26} {'cpu s':>8} {'wall s':>8} {'MB/cpu s':>9} {'peak MB':>8}")
    for client, found in clients.items():
        rate = size / found["cpu"] if found["cpu"] else 0.0
        print(
            f"  {client:26} {found['cpu']:8.3f} {found['wall']:8.3f} {rate:9.0f} {found['rss_mb']:8.0f}"
        )
    for ours, peer, target in _TARGETS:
        if ours in clients and peer in clients:
            cpu = clients[peer]["cpu"] / clients[ours]["cpu"]
            wall = clients[peer]["wall"] / clients[ours]["wall"]
            print(f"  {peer} / {ours}: cpu {cpu:.1f}x, wall {wall:.1f}x  (target {target})")
    for ours, found in clients.items():
        if ours + BESIDE in clients:
            other = clients[ours + BESIDE]
            print(f"  {ours}: {found['cpu'] / other['cpu']:.3f} of the CPU time beside")
        if "share" in found:
            rate, copied = size / 1000 / found["cpu"], size / 1000 / found["memcpy"]
            print(
                f"  {ours}: {rate:.2f} GB/s, {100 * found['share']:.1f} % of memcpy ({copied:.1f} GB/s)"
            )
