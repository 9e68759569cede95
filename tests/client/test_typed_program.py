"""A user's program and the installed package: typed for `mypy --strict`, and complete without this project's tree."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.client import shop_program

ROOT = Path(__file__).parents[2]
PROGRAM = Path(shop_program.__file__)
DEADLINE_S = 600

# the first one has to wait for the installation
pytestmark = pytest.mark.timeout(2 * DEADLINE_S)

SAID = """\
returned NO_ROUTE rejected
taken [1, 2, 3]
resent 0
done True open 1
paid 1
paid 2
answer 4 cents
pulled [b'3']
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the package, built from a copy of the tree, and with its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    tree = folder / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    _done([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    [site] = (folder / "venv/lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    _done([*pip, "--no-compile", "--disable-pip-version-check", "--target", str(site), str(tree)])
    # appended to the path, without this project's sources
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    return folder / "venv/bin/python"


def _done(command: list[str], **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, env={**environment, **variables}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_program_is_typed_to_the_last_call(installed: Path, tmp_path: Path) -> None:
    program = shutil.copy(PROGRAM, tmp_path / "shop.py")
    checked = ["--strict", "--python-executable", str(installed), "--config-file", "", "--cache-dir", str(tmp_path)]
    assert (
        _done([sys.executable, "-m", "mypy", *checked, str(program)]) == "Success: no issues found in 1 source file\n"
    )


def test_the_program_runs_with_the_installed_package(installed: Path, tmp_path: Path) -> None:
    program = shutil.copy(PROGRAM, tmp_path / "shop.py")
    assert _done([str(installed), "-W", "error", str(program), str(tmp_path / "shop.db")]) == SAID
    found = _done([str(installed), "-c", "import warren.client; print(warren.client.__file__)"])
    assert Path(found.strip()).is_relative_to(installed.parents[1])
