"""A machine with a systemd of its own, in namespaces, with a temporary root file system.

Its root is an overlay of this machine's files; files written there stay in memory. The network is a loopback of its
own, so the default ports are free; processes and control groups are its own, too.

Invariant: systemd runs when this exists; after `close` no process of it is left.

Not here: several hosts that reach each other (`namespaces`).
"""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DEADLINE_S = 120.0
_SYSTEMD = "/lib/systemd/systemd"
_GROUPS = Path("/sys/fs/cgroup")
_GROUP = f"warren-test-{os.getpid()}"
_NAMESPACES = ("--mount", "--pid", "--cgroup", "--uts", "--ipc", "--net")

_BOOT = """
set -e
mount -t tmpfs tmpfs "$PLACE"
mkdir "$PLACE/upper" "$PLACE/work" "$PLACE/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$PLACE/upper,workdir=$PLACE/work" "$PLACE/root"
cd "$PLACE/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --make-rslave sys
mount -t tmpfs tmpfs sys/fs/cgroup
if [ "$HIERARCHY" = named ]; then
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
else
    mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
mount --rbind /dev dev
mount -t tmpfs tmpfs run
for shared in $SHARED; do mkdir -p "./$shared"; mount --rbind "$shared" "./$shared"; done
for passed in $PASSED; do chmod o+x "./$passed"; done
rm -rf etc/systemd/system
mkdir -p etc/systemd/system
cp -r "$FILES/." .
printf '[Unit]\\nDescription=nothing\\n' > etc/systemd/system/nothing.target
ip link set lo up
exec env container=other chroot . /lib/systemd/systemd --system --unit=nothing.target --log-target=console
"""


@functools.cache
def obstacle() -> str:
    """The reason why there can be no such machine here; empty if there can."""
    if os.geteuid() != 0:
        return "only root may start a systemd of its own"
    missing = [tool for tool in (_SYSTEMD, "unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        return f"there is no {missing[0]} on this machine"
    if Path(sys.executable).is_relative_to("/tmp"):
        return "a service has a /tmp of its own, and these sources are in the other one"
    return "" if _hierarchy() else "this machine has no control groups that systemd could use"


class SystemdMachine:
    """With these files, by their paths below its root."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            file = folder / "files" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self._place = folder / "place"
        self._place.mkdir()
        self._log = folder / "systemd.log"
        self._group = _groups() / _GROUP
        self._group.mkdir(exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--propagation=private", "sh", "-c", _BOOT],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=os.environ | self._environment(folder),
                preexec_fn=self._enter_group,
            )
        try:
            self.until(self._runs)
        except BaseException:
            self.close()
            raise

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """A command on that machine, as its root."""
        inside = ["nsenter", f"--target={self._inner_pid()}", *_NAMESPACES, "chroot", str(self._place / "root")]
        return subprocess.run([*inside, *command], capture_output=True, text=True, timeout=DEADLINE_S)

    def show(self, unit: str) -> dict[str, str]:
        """The properties of a unit."""
        return dict(line.split("=", 1) for line in self.run("systemctl", "show", unit).stdout.splitlines())

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert self._process.poll() is None, f"systemd ended\n{self._log.read_text(errors='replace')}"
            assert time.monotonic() < deadline, f"it never happened\n{self._log.read_text(errors='replace')}"
            time.sleep(0.1)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        deadline = time.monotonic() + DEADLINE_S
        while self._group.exists() and time.monotonic() < deadline:
            # a group whose last process is just ending cannot be removed yet
            for path in sorted(self._group.rglob("*"), reverse=True):
                with contextlib.suppress(OSError):
                    path.rmdir()
            with contextlib.suppress(OSError):
                self._group.rmdir()
            time.sleep(0.05)

    def _environment(self, folder: Path) -> dict[str, str]:
        interpreter = Path(sys.base_prefix).resolve()
        return {
            "PLACE": str(self._place),
            "FILES": str(folder / "files"),
            "HIERARCHY": _hierarchy(),
            "SHARED": f"{PROJECT} {interpreter}",
            # the user of the service must have access to the interpreter
            "PASSED": " ".join(str(path) for path in (*PROJECT.parents, *interpreter.parents) if path != Path("/")),
        }

    def _enter_group(self) -> None:
        (self._group / "cgroup.procs").write_text(str(os.getpid()))

    def _runs(self) -> bool:
        with contextlib.suppress(OSError, IndexError):
            return self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")
        return False

    def _inner_pid(self) -> int:
        outer = self._process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])


def _hierarchy() -> str:
    """Which control groups there are: one of systemd's own, those of all, or none."""
    if (_GROUPS / "systemd/cgroup.procs").exists():
        return "named"
    return "unified" if (_GROUPS / "cgroup.controllers").exists() else ""


def _groups() -> Path:
    return _GROUPS / "systemd" if _hierarchy() == "named" else _GROUPS
