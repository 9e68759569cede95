"""A command of `warren pipeline` in a process of its own, to be killed with everything it started.

It leads a process group, in which its Java is; Python processes that Java started end when they find it gone.

Not here: when it is killed, and what must hold then (`kills`).
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

WARREN = str(Path(sys.executable).with_name("warren"))
LOCAL = "local[2]"
SMALL = (
    "spark.driver.host=127.0.0.1",
    "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions=2",
)
RUN_S = 600.0


class Command:
    """One run of a job."""

    def __init__(
        self, log: Path, *arguments: str, master: str = LOCAL, conf: tuple[str, ...] = (), folder: Path | None = None
    ) -> None:
        """`folder` is the one it runs in, if not this process's."""
        self.log = log
        settings = [word for each in (*SMALL, *conf) for word in ("--conf", each)]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [WARREN, "pipeline", *arguments, "--master", master, "--memory", "700m", *settings],
                env=environment,
                cwd=folder,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """All of it, and wait until it is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self, exit_code: int = 0) -> None:
        """It must end, with this code."""
        try:
            code = self._process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -1
        assert code == exit_code, self.log.read_text(errors="replace")[-4000:]
