"""Rules about packages that the import contracts in pyproject.toml cannot express."""

import re
import tomllib
from pathlib import Path

from tests.architecture.source_tree import PACKAGE, PURE_NAMES, ROOT, imported_names, modules_of, python_files, shown

# The packages of warren that a package outside the layers may import.
ALLOWED_OF_WARREN = {
    "client": {"client", "wire", "errors"},
    "spark": {"spark", "client", "wire", "errors"},
    "pipeline": {"pipeline", "spark", "client", "wire", "errors"},
    "bridges": {"bridges", "client", "broker", "wire", "errors"},
}
# Further packages that a part of such a package may import.
ALLOWED_OF_PARTS = {"client/testing": {"broker"}}
# Pure parts of packages that are otherwise not pure.
PURE_PARTS = {"client/machine"}
SPARK_HOMES = {"spark", "pipeline", "pyspark_warren"}


def test_every_package_has_an_import_rule() -> None:
    present = {path.stem for path in PACKAGE.iterdir() if path.name not in {"__init__.py", "__pycache__", "py.typed"}}
    assert present - set(_layered_names()) - set(ALLOWED_OF_WARREN) == set()


def test_everything_from_broker_down_is_pure() -> None:
    layers = _layered_names()
    assert set(layers[layers.index("broker") :]) == set(PURE_NAMES) - PURE_PARTS


def test_the_client_spark_and_pipeline_do_not_import_the_broker() -> None:
    strangers = [
        f"{shown(path)}:{line} imports {name}"
        for package, allowed in ALLOWED_OF_WARREN.items()
        for path in modules_of(package)
        for line, name in imported_names(path)
        if name.startswith("warren.") and name.split(".")[1] not in allowed | _allowed_of_part(path)
    ]
    assert strangers == []


def test_the_simulator_does_not_import_the_admin_shell() -> None:
    strangers = [
        f"{shown(path)}:{line}"
        for path in modules_of("sim")
        for line, name in imported_names(path)
        if name.startswith("warren.admin")
    ]
    assert strangers == []


def test_only_the_spark_packages_import_pyspark() -> None:
    strangers = [
        f"{shown(path)}:{line}"
        for path in python_files("src")
        for line, name in imported_names(path)
        if name.split(".")[0] == "pyspark" and not SPARK_HOMES & set(path.relative_to(ROOT).parts)
    ]
    assert strangers == []


def _allowed_of_part(path: Path) -> set[str]:
    part = "/".join(path.relative_to(PACKAGE).parts[:2])
    return ALLOWED_OF_PARTS.get(part, set())


def _layered_names() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [name for layer in contracts[0]["layers"] for name in re.findall(r"\w+", layer)]
