"""A Java that is missing or too old is said in a sentence that names the package."""

from pathlib import Path

import pytest

from warren.spark.java import JavaError, java_version


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def put(home: Path, *lines: str) -> None:
    java = home / "bin" / "java"
    java.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}' >&2" for line in lines), ""]))
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_a_suitable_java_is_recognised_by_its_version(home: Path, line: str, version: int) -> None:
    put(home, "Picked up JAVA_TOOL_OPTIONS: -Xmx1g", line)
    assert java_version() == version


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is version 11"),
        ('java version "1.8.0_202"', "is version 8"),
        ("what?", "does not say what it is"),
    ],
)
def test_one_that_will_not_do_is_named(home: Path, line: str, said: str) -> None:
    put(home, line)
    with pytest.raises(
        JavaError, match=rf"Spark needs Java 17 or newer, and .*{said}: install openjdk-17-jre-headless"
    ):
        java_version()


def test_a_home_without_java_is_named(home: Path) -> None:
    with pytest.raises(JavaError, match=r"cannot be started \(No such file or directory\): install openjdk-17"):
        java_version()


def test_no_java_at_all_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="and there is none: install openjdk-17-jre-headless"):
        java_version()
