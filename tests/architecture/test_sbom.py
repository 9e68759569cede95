"""The software bill of materials names what is locked, and what is installed."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source_tree import ROOT

LOCK = ROOT / "requirements/run.txt"


def written_to(path: Path) -> dict[str, Any]:
    subprocess.run([sys.executable, ROOT / "tools/sbom.py", path], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return written_to(tmp_path_factory.mktemp("sbom") / "sbom.cdx.json")


def test_components_are_the_locked_packages_with_all_their_hashes(document: dict[str, Any]) -> None:
    # a package begins at the start of a line, and its hashes follow
    packages = re.split(r"^(?=\w)", LOCK.read_text(), flags=re.MULTILINE)[1:]
    locked = {text.split()[0]: re.findall(r"sha256:(\w+)", text) for text in packages}
    found = {
        f"{one['name']}=={one['version']}": [each["content"] for each in one["hashes"] if each["alg"] == "SHA-256"]
        for one in document["components"]
    }
    assert found == locked
    assert all(found.values())


def test_the_node_depends_on_what_the_project_asks_for(document: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked_for = {re.split(r"[>=<]", text)[0] for text in project["dependencies"]}
    depends_on = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    own = document["metadata"]["component"]["bom-ref"]
    assert {ref.partition("@")[0] for ref in depends_on[own]} == asked_for
    references = {one["bom-ref"] for one in document["components"]}
    assert references == {ref for needed in depends_on.values() for ref in needed} == set(depends_on) - {own}


def test_components_without_a_condition_are_installed_in_these_versions(document: dict[str, Any]) -> None:
    listed = {one["name"]: one["version"] for one in document["components"] if "properties" not in one}
    assert {name: importlib.metadata.version(name) for name in listed} == listed


def test_the_same_commit_gives_the_same_file(document: dict[str, Any], tmp_path: Path) -> None:
    assert written_to(tmp_path / "below" / "again.json") == document
