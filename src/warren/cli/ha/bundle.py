"""The files of `warren ha render`: a folder for each machine. They are checked by HAProxy and Keepalived, then written.

*Checking.* HAProxy and Keepalived check their configurations on this machine, which need not be the balancer. So a
missing user of HAProxy, the interface and the check script are replaced for the check (`keepalived_config`).

*Writing.* All files or none: new files are written to a staging folder first, then moved into place, and replaced files
are kept until the last one is in place. If a file cannot be moved, the others are restored. Other files in the folder
are not touched.

Not here: the configurations (`cli.ha.haproxy`, `cli.ha.keepalived`, `cli.ha.node_files`).
"""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from warren.cli.ha import deployment_file
from warren.cli.ha.deployment import DEPLOYMENT_FILE, Balancer, Deployment
from warren.cli.ha.haproxy import haproxy_config
from warren.cli.ha.keepalived import check_script, keepalived_config, script_path
from warren.cli.ha.node_files import CONFIGURATION, node_config, service_files, service_of
from warren.errors import ConfigError, WarrenError


@dataclass(frozen=True)
class RenderedFile:
    """One file, by its path within the folder."""

    path: str
    text: str
    executable: bool = False


def rendered_files(deployment: Deployment, *, with_itself: bool = True) -> list[RenderedFile]:
    """`with_itself`: also the file that describes the deployment."""
    files = [RenderedFile(DEPLOYMENT_FILE, deployment_file.deployment_text(deployment))] if with_itself else []
    for balancer in deployment.balancers:
        files += balancer_files(deployment, balancer)
    for node in deployment.nodes:
        files.append(RenderedFile(f"{node.label}{CONFIGURATION}", node_config(deployment, node)))
        for path, text in service_files(service_of(node, deployment.program)).items():
            files.append(RenderedFile(f"{node.label}/{path}", text))
    return files


def balancer_files(deployment: Deployment, balancer: Balancer) -> list[RenderedFile]:
    script = f"{balancer.name}{script_path(deployment)}"
    return [
        RenderedFile(f"{balancer.name}/etc/haproxy/haproxy.cfg", haproxy_config(deployment, balancer)),
        RenderedFile(
            f"{balancer.name}{deployment.keepalived.directory.rstrip('/')}/keepalived.conf",
            keepalived_config(deployment, balancer),
        ),
        RenderedFile(script, check_script(), executable=True),
    ]


def write_all(folder: Path, files: Sequence[RenderedFile]) -> None:
    made: list[Path] = []
    try:
        _look_at_places(folder, files)
        _make_folders(folder, made)
        with tempfile.TemporaryDirectory(prefix=".render-", dir=folder, ignore_cleanup_errors=True) as staging:
            for file in files:
                _write(Path(staging) / "new" / file.path, file)
            _take_places(folder, Path(staging), files)
    except BaseException as error:
        for empty in reversed(made):
            with suppress(OSError):
                empty.rmdir()
        if not isinstance(error, OSError):
            raise
        raise WarrenError(f"nothing was written: {error.filename or folder}: {error.strerror}") from error


def _look_at_places(folder: Path, files: Sequence[RenderedFile]) -> None:
    for file in files:
        parts = PurePosixPath(file.path)
        if parts.is_absolute() or ".." in parts.parts:
            raise WarrenError(f"nothing was written: {file.path} would not be in {folder}")
        if (folder / file.path).is_dir():
            raise WarrenError(f"nothing was written: {folder / file.path} is a folder, and a file belongs there")


def _write(path: Path, file: RenderedFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text, encoding="utf-8")
    path.chmod(0o755 if file.executable else 0o644)


def _take_places(folder: Path, staging: Path, files: Sequence[RenderedFile]) -> None:
    made: list[Path] = []
    taken: list[str] = []
    try:
        for file in files:
            _make_folders((folder / file.path).parent, made)
            _keep(folder / file.path, staging / "old" / file.path)
        for file in files:
            os.replace(staging / "new" / file.path, folder / file.path)
            taken.append(file.path)
    except BaseException:
        for path in taken:
            _give_back(folder / path, staging / "old" / path)
        for empty in reversed(made):
            empty.rmdir()
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Create missing folders, outermost first."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir()
        made.append(missing)


def _keep(path: Path, kept: Path) -> None:
    """A hard link to the old file, so that it survives its replacement."""
    if os.path.lexists(path):
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, kept, follow_symlinks=False)


def _give_back(path: Path, kept: Path) -> None:
    if os.path.lexists(kept):
        os.replace(kept, path)
    else:
        path.unlink()


_DEADLINE_S = 30.0
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin")
# lines of HAProxy and Keepalived that are not complaints
_CHATTER = re.compile(
    r"\[NOTICE\]|^Configuration file is valid|Fatal errors found|Error\(s\) found in configuration file"
)
_MARKS = re.compile(r"^\[(ALERT|WARNING)\]\s*\(\d+\)\s*:\s*(config\s*:\s*)?")


def check_configurations(deployment: Deployment) -> list[str]:
    """Check every balancer's configuration; `WarrenError` has the program's complaints.

    Returns sentences about what could not be checked on this machine.
    """
    haproxy, keepalived = program("haproxy"), program("keepalived")
    with tempfile.TemporaryDirectory(prefix="warren-ha-") as folder:
        for balancer in deployment.balancers:
            _check_haproxy(haproxy, Path(folder), deployment, balancer)
            _check_keepalived(keepalived, Path(folder), deployment, balancer)
    return [
        f"{key} was not checked: there is no user {user} on this machine; there must be one on the balancers."
        for key, user in _users(deployment).items()
        if user and not _is_user(user)
    ]


def _users(deployment: Deployment) -> dict[str, str]:
    return {"haproxy.user": deployment.haproxy.user, "keepalived.script_user": deployment.keepalived.script_user}


def program(name: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_PLACES])
    found = shutil.which(name, path=path)
    if found is None:
        raise ConfigError(
            f"there is no {name} on this machine to check its configuration with: install Debian's package {name}, or "
            "give --unchecked and check it on the balancer"
        )
    return found


def _check_haproxy(command: str, folder: Path, deployment: Deployment, balancer: Balancer) -> None:
    if not _is_user(deployment.haproxy.user):
        deployment = replace(deployment, haproxy=replace(deployment.haproxy, user=""))
    file = folder / "haproxy.cfg"
    file.write_text(haproxy_config(deployment, balancer))
    _ask("HAProxy", balancer, file, [command, "-c", "-f", str(file)])


def _check_keepalived(command: str, folder: Path, deployment: Deployment, balancer: Balancer) -> None:
    file = folder / "keepalived.conf"
    file.write_text(keepalived_config(deployment, balancer, rehearsed_by=_own_user()))
    _ask("Keepalived", balancer, file, [command, "-t", "-f", str(file)])


def _own_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ConfigError(
            f"Keepalived checks nothing for a user without a name, as number {os.geteuid()} is on this machine: be "
            "another user, or give --unchecked and check it on the balancer"
        ) from None


def _ask(who: str, balancer: Balancer, file: Path, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WarrenError(f"{who} could not check the configuration of {balancer.name}: {error}") from error
    if done.returncode != 0:
        words = _complaints(done.stdout + done.stderr, file) or f"it ended with {done.returncode} and said nothing"
        raise WarrenError(f"{who} refuses the configuration of {balancer.name}, and nothing was written: {words}")


def _complaints(said: str, file: Path) -> str:
    lines = [_MARKS.sub("", line.strip()) for line in said.splitlines() if line.strip() and not _CHATTER.search(line)]
    return "; ".join(lines).replace(str(file), file.name)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
