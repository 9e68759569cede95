"""The dashboard and the alert rules use existing metrics."""

import json
import re

import yaml

from tests.docs.pages import DOCS
from warren.admin.metrics.groups import BY_NAME, PER_OBJECT, WHOLE

METRIC = re.compile(r"\b((?:rabbitmq|warren|process)_[a-z_]+)\b")


def known() -> set[str]:
    groups = [*WHOLE, *PER_OBJECT, *(group for named in BY_NAME.values() for group in named)]
    return {group.prefix + family.name for group in groups for family in group.families}


def asked(expressions: list[str]) -> set[str]:
    assert all(expressions)
    return {name for expression in expressions for name in METRIC.findall(expression)}


def test_the_dashboard_shows_existing_metrics() -> None:
    dashboard = json.loads((DOCS / "grafana" / "warren.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    names = asked([target["expr"] for target in targets])
    assert len(names) > 40
    assert names - known() == set()


def test_every_panel_has_a_place_of_its_own() -> None:
    dashboard = json.loads((DOCS / "grafana" / "warren.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + right, place["y"] + down) for right in range(place["w"]) for down in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_alert_rules_use_existing_metrics() -> None:
    (group,) = yaml.safe_load((DOCS / "grafana" / "alerts.yml").read_text())["groups"]
    rules = group["rules"]
    assert {frozenset(rule) - {"for"} for rule in rules} == {frozenset({"alert", "expr", "labels", "annotations"})}
    assert len({rule["alert"] for rule in rules}) == len(rules)
    names = asked([rule["expr"] for rule in rules])
    assert len(names) > 15
    assert names - known() == set()


def test_the_documented_groups_are_those_of_the_code() -> None:
    text = (DOCS / "monitoring.md").read_text()
    table = text[text.index("| family | one line for each |") :].split("\n\n")[0]
    assert sorted(re.findall(r"`([a-z_]+)`", table)) == sorted(BY_NAME)
