"""The project's own files, read as text and as syntax trees, for the tests in this folder.

Not here: any rule about them; each rule is a test.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import warren_source

ROOT = warren_source.ROOT
PACKAGE = ROOT / "src" / "warren"

# Pure means compiled, and the other way round: one list serves both.
PURE_NAMES = tuple(name.removesuffix(".py") for name in warren_source.COMPILED_NAMES)

PROJECT_FOLDERS = ("src", "tests", "tools", "docs", "examples", "bench", "conformance", "requirements", ".ci")
PROSE_SUFFIXES = {".py", ".md", ".toml", ".txt", ".sh", ".c", ""}


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def project_files() -> tuple[Path, ...]:
    """Every text file of the project, wherever it may carry prose."""
    roots = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    inside = [path for folder in PROJECT_FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return tuple(sorted(path for path in roots + inside if path.suffix in PROSE_SUFFIXES))


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def modules_of(name: str) -> list[Path]:
    """The modules of one package of warren, or the module of that name."""
    path = PACKAGE / name
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    return [path.with_suffix(".py")] if path.with_suffix(".py").exists() else []


def pure_modules() -> list[Path]:
    return [module for name in PURE_NAMES for module in modules_of(name)]


def imported_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of a module, relative ones made absolute."""
    package = path.relative_to(ROOT / "src").with_suffix("").parts[:-1] if "src" in path.parts else ()
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"
