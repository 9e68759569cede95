"""A file system of a few megabytes, mounted where only processes in its namespace see it.

`unshare` makes a user and a mount namespace, which any user may do on most systems; a process that only waits holds
them, so that the mount outlives the node. From outside, the files are under the holder's `/proc/PID/root`.

Not here: nodes and etcd members that use it.
"""

import contextlib
import functools
import shutil
import subprocess
from pathlib import Path

BLOCK = bytes(4096)
_OF_ONES_OWN = ("unshare", "--user", "--map-root-user", "--mount")


@functools.cache
def obstacle() -> str:
    """The reason why this machine cannot mount such a disk; empty if it can."""
    if shutil.which("unshare") is None:
        return "there is no `unshare` (Debian's package util-linux) to mount a file system of one's own with"
    trial = subprocess.run([*_OF_ONES_OWN, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)
    return f"users may not mount file systems here: {trial.stderr.strip()}" if trial.returncode else ""


class SmallDisk:
    """A tmpfs at `path`, of `megabytes`."""

    def __init__(self, path: Path, megabytes: int) -> None:
        path.mkdir(parents=True)
        script = f'mount -t tmpfs -o size={megabytes}m,mode=700 tmpfs "$0" && echo mounted && exec sleep infinity'
        self._holder = subprocess.Popen(
            [*_OF_ONES_OWN, "sh", "-c", script, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "mounted\n", "this system does not let users mount file systems"
        self._filling = Path(f"/proc/{self._holder.pid}/root{path}/filling")

    def joined(self, command: list[str]) -> list[str]:
        """The command, run where the disk is seen."""
        join = ["nsenter", "--target", str(self._holder.pid), "--user", "--mount", "--preserve-credentials"]
        return [*join, *command]

    def top_up(self) -> None:
        """Fill the disk again: its user may have freed some of it."""
        with self._filling.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(BLOCK):
                pass

    def fill(self) -> None:
        """Fill every free block."""
        self.top_up()
        while shutil.disk_usage(self._filling.parent).free:
            self.top_up()

    def make_room(self) -> None:
        self._filling.unlink()

    def unmount(self) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()
