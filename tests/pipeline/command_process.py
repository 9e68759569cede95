"""A command of `warren pipeline` in a process of its own, to be killed with everything it started.

It leads a process group, in which its Java is; Python processes that Java started end when they find it gone.

Not here: the kills and the claims (`kills`).
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
PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
RUN_S = 600.0


class Command:
    """One run of a job."""

    def __init__(
        self, log: Path, *arguments: str, master: str = LOCAL, conf: tuple[str, ...] = (), folder: Path | None = None
    ) -> None:
        """`folder` is the one it runs in, if not this process's."""
        self.log = log
        settings = [word for each in (*SMALL, *conf) for word in ("--conf", each)]
        # as from any shell: which Python has Warren is for the command to know
        environment = {name: value for name, value in os.environ.items() if name not in PYTHONS}
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [WARREN, "pipeline", *arguments, "--master", master, "--memory", "700m", *settings],
                env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
                cwd=folder,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process group, and wait until it is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Send SIGTERM to the command alone; its Java has to keep running meanwhile."""
        self._process.send_signal(signal.SIGTERM)

    def finish(self, *exit_codes: int) -> None:
        """Wait until it has ended with one of these exit codes; 0 by default."""
        try:
            code = self._process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -1
        assert code in (exit_codes or (0,)), self.log.read_text(errors="replace")[-4000:]
