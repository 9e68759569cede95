"""What HAProxy and Keepalived themselves say of their configurations, before anything is written.

Both look at the machine they run on, and it need not be the balancer: where HAProxy's user is missing, and where the
interface and the check script are, is rehearsed (`keepalived_config`).

Not here: the configurations (`warren.ha`).
"""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from warren.errors import ConfigError, WarrenError
from warren.ha.deployment import Balancer, Deployment
from warren.ha.haproxy import haproxy_config
from warren.ha.keepalived import keepalived_config

_DEADLINE_S = 30.0
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin")
# HAProxy's and Keepalived's own marks of a line that is no complaint
_CHATTER = re.compile(
    r"\[NOTICE\]|^Configuration file is valid|Fatal errors found|Error\(s\) found in configuration file"
)
_MARKS = re.compile(r"^\[(ALERT|WARNING)\]\s*\(\d+\)\s*:\s*(config\s*:\s*)?")


def checked(deployment: Deployment) -> list[str]:
    """Have every balancer's configuration checked; `WarrenError` has what the program says against one.

    In sentences, what could not be checked here.
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
