"""The dashboard and the alert rules of contrib: what they name is there, and the rules do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replica_client.service.observation import RouteState
from tests.servers.plugin import unavailable
from tests.unit.service.conftest import running, until
from tests.unit.service.test_delivery import route

CONTRIB = Path(__file__).parents[3] / "contrib"
RULES = CONTRIB / "prometheus" / "alerts.yml"
DASHBOARD = CONTRIB / "grafana" / "replica-client.json"
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus itself puts on what it reads."""
METRIC = re.compile(r"\b((?:replica_client|process)_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")


async def exposed(configure: Any, disk: Any, wanted: list[str]) -> dict[str, set[str]]:
    """The labels of each metric that a running service shows, by its name."""
    from prometheus_client.parser import text_string_to_metric_families

    from replica_client.service.pages import pages_of

    one = disk()
    found: dict[str, set[str]] = {}
    async with running(configure(source={"record_losses": ["all"]})) as service:
        await until(lambda: one.lines == wanted and service.lag_bytes(route(service)) is not None)
        text = pages_of(service)["/metrics"]().body.decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> list[dict[str, str]]:
    """Name, expression and all texts of each rule."""
    found = []
    for text in RULES.read_text().split("- alert: ")[1:]:
        expression = re.search(r"^ +expr: (.*)$", text, re.MULTILINE)
        assert expression is not None
        found.append(
            {
                "alert": text.split("\n")[0],
                "expr": expression[1],
                "shown": text.split("annotations")[1],
            }
        )
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def check_expression(text: str, shown: str, known: dict[str, set[str]]) -> None:
    """Names of metrics and labels in an expression, and labels in what is written of its result."""
    metrics = METRIC.findall(text)
    assert metrics, text
    every = set(OF_PROMETHEUS)
    for name, matchers in metrics:
        assert name in known, f"there is no metric {name}"
        assert set(LABEL.findall(matchers)) <= known[name] | OF_PROMETHEUS, text
        every |= known[name]
    for labels in re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", text):
        assert {one.strip() for one in labels.split(",")} <= every, text
    for state in re.findall(r'state="([^"]*)"', text):
        assert state in {str(one).replace(" ", "_") for one in RouteState}
    assert set(re.findall(r"\$labels\.([a-z_]+)", shown)) <= every, shown
    assert set(re.findall(r"\{\{([a-z_]+)\}\}", shown)) <= every, shown


async def test_rules_and_dashboard_name_what_is_there(configure, disk, wanted) -> None:
    known = await exposed(configure, disk, wanted)
    assert known["replica_client_losses_total"] == {"source", "sink", "kind"}
    for rule in rules():
        check_expression(rule["expr"], rule["shown"], known)
    named: set[str] = set()
    for panel in panels():
        for target in panel["targets"]:
            check_expression(target["expr"], target["legendFormat"], known)
            named |= {name for name, _ in METRIC.findall(target["expr"])}
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"][1:]:
        label = re.fullmatch(r"label_values\((.*), ([a-z]+)\)", variable["definition"])
        assert label is not None
        check_expression(label[1], f"{{{{{label[2]}}}}}", known)
    # And all that there is is on it.
    ours = {name for name in known if name.startswith("replica_client_")}
    assert {name for name in ours if not name.endswith("_created")} <= named


def test_the_dashboard_is_one() -> None:
    """What Grafana wants of a dashboard: ids, places on the grid that do not overlap, a data source that is chosen."""
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"]
    assert dashboard["schemaVersion"] >= 36
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    text = DASHBOARD.read_text()
    used = set(re.findall(r"\$\{?([a-z]+)\}?", text)) - {"labels"}
    assert used == variables
    every = dashboard["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    taken: set[tuple[int, int]] = set()
    for panel in every:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def promtool(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        unavailable("no promtool: apt-get install prometheus")
    return subprocess.run(
        [program, *words],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
def test_rules_do_what_they_say(tmp_path: Path) -> None:
    """By promtool; and each rule's test fails where the rule is another one."""
    checked = promtool("check", "rules", "alerts.yml", directory=RULES.parent)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", "alerts_test.yml", directory=RULES.parent)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    text = RULES.read_text()
    assert len(rules()) == 11
    for rule in rules():
        mutated = text.replace(rule["expr"], f"({rule['expr']}) and vector(1) == 2")
        assert mutated != text
        (tmp_path / "alerts.yml").write_text(mutated)
        shutil.copy(RULES.parent / "alerts_test.yml", tmp_path)
        failed = promtool("test", "rules", "alerts_test.yml", directory=tmp_path)
        assert failed.returncode != 0, f"nothing tests {rule['alert']}"


def test_expressions_of_the_dashboard_can_be_parsed(tmp_path: Path) -> None:
    """By promtool, each as a rule."""
    made = []
    for panel in panels():
        for target in panel["targets"]:
            text = target["expr"].replace("$__rate_interval", "5m")
            made.append({"record": f"panel:{len(made)}", "expr": text})
    (tmp_path / "dashboard.yml").write_text(
        json.dumps({"groups": [{"name": "panels", "rules": made}]})  # which YAML is, too
    )
    checked = promtool("check", "rules", "dashboard.yml", directory=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
