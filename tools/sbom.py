"""Writes the software bill of materials of a node: a CycloneDX document of the packages in requirements/run.txt.

It is made of the lock alone, so the same commit gives the same file. A component has the hashes of all files that pip
may install for it, one for each platform. A package for some platforms only has its condition as a property.

Usage: tools/sbom.py FILE
"""

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_PACKAGE = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+?)(?: ; (?P<condition>.+?))?(?: \\)?")
_HASH = re.compile(r"\s+--hash=sha256:([0-9a-f]{64})(?: \\)?")
_VIA = re.compile(r"\s+#(?: via|  ) ([\w.-]+)(?: \(pyproject.toml\))?")
OWN_NAME = "warren"


def document(lock: str, version: str) -> dict[str, Any]:
    """The bill of materials for the text of a lock file, and the version of Warren."""
    own = {"type": "application", **_identity(OWN_NAME, version)}
    components: list[dict[str, Any]] = []
    # for each package, the packages that need it
    needed_by: dict[str, list[str]] = {}
    for line in lock.splitlines():
        if found := _PACKAGE.fullmatch(line):
            components.append({"type": "library", **_identity(found["name"], found["version"]), "hashes": []})
            needed_by[components[-1]["bom-ref"]] = []
            if found["condition"]:
                components[-1]["properties"] = [{"name": "python:marker", "value": found["condition"]}]
        elif found := _HASH.fullmatch(line):
            components[-1]["hashes"].append({"alg": "SHA-256", "content": found[1]})
        elif found := _VIA.fullmatch(line):
            needed_by[components[-1]["bom-ref"]].append(found[1])
        elif not line.strip().startswith("#"):
            raise SystemExit(f"the lock has a line that is not understood: {line}")
    dependencies = [
        {"ref": one["bom-ref"], "dependsOn": [ref for ref, names in needed_by.items() if one["name"] in names]}
        for one in (own, *components)
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'{OWN_NAME} {version} {lock}')}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": dependencies,
    }


def _identity(name: str, version: str) -> dict[str, str]:
    return {"bom-ref": f"{name}@{version}", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}


def main(path: Path) -> None:
    source = (ROOT / "src/warren/__init__.py").read_text()
    version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert version is not None
    found = document((ROOT / "requirements/run.txt").read_text(), version[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{path}: {len(found['components'])} packages")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
