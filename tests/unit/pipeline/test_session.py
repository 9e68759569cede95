"""An error of Java or the master is one sentence, before Spark is started."""

import pytest

from tests.support.ports import free_port
from warren.cli.main import run
from warren.pipeline import session
from warren.pipeline.errors import PipelineError


@pytest.mark.parametrize(
    "master", ["", "lokal[*]", "local[0]", "local[*", "spark://host", "spark://host:port", "http://host:7077", "sc://"]
)
def test_a_master_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(PipelineError, match=r"is no master of Spark: local\[\*\], spark://HOST:PORT, yarn"):
        session.start("test", master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[2, 3]", "spark://one:7077,two:7077", "yarn", "k8s://https://host:443"],
)
def test_masters_that_spark_knows_are_accepted(master: str) -> None:
    assert session.MASTERS.fullmatch(master)


def test_an_unreachable_master_is_refused_at_once() -> None:
    first, second = free_port(), free_port()
    with pytest.raises(PipelineError, match=f"no Spark answers at spark://127.0.0.1:{first},127.0.0.1:{second}: Conn"):
        session.start("test", f"spark://127.0.0.1:{first},127.0.0.1:{second}")


def test_without_java_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(PipelineError, match=r"Spark needs Java, and /nowhere/bin/java cannot be started"):
        session.start("test")


def test_the_help_of_the_commands_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "--help"]) == 0
    assert "Example: warren pipeline trace" in capsys.readouterr().out
