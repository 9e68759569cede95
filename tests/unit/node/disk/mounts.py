"""A script on a small file system of its own, which goes when the script ends.

Not here: the scripts.
"""

import subprocess
import sys
from pathlib import Path

DEADLINE_S = 60.0
# scripts import from here
_PROJECT = Path(__file__).parents[4]
_MOUNT_AND_RUN = 'mount -t tmpfs -o "$1" tmpfs "$2" && exec "$3" -c "$4" "$2"'


def run_in_namespace(mount_point: Path, options: str, script: str) -> str:
    """The output of a Python script with a tmpfs of these options, whose path is its first argument."""
    ended = subprocess.run(
        [*unshare(), "sh", "-c", _MOUNT_AND_RUN, "sh", options, str(mount_point), sys.executable, script],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        cwd=_PROJECT,
    )
    assert ended.returncode == 0, f"the script failed, or no file system could be mounted for it: {ended.stderr}"
    return ended.stdout


def unshare() -> list[str]:
    """Any user may mount in a user namespace, where the system has them; elsewhere root may mount without."""
    as_anybody = ["unshare", "--map-root-user", "--mount"]
    allowed = subprocess.run([*as_anybody, "true"], capture_output=True, timeout=DEADLINE_S).returncode == 0
    return as_anybody if allowed else ["unshare", "--mount"]
