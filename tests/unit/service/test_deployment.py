"""What people run the service with: the image, compose, the chart, the systemd unit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from replica_client.service.checking import check
from replica_client.service.config_file import read_config
from tests.servers.plugin import unavailable

yaml = pytest.importorskip("yaml", reason="the package PyYAML is not installed")

ROOT = Path(__file__).parents[3]
CHART = ROOT / "contrib" / "helm" / "replica-client"
DOCKERFILE = (ROOT / "scripts" / "build" / "Dockerfile").read_text()
COMPOSE = ROOT / "docker-compose.yml"


# The image.


def test_the_image_has_the_service_and_only_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.MULTILINE)
    assert {"daemon"} <= set(extras.split(",")) <= project["optional-dependencies"].keys()
    final = DOCKERFILE.split("FROM ")[-1]
    assert re.search(r"^USER 10001", final, re.MULTILINE)
    assert "EXPOSE 9190" in final
    assert 'CMD ["run", "/etc/replica-client/config.toml"]' in final
    assert "apt-get" not in final


def test_the_image_is_built_of_files_that_are_there_and_sent() -> None:
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in sent, source


# Compose.


def _services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_compose_mounts_files_that_are_there() -> None:
    for name, service in _services().items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (ROOT / source).is_file(), (name, source)
        for needed in service.get("depends_on", ()):
            assert "healthcheck" in _services()[needed], (name, needed)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_compose_has_a_service_with_two_sinks(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    text = (ROOT / "contrib" / "compose" / "service.toml").read_text()
    config = tmp_path / "service.toml"
    config.write_text(text.replace("/var/lib/replica-client", str(tmp_path)))
    monkeypatch.setenv("SOURCE_PASSWORD", "secret")
    found = read_config(config)
    assert [route.sink.type for route in found.routes] == ["file", "postgres"]
    assert check(found) == []


def test_compose_has_a_configuration_that_prometheus_takes(tmp_path: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        unavailable("promtool is not installed (the package prometheus)")
    shutil.copy(ROOT / "contrib" / "compose" / "prometheus.yml", tmp_path)
    shutil.copy(ROOT / "contrib" / "prometheus" / "alerts.yml", tmp_path)
    command = [program, "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# The chart.


def _render(text: str, values: dict[str, Any]) -> Any:
    """A template of the chart with some values: the part of Helm's language that the chart uses."""
    lines: list[str] = []
    skipping = 0
    for line in text.splitlines():
        if found := re.fullmatch(r"\{\{- (if (.*)|end) \}\}", line):
            if found[2] is None:
                skipping = max(skipping - 1, 0)
            elif skipping or not _value(found[2], values):
                skipping += 1
        elif not skipping:
            lines.append(re.sub(r"\{\{ (.*?) \}\}", lambda one: str(_value(one[1], values)), line))
    assert "{{" not in "\n".join(lines)
    return yaml.safe_load("\n".join(lines))


def _value(expression: str, values: dict[str, Any]) -> Any:
    path, *calls = expression.split(" | ")
    found: Any = {"Values": values, "Release": {"Name": "shop"}}
    for part in path.removeprefix(".").split("."):
        found = found[part]
    for call in calls:
        name, *given = call.split()
        if name == "toYaml":
            found = yaml.safe_dump(found, default_flow_style=None).rstrip("\n")
        elif name == "indent":
            found = "\n".join(" " * int(given[0]) + one for one in found.split("\n"))
        elif name == "sha256sum":
            found = sha256(found.encode()).hexdigest()
        else:
            raise AssertionError(f"no function {name}")
    return found


def _chart(**changed: Any) -> dict[str, Any]:
    """The objects of the chart, by kind."""
    values = {**yaml.safe_load((CHART / "values.yaml").read_text()), **changed}
    found = (_render(path.read_text(), values) for path in sorted(CHART.glob("templates/*.yaml")))
    return {one["kind"]: one for one in found if one}


def test_the_chart_runs_the_image_as_it_is(tmp_path: Path, monkeypatch: Any) -> None:
    found = _chart()
    assert found.keys() == {"ConfigMap", "Service", "StatefulSet"}
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {"/var/lib/replica-client", "/etc/replica-client", "/tmp"}
    assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    claimed = {
        one["metadata"]["name"] for one in found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    volumes = claimed | {one["name"] for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    ports = {one["name"] for one in container["ports"]}
    assert {
        container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "startupProbe")
    } <= ports
    for one in found.values():
        labels = one["metadata"]["labels"].items()
        selector = one["spec"]["selector"] if one["kind"] == "Service" else {}
        assert labels >= selector.items()
    assert pod["terminationGracePeriodSeconds"] > 20
    config = tmp_path / "config.toml"
    config.write_text(found["ConfigMap"]["data"]["config.toml"])
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    assert [route.name for route in read_config(config).routes] == ["shop.changes"]


def test_the_chart_takes_its_values() -> None:
    found = _chart(
        replicas=2,
        secret="passwords",
        podMonitor={"enabled": True, "interval": "5s"},
        state={"size": "9Gi", "storageClass": "quick"},
        tolerations=[{"key": "a", "operator": "Exists"}],
        tls=True,
    )
    stateful = found["StatefulSet"]["spec"]
    assert stateful["replicas"] == 2
    (container,) = stateful["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "passwords"}}]
    for probe in ("livenessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert stateful["template"]["spec"]["tolerations"][0]["key"] == "a"
    (claim,) = stateful["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "quick"
    assert claim["spec"]["resources"]["requests"]["storage"] == "9Gi"
    (endpoint,) = found["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["interval"], endpoint["scheme"]) == ("5s", "https")


# The systemd unit.


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes on the rights of another user")
def test_the_unit_starts_what_init_wrote_with_the_rights_of_its_user() -> None:
    """Without systemd: the unit's own steps as root, then its files as its user, in its group."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)  # as /etc/replica-client
        secret, config = directory / "password", directory / "shop.toml"
        config.write_text(
            '[daemon]\nlisten = ""\n[[source]]\nname = "shop"\nurl = "mysql://repl@127.0.0.1:1/"\n'
            f'password = "file:{secret}"\n[[source.sink]]\ntype = "stdout"\n'
        )
        secret.write_text("hush")
        for path in (secret, config):
            path.chmod(0o600)  # as init writes it
        command = [sys.executable, "-m", "replica_client", "run", str(config), "--systemd-unit"]
        unit = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout
        lines = re.findall(r"^([A-Za-z]+)=(.*)$", unit, re.MULTILINE)
        assert {("User", "replica-client"), ("Group", "replica-client")} <= set(lines)
        as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat"]
        reading = [[*as_user, str(path)] for path in (secret, config)]
        assert all(
            subprocess.run(one, check=False, capture_output=True).returncode for one in reading
        )
        for step in [value for name, value in lines if name == "ExecStartPre"]:
            assert step.startswith("+"), "as root"
            words = [word.replace("replica-client", "65534") for word in shlex.split(step[1:])[:2]]
            subprocess.run([*words, *shlex.split(step)[2:]], check=True, timeout=30)
        assert b"hush" in subprocess.run(reading[0], check=True, capture_output=True).stdout
        subprocess.run(reading[1], check=True, capture_output=True)
