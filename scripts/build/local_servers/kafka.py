"""Apache Kafka's own broker, one node with its controller, from the jars that Maven gives.

Options of `scripts/servers start` are properties of the broker. Their values may hold `{port}`, the port of the
listener PLAINTEXT, and `{controller}`. `add-scram=SCRAM-SHA-512=[name=…,password=…]` makes an account.
"""

import dataclasses
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from local_servers import layout
from local_servers.commands import run
from local_servers.debian import install_programs
from local_servers.faults import ServersError
from local_servers.greeting import free_port
from local_servers.instances import HOST, Instance
from local_servers.processes import started_at, terminate

NAME = "kafka-4.4"
VERSION = "4.4.0"
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"),
)
_FINGERPRINT = hashlib.sha256(repr(_ARTIFACTS).encode()).hexdigest()[:16]
_PROGRAMS = {"java": "default-jre-headless", "mvn": "maven"}
_FETCH_TIMEOUT = 900.0
_FORMAT_TIMEOUT = 120.0
_CLUSTER = "qF6KwE9nTLycbDTwT3CNlQ"
_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_SCRAM = "add-scram"
_LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = INFO
"""
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": f"1@{HOST}:{{controller}}",
    "listeners": f"PLAINTEXT://{HOST}:{{port}},CONTROLLER://{HOST}:{{controller}}",
    "advertised.listeners": f"PLAINTEXT://{HOST}:{{port}}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


def _home() -> Path:
    return layout.server_dir(NAME)


def staleness() -> str | None:
    """Return why the jars cannot be used; None if they can."""
    manifest = layout.read_json(_home() / "manifest.json")
    if manifest is None or not (_home() / "libs").is_dir():
        return "it has not been prepared"
    return None if manifest.get("fingerprint") == _FINGERPRINT else "its recipe has changed"


def prepare(*, rebuild: bool = False) -> str:
    """Fetch the jars, unless they are there, and return the version."""
    home = _home()
    with layout.locked(home / "lock"):
        if rebuild or staleness() is not None:
            install_programs(_PROGRAMS, doing=f"preparing {NAME}")
            _fetch(home)
            _archive_classes(home)
            layout.write_json(home / "manifest.json", {"fingerprint": _FINGERPRINT})
            layout.give_to_caller(NAME)
    return VERSION


def _fetch(home: Path) -> None:
    building = home / "building"
    shutil.rmtree(building, ignore_errors=True)
    shutil.rmtree(home / "libs", ignore_errors=True)
    building.mkdir(parents=True)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in _ARTIFACTS
    )
    (building / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
        f"<artifactId>broker</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>\n"
    )
    copy = ("dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime")
    run(("mvn", "-q", "-B", *copy), doing=f"getting {NAME}", timeout=_FETCH_TIMEOUT, cwd=building)
    (building / "libs").rename(home / "libs")
    (home / "log4j2.properties").write_text(_LOGGING)
    shutil.rmtree(building)


def _archive_classes(home: Path) -> None:
    """Start and stop a broker once; the classes that it loaded make later starts quicker."""
    (home / "kafka.jsa").unlink(missing_ok=True)
    directory = home / "building"
    try:
        instance = _launch(directory, NAME, [], None, 120, archive=True)
        terminate(instance.pid, instance.pid_start, timeout=120)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def start(
    directory: Path, identity: str, options: list[str], owner: list[str] | None, timeout: float
) -> Instance:
    """Start a broker on new data, and return when it takes requests."""
    if (reason := staleness()) is not None:
        raise ServersError(f"{NAME}: {reason}; run: scripts/servers prepare {NAME}")
    return _launch(directory, identity, options, owner, timeout)


def restart(instance: Instance, options: list[str] | None, *, timeout: float) -> Instance:
    """Stop a broker, if it runs, and start it on its data and port."""
    terminate(instance.pid, instance.pid_start, timeout=timeout)
    given = instance.options if options is None else options
    directory = Path(instance.directory)
    return _launch(directory, instance.id, given, instance.owner, timeout, port=instance.port)


def _java(home: Path) -> list[str]:
    return [
        "java",
        "-cp",
        ":".join(str(one) for one in sorted((home / "libs").glob("*.jar"))),
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
    ]


def _launch(
    directory: Path,
    identity: str,
    options: list[str],
    owner: list[str] | None,
    timeout: float,
    *,
    port: int = 0,
    archive: bool = False,
) -> Instance:
    home, data, log = _home(), directory / "data", directory / "error.log"
    directory.mkdir(parents=True, exist_ok=True)
    given = [one.lstrip("-").partition("=") for one in options]
    port = port or free_port()
    properties = {
        **_PROPERTIES,
        "log.dirs": str(data),
        **{name: value for name, _, value in given if name != _SCRAM},
    }
    controller = str(free_port())
    path = directory / "server.properties"
    path.write_text(
        "".join(
            f"{name}={value.replace('{port}', str(port)).replace('{controller}', controller)}\n"
            for name, value in properties.items()
        )
    )
    if not data.exists():
        scram = [
            part for name, _, value in given if name == _SCRAM for part in (f"--{_SCRAM}", value)
        ]
        tool = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(path), *scram)
        run((*_java(home), *tool), doing=f"formatting {identity}", timeout=_FORMAT_TIMEOUT)
    classes = home / "kafka.jsa"
    use = f"-XX:{'ArchiveClassesAtExit' if archive else 'SharedArchiveFile'}={classes}"
    program, *rest = _java(home)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                program,
                *_JVM,
                *([use] if archive or classes.exists() else []),
                *rest,
                "kafka.Kafka",
                str(path),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env={**os.environ, "LOG_DIR": str(directory)},
            start_new_session=True,
        )
    mark = started_at(process.pid) or ""
    try:
        _wait_until_up(process, identity, log, timeout)
    except BaseException:
        process.kill()
        process.wait()
        raise
    instance = Instance(
        id=identity,
        name=NAME,
        flavor="kafka",
        version=VERSION,
        host=HOST,
        port=port,
        socket="",
        directory=str(directory),
        datadir=str(data),
        error_log=str(log),
        pid=process.pid,
        pid_start=mark,
        options=options,
        owner=owner,
        root_user="",
        replica_user="",
        replica_password="",
    )
    if not archive:
        layout.write_json(directory / "instance.json", dataclasses.asdict(instance))
    return instance


def _wait_until_up(
    process: "subprocess.Popen[bytes]", identity: str, log: Path, timeout: float
) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if "Kafka Server started" in text:
            return
        if process.poll() is not None:
            errors = [line for line in text.splitlines() if "ERROR" in line or "Exception" in line]
            said = errors[0] if errors else "its log says nothing"
            raise ServersError(f"{identity} ended at start: {said[:300]}")
        time.sleep(0.1)
    raise ServersError(f"{identity} did not start within {timeout:.0f} s")
