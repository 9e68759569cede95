"""The network namespaces of other tests: datagrams pass unless their path is cut, and no namespace is left over."""

import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.machine import need
from tests.support.namespaces import CLIENTS, NamespaceWorld, obstacle

PORT = 7000
PATIENCE_S = 10.0
DELAY_S = 0.2


@pytest.fixture
def world() -> Iterator[NamespaceWorld]:
    need(obstacle())
    made = NamespaceWorld(["one", "two"])
    yield made
    made.remove()


class Letters:
    """Datagrams between all hosts. Most pass in the moment they are sent; late ones count in the next round."""

    def __init__(self, world: NamespaceWorld, stack: ExitStack) -> None:
        self._world = world
        self._sockets: dict[str, socket.socket] = {}
        for host in world.hosts:
            with world.inside(host):
                self._sockets[host] = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self._sockets[host].setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            self._sockets[host].bind(("", PORT))
            self._sockets[host].settimeout(PATIENCE_S)

    def see_passing(self, *expected: tuple[str, str]) -> None:
        """These, each from its sender to its receiver, and no others."""
        self._see(set(expected), self._send_all)

    def see_broadcast(self, sender: str, *receivers: str) -> None:
        self._see({(sender, receiver) for receiver in (sender, *receivers)}, lambda: self._broadcast(sender))

    def _see(self, expected: set[tuple[str, str]], send: Callable[[], None]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        seen: set[tuple[str, str]] = set()
        while seen != expected:
            assert time.monotonic() < deadline, f"these pass: {seen}, instead of {expected}"
            send()
            seen = {(sender, receiver) for receiver in self._world.hosts for sender in self._received(receiver)}

    def _send_all(self) -> None:
        for sender, receiver in itertools.permutations(self._world.hosts, 2):
            self._sockets[sender].sendto(sender.encode(), (self._world.address(receiver), PORT))

    def _broadcast(self, sender: str) -> None:
        self._sockets[sender].sendto(sender.encode(), ("10.77.0.255", PORT))

    def _received(self, host: str) -> list[str]:
        """Read up to an empty datagram to itself."""
        self._sockets[host].sendto(b"", (self._world.address(host), PORT))
        return [letter.decode() for letter in iter(lambda: self._sockets[host].recv(100), b"")]


@pytest.fixture
def letters(world: NamespaceWorld) -> Iterator[Letters]:
    with ExitStack() as stack:
        yield Letters(world, stack)


def test_a_cut_stops_datagrams_in_its_direction_and_no_others(world: NamespaceWorld, letters: Letters) -> None:
    everything = set(itertools.permutations(("one", "two", CLIENTS), 2))
    letters.see_passing(*everything)
    world.cut_one_way("one", "two")
    letters.see_passing(*everything - {("one", "two")})
    world.split(["one"], ["two"])
    letters.see_passing(*everything - {("one", "two"), ("two", "one")})
    world.heal()
    letters.see_passing(*everything)


def test_a_host_that_is_unplugged_is_alone(world: NamespaceWorld, letters: Letters) -> None:
    letters.see_broadcast("one", "two", CLIENTS)
    world.unplug("one")
    letters.see_broadcast("one")
    letters.see_passing(("two", CLIENTS), (CLIENTS, "two"))
    world.heal()
    letters.see_broadcast("one", "two", CLIENTS)


class Pair:
    """A connection from one to two, and both its ends."""

    def __init__(self, world: NamespaceWorld, stack: ExitStack, listening: socket.socket) -> None:
        with world.inside("one"):
            self.near = stack.enter_context(socket.create_connection((world.address("two"), PORT), PATIENCE_S))
        self.far = stack.enter_context(listening.accept()[0])
        self.far.settimeout(PATIENCE_S)


def test_a_detour_can_be_slow_silent_and_broken(world: NamespaceWorld) -> None:
    with ExitStack() as stack:
        with world.inside("two"):
            listening = stack.enter_context(socket.create_server((world.address("two"), PORT)))
        listening.settimeout(PATIENCE_S)
        proxy = world.detour("one", "two", [PORT])
        pair = Pair(world, stack, listening)
        start = time.monotonic()
        proxy.delay_s = DELAY_S
        pair.near.sendall(b"late")
        assert pair.far.recv(10) == b"late"
        assert time.monotonic() >= start + DELAY_S
        proxy.delay_s = 0.0
        proxy.silence(towards=world.address("one"))
        pair.far.sendall(b"held")
        pair.near.sendall(b"heard")
        assert pair.far.recv(10) == b"heard"
        pair.near.settimeout(DELAY_S)
        with pytest.raises(TimeoutError):
            pair.near.recv(10)
        pair.near.settimeout(PATIENCE_S)
        proxy.speak()
        assert pair.near.recv(10) == b"held"
        proxy.break_connections()
        with pytest.raises(ConnectionResetError):
            pair.near.recv(10)
        another = Pair(world, stack, listening)
        another.near.shutdown(socket.SHUT_WR)
        assert another.far.recv(10) == b""
        world.heal()
        direct = Pair(world, stack, listening)
        assert direct.far.getpeername()[0] == world.address("one")


def test_nothing_is_left_of_a_world_not_even_of_one_whose_maker_was_killed(world: NamespaceWorld) -> None:
    script = (
        "import subprocess, time; from tests.support.namespaces import NamespaceWorld; world = NamespaceWorld(['one']);"
        "left = subprocess.Popen(world.command('one', 'sleep', '600'));"
        "print(world.namespace('one'), left.pid, flush=True); time.sleep(600)"
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert maker.stdout is not None
    with closing(maker.stdout):
        name, left = maker.stdout.readline().split()
    assert Path("/run/netns", name).exists()
    maker.kill()
    maker.wait()
    NamespaceWorld(["one"]).remove()
    assert Path("/run/netns", world.namespace("one")).exists()
    assert not Path("/run/netns", name).exists()
    assert not [
        place for place in Path("/run/netns").glob(f"*-{os.getpid()}-*") if world.namespace("") not in str(place)
    ]
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{left}").exists():
        assert time.monotonic() < deadline, "a process was left"
        time.sleep(0.01)
