"""Several hosts on one machine: network namespaces, each with an address of its own, that hang on one switch.

::

    n1 ── veth ──┐
    n2 ── veth ──┼── bridge, in a namespace of its own
    n3 ── veth ──┤
    clients ─────┘   where a test is while it is `inside`, with the threads and processes it starts there

The interfaces, addresses and routes of the machine itself are not changed, and everything is removed with the
namespaces. The namespaces of a killed run are removed by the next one.

Each host has static neighbour entries with the hardware addresses of all others. A cut sets a wrong hardware address:
packets leave, and no host accepts them. That needs only `ip`, works in one direction or in both, and neither end
notices, as with a cable that is pulled elsewhere. Broadcasts and multicasts still pass; `unplug` stops those, too.

Connections between two hosts may be routed through a proxy (`detour`), which can be slow, or silent in one direction,
while all other traffic uses the switch.

Not here: nodes (`tests.cluster.namespace_trio`), the proxy (`link_proxy`).
"""

import ctypes
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.link_proxy import LinkProxy, Way

CLIENTS = "clients"
_SWITCH = "switch"
_PREFIX = "warren"
_PLACE = Path("/run/netns")
_NOWHERE = "02:ff:ff:ff:ff:ff"
_NEW_NETWORK = 0x40000000
_BIND_TO_ANY = 15
"""`CLONE_NEWNET` and `IP_FREEBIND`, which Python does not name."""
_serial = itertools.count(1)


@functools.cache
def obstacle() -> str:
    """The reason why this machine has no network namespaces; empty if it has."""
    if shutil.which("ip") is None:
        return "there is no `ip` (Debian's package iproute2) to make network namespaces with"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        world = NamespaceWorld(["one"])
    except (OSError, RuntimeError) as error:
        return f"network namespaces cannot be made on this machine: {error}"
    world.remove()
    return ""


class NamespaceWorld:
    """Hosts that reach one another until they are cut. `remove` takes everything away, processes included."""

    def __init__(self, hosts: Sequence[str]) -> None:
        _sweep()
        self._mark = f"{_PREFIX}-{os.getpid()}-{next(_serial)}"
        self.hosts = [*hosts, CLIENTS]
        self._proxies: dict[tuple[str, str], LinkProxy] = {}
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    def _make(self) -> None:
        for name in (_SWITCH, *self.hosts):
            _run("ip", "netns", "add", self.namespace(name))
        self._ip(_SWITCH, "link add bridge type bridge forward_delay 0 mcast_snooping 0", "link set bridge up")
        for host in self.hosts:
            self._ip(
                host,
                f"link add eth0 address {self._hardware(host)} type veth peer {host} netns {self.namespace(_SWITCH)}",
                f"address add {self.address(host)}/24 dev eth0",
                "link set lo up",
                "link set eth0 up",
            )
            self._ip(_SWITCH, f"link set {host} master bridge up")
        self.heal()
        with self.inside(CLIENTS):
            pass

    def remove(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()
        self._proxies.clear()
        _remove(f"{self._mark}-")

    # -- hosts

    def namespace(self, host: str) -> str:
        """Its name for `ip netns`."""
        return f"{self._mark}-{host}"

    def address(self, host: str) -> str:
        return f"10.77.0.{self.hosts.index(host) + 1}"

    def command(self, host: str, *words: str) -> list[str]:
        """The command line that runs a command on a host."""
        return ["ip", "netns", "exec", self.namespace(host), *words]

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Moves this thread, and everything it starts meanwhile, to that host."""
        with open("/proc/thread-self/ns/net", "rb") as here, (_PLACE / self.namespace(host)).open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(here.fileno())

    # -- disturbances

    def cut(self, one: str, *others: str) -> None:
        """Nothing passes between one host and the others, in either direction."""
        for other in others:
            self.cut_one_way(one, other)
            self.cut_one_way(other, one)

    def split(self, *sides: Sequence[str]) -> None:
        """Hosts of one side reach one another and no host of another side; clients reach all."""
        for one_side, other_side in itertools.combinations(sides, 2):
            for host in one_side:
                self.cut(host, *other_side)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Packets of the one do not reach the other."""
        self._know(sender, receiver, _NOWHERE)

    def unplug(self, host: str) -> None:
        """The host is alone, clients included; broadcasts do not pass either."""
        self._ip(_SWITCH, f"link set {host} nomaster")

    def heal(self) -> None:
        """Remove all cuts and detours."""
        for one, other in list(self._proxies):
            self._end_detour(one, other)
        for host in self.hosts:
            self._ip(_SWITCH, f"link set {host} master bridge")
            for other in self.hosts:
                if other != host:
                    self._know(host, other, self._hardware(other))

    def detour(self, one: str, other: str, ports: Sequence[int]) -> LinkProxy:
        """Connections between two hosts to these ports go through a proxy from here on, in both directions.

        Each host gets the other's address as a local one, and the proxy listens there. Existing connections break. The
        proxy listens first, so that no connection finds its port closed.
        """
        both = ((one, other), (other, one))
        ways = [
            Way(self._listening(here, there, port), functools.partial(self._towards, there, port))
            for here, there in both
            for port in ports
        ]
        self._proxies[one, other] = LinkProxy(ways)
        for here, there in both:
            self._ip(here, f"route add local {self.address(there)}/32 dev lo")
        return self._proxies[one, other]

    def _listening(self, here: str, there: str, port: int) -> socket.socket:
        with self.inside(here):
            listening = socket.socket()
        listening.setsockopt(socket.SOL_IP, _BIND_TO_ANY, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((self.address(there), port))
        listening.listen()
        return listening

    def _towards(self, there: str, port: int) -> tuple[socket.socket, tuple[str, int]]:
        """A socket on the far host, bound to the address that every host has, and the address to connect it to."""
        with self.inside(there):
            calling = socket.socket()
        calling.setblocking(False)
        calling.bind(("127.0.0.1", 0))
        return calling, (self.address(there), port)

    def _end_detour(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            self._ip(here, f"route delete local {self.address(there)}/32 dev lo")
        self._proxies.pop((one, other)).close()

    def _know(self, host: str, other: str, hardware: str) -> None:
        self._ip(host, f"neighbour replace {self.address(other)} lladdr {hardware} dev eth0 nud permanent")

    def _hardware(self, host: str) -> str:
        return f"02:00:00:00:00:{self.hosts.index(host) + 1:02x}"

    def _ip(self, host: str, *lines: str) -> None:
        _run("ip", "-n", self.namespace(host), "-batch", "-", said="\n".join(lines))


def _sweep() -> None:
    """Remove the namespaces of runs that were killed."""
    for place in _PLACE.glob(f"{_PREFIX}-*"):
        pid = place.name.split("-")[1]
        if not Path(f"/proc/{pid}").exists():
            _remove(place.name)


def _remove(beginning: str) -> None:
    """The namespaces with this prefix, and the processes in them."""
    for place in _PLACE.glob(f"{beginning}*"):
        for pid in subprocess.run(["ip", "netns", "pids", place.name], capture_output=True, text=True).stdout.split():
            if int(pid) != os.getpid():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "delete", place.name], capture_output=True)


def _enter(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _run(*words: str, said: str = "") -> None:
    done = subprocess.run(words, input=said, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ({said}): {done.stderr.strip()}")
