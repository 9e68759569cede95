"""Check for a Java that Spark can use; one sentence if there is none.

    python -m warren.spark.java

Spark itself reports only that its gateway exited, so sessions check here first.

Not here: starting sessions (`pipeline.session`).
"""

import os
import re
import shutil
import subprocess
import sys
from typing import Final

OLDEST: Final = 17
PACKAGE: Final = "openjdk-17-jre-headless"


class JavaError(RuntimeError):
    """Java is missing or too old."""


def java_version() -> int:
    """The major version of the Java that Spark will start; a `JavaError` if it is unsuitable."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if command is None:
        raise JavaError(f"Spark needs Java {OLDEST} or newer, and there is none: install {PACKAGE}")
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError as error:
        raise JavaError(
            f"Spark needs Java, and {command} cannot be started ({error.strerror}): install {PACKAGE}"
        ) from None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise JavaError(f"Spark needs Java {OLDEST} or newer, and {command} does not say what it is: install {PACKAGE}")
    if int(found[1]) < OLDEST:
        raise JavaError(f"Spark needs Java {OLDEST} or newer, and {command} is version {found[1]}: install {PACKAGE}")
    return int(found[1])


if __name__ == "__main__":
    try:
        print(f"Java {java_version()}")
    except JavaError as trouble:
        sys.exit(str(trouble))
