"""The etcd member of a disc node: its process, which outlives the node's, and its membership in etcd.

::

    found (the first of a cluster) ─┐
    join (others are there already) ┼──► process runs ──ends──► started again, after a pause that grows
    resume (its data is here)      ─┘        │                 (resume_alone: the others are lost for good)
                                             └── the node ends: the process stays, and `resume` finds it

The process outlives the node, so that a killed or restarted broker does not also cost the cluster an election. It is
found again by the data directory among its arguments, which no other process can have, and by its member id.

A member answers once it knows a leader. When all nodes start at once, that takes until a majority is up, so `resume`
does not wait for it; `ready` does.

`member.json` beside the data has the host and the ports (kept unless others are configured, because the other members
know them), the member's id, and the last addresses of other members, for a learner that was interrupted before its
promotion. A member that moves to another address is started there, reaches the others, and tells them.

A member joins as a learner without a vote, so that one that never starts costs the others nothing, and is promoted once
it has caught up. A member that lost its data must not come back under its old id, because it would have forgotten its
promises to the others: any member with its name or address is removed, and it joins under a new id.

Invariant: a member without data never starts under an id that etcd knows already.

Not here: the program and its arguments (`node.etcd.program`), the data (`node.etcd.store`).
"""

import asyncio
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.errors import ConfigError, StoreError
from warren.node.etcd import messages, program
from warren.node.etcd.connection import EtcdAddress, EtcdConnection, EtcdDeclined, EtcdUnavailable
from warren.node.etcd.messages import EtcdMemberRecord, EtcdStatus
from warren.node.etcd.program import EtcdMemberSettings, EtcdProcess
from warren.node.logs import Log

PATIENCE_S = 60.0
_PAUSE_S = 0.2
_STRAY_S = 20.0
_RELIEF_PATIENCE_S = 30.0
# an id that was just removed may be given out again within the same second, and refused; a lagging member takes a
# voting member for a learner
_NOT_YET = (
    "member not found",
    "can only promote a learner",
    "in sync with leader",
    "too many learner members",
    "unhealthy cluster",
    "not enough started members",
)


async def list_members(connection: EtcdConnection) -> list[EtcdMemberRecord]:
    return messages.members(await connection.ask(messages.MEMBER_LIST, b""))


async def add_learner(connection: EtcdConnection, name: str, peer_url: str) -> list[EtcdMemberRecord]:
    """Add a member that has not started yet; returns all members, this one without a name.

    A member with this name or address is an earlier life of it and is removed. So is a learner that never started,
    because only one learner is allowed at a time.
    """
    loop = asyncio.get_running_loop()
    strays: dict[int, float] = {}
    end = loop.time() + PATIENCE_S
    while True:
        trouble: EtcdDeclined | EtcdUnavailable
        try:
            for member in await list_members(connection):
                seen = strays.setdefault(member.id, loop.time()) if not member.name else loop.time()
                if member.name == name or peer_url in member.peer_urls or loop.time() > seen + _STRAY_S:
                    await connection.call(messages.MEMBER_REMOVE, messages.member_id(member.id))
            await connection.call(messages.MEMBER_ADD, messages.member_addition(peer_url))
            return await list_members(connection)
        except (EtcdDeclined, EtcdUnavailable) as error:
            # the next look at the members shows what became of it
            trouble = error
        await _wait(trouble, end)


async def update_member_address(connection: EtcdConnection, member: int, peer_url: str) -> None:
    """Tell all members this member's address; tries for ever."""
    while True:
        trouble: EtcdDeclined | EtcdUnavailable
        try:
            found = [each for each in await list_members(connection) if each.id == member]
            if not found or found[0].peer_urls == (peer_url,):
                return
            await connection.call(messages.MEMBER_UPDATE, messages.member_address(member, peer_url))
            continue
        except (EtcdDeclined, EtcdUnavailable) as error:
            trouble = error
        await _wait(trouble, None)


async def promote_learner(connection: EtcdConnection, peer_url: str) -> None:
    """Give the learner at this address its vote, as soon as it has caught up; tries for ever."""
    while True:
        trouble: EtcdDeclined | EtcdUnavailable
        try:
            found = [member for member in await list_members(connection) if peer_url in member.peer_urls]
            if not found:
                raise StoreError(f"the etcd member at {peer_url} was removed from its cluster")
            if not found[0].learner:
                return
            await connection.call(messages.MEMBER_PROMOTE, messages.member_id(found[0].id))
            continue
        except (EtcdDeclined, EtcdUnavailable) as error:
            trouble = error
        await _wait(trouble, None)


async def remove_member(connection: EtcdConnection, name: str) -> bool:
    """Whether there was a member of this name; afterwards there is none."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    removed = False
    while True:
        trouble: EtcdDeclined | EtcdUnavailable
        try:
            found = [member for member in await list_members(connection) if member.name == name]
            if not found:
                return removed
            removed = True
            await connection.call(messages.MEMBER_REMOVE, messages.member_id(found[0].id))
            continue
        except (EtcdDeclined, EtcdUnavailable) as error:
            trouble = error
        await _wait(trouble, end)


async def reclaim_space(connection: EtcdConnection) -> None:
    """Compact and defragment the member that answers, and clear its space alarm."""
    answer = await connection.ask(messages.RANGE, messages.range_request(b"/"))
    compaction = messages.compaction(messages.revision_of(answer))
    # declined if nothing changed since the last compaction
    with suppress(EtcdDeclined):
        await connection.call(messages.COMPACT, compaction, _RELIEF_PATIENCE_S)
    await connection.call(messages.DEFRAGMENT, b"", _RELIEF_PATIENCE_S)
    member = messages.status(await connection.ask(messages.STATUS, b"")).member_id
    await connection.ask(messages.ALARM, messages.disarm_space_alarm(member))


async def _wait(trouble: EtcdDeclined | EtcdUnavailable, end: float | None) -> None:
    """Pause before the next attempt, if another one may help."""
    if isinstance(trouble, EtcdDeclined) and not any(reason in str(trouble) for reason in _NOT_YET):
        raise trouble
    if end is not None and asyncio.get_running_loop().time() > end:
        raise EtcdUnavailable(f"the members of etcd do not agree to it: {trouble}")
    await asyncio.sleep(_PAUSE_S)


START_PATIENCE_S = 30.0
ABANDON_PATIENCE_S = 20.0
_LOOK_EVERY_S = 0.2
_ROOM_EVERY_S = 30.0
_ROOM_BYTES = 64 * 1024 * 1024
_FULL = "NOSPACE"
_STEADY_S = 10.0
_PAUSE_S_MAX = 5.0
_REMOVED = "removed from the cluster"


class EtcdMember:
    """One node's member. To be used within one event loop; `close` leaves the process running, `stop` ends it."""

    def __init__(self, settings: EtcdMemberSettings, log: Log, tasks: BackgroundTasks) -> None:
        self._settings = settings
        self._log = log
        self._directory = Path(settings.directory).resolve()
        self._process = EtcdProcess(settings)
        self._notes: dict[str, Any] = self._read_notes()
        self._tasks = tasks
        self._looking_after: list[BackgroundTask] = []
        self._own: EtcdConnection | None = None
        self._answered = asyncio.Event()
        # why it is not our member, or will not be restarted
        self.trouble = ""

    @property
    def has_data(self) -> bool:
        """Whether the data of an earlier member of this node is still here."""
        return (self._directory / "data" / "member" / "wal").is_dir()

    @property
    def pid(self) -> int:
        """The process id; 0: none."""
        return self._process.pid

    @property
    def endpoint(self) -> str:
        """The client address."""
        return self._address_of("client_port")

    @property
    def peer_url(self) -> str:
        """The peer address."""
        return program.member_url(self._settings, self._address_of("peer_port"))

    async def found(self) -> None:
        """Be the first member of a new etcd cluster."""
        await self._await_ports()
        self._prepare([])
        await self._start(f"{self._settings.name}={self.peer_url}", "new")
        await self.ready()

    async def join(self, endpoints: Sequence[str]) -> None:
        """Join the etcd cluster of these members. Raises `ConnectionError` if none of them answers."""
        await self._await_ports()
        self._prepare(endpoints)
        others = self._connection_to(endpoints)
        try:
            listed = await add_learner(others, self._settings.name, self.peer_url)
            await self._start(_initial_cluster(self._settings.name, self.peer_url, listed), "existing")
            await self.ready()
        finally:
            await others.close()

    async def resume(self) -> None:
        """Continue with the data that is here: with the process that still runs, or a new one."""
        if not self.has_data:
            raise StoreError(f"{self._directory} holds no data of an etcd member")
        if not self._notes:
            raise StoreError(f"{self._directory}/member.json is missing, so the ports of the etcd member are not known")
        if self._is_elsewhere():
            await self._move()
        self._process.command = await self._whole_command("", "existing")
        if self._process.find():
            self._log.info("etcd.adopted", pid=self.pid, client=self.endpoint)
        else:
            self._spawn()
        self._look_after()

    async def resume_alone(self) -> None:
        """Continue with the data that is here as the only member, after the others are gone for good.

        Decisions that a majority made without this member are lost, and the others must not come back with their data.
        """
        if self._process.find():
            await self.stop()
        if self._is_elsewhere():
            await self._move()
        command = await self._whole_command("", "existing")
        self._process.command = [*command, "--force-new-cluster"]
        self._notes["endpoints"] = []
        self._spawn()
        # a restart must not do it again
        self._process.command = command
        self._look_after()
        await self.ready()

    async def ready(self, patience_s: float = START_PATIENCE_S) -> None:
        """Wait until it answers, is known to be ours, and has its vote."""
        try:
            async with asyncio.timeout(patience_s):
                await self._answered.wait()
        except TimeoutError:
            raise StoreError(
                f"the etcd member does not answer; the last words of its log: {self._process.last_sentence()}"
            ) from None
        if self.trouble:
            raise StoreError(self.trouble)

    async def stop(self) -> None:
        """End the process."""
        await self.close()
        pid = self.pid
        if pid:
            await self._process.end()
            self._log.info("etcd.stopped", pid=pid)

    async def close(self) -> None:
        """Stop supervising the process, and let it run."""
        for task in self._looking_after:
            task.cancel()
        await asyncio.gather(*(task.task for task in self._looking_after), return_exceptions=True)
        self._looking_after.clear()
        if self._own is not None:
            await self._own.close()
            self._own = None

    async def leave(self) -> None:
        """Have the other members remove it, end the process and delete its data."""
        await self._be_removed()
        await self.stop()
        self._discard()

    async def abandon(self) -> None:
        """Undo an attempt to found or join, wherever it ended; the others remove it, if they can be reached.

        It has to run for that: of two members, neither can remove the other once that one is gone. If it cannot run,
        because there is no etcd any more, its data is deleted all the same.
        """
        if self.has_data:
            try:
                async with asyncio.timeout(ABANDON_PATIENCE_S):
                    await self.resume()
                    await self._be_removed()
            except (OSError, StoreError, ConfigError) as error:
                self._log.warning("etcd.not_removed", reason=str(error) or "no member answered in time")
        await self.discard()

    async def discard(self) -> None:
        """End the process and delete its data; if the others still count on it, they have to remove it themselves."""
        self._process.find()
        await self.stop()
        self._discard()

    async def make_room(self) -> bool:
        """Reclaim space if the store is full or half of it is unused; whether it did."""
        status = await self.status()
        is_full = any(_FULL in error for error in status.errors)
        if not is_full and not (status.size_bytes > _ROOM_BYTES and status.used_bytes < status.size_bytes // 2):
            return False
        await reclaim_space(self._connection())
        now = await self.status()
        self._log.warning("etcd.relieved", full=is_full, before_bytes=status.size_bytes, bytes=now.size_bytes)
        return True

    async def status(self) -> EtcdStatus:
        """The member's own status."""
        return messages.status(await self._connection().ask(messages.STATUS, b""))

    async def members(self) -> list[EtcdMemberRecord]:
        """All members, as a majority knows them."""
        return await list_members(self._connection())

    async def _be_removed(self) -> None:
        members = self._connection_to([self.endpoint, *self._notes["endpoints"]])
        try:
            # the last member has no other that could remove it
            if len(await list_members(members)) > 1:
                await remove_member(members, self._settings.name)
        finally:
            await members.close()

    def _discard(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._notes = {}
        self.trouble = ""
        self._answered.clear()

    async def _await_ports(self) -> None:
        settings = self._settings
        for wanted, kind in ((settings.client_port, "client_port"), (settings.peer_port, "peer_port")):
            port = wanted or self._notes.get(kind, 0)
            if port:
                await program.wait_for_released_port(settings.host, port)

    def _prepare(self, endpoints: Sequence[str]) -> None:
        if self.has_data:
            raise StoreError(f"{self._directory} holds the data of an etcd member already")
        # the remains of an attempt that did not get as far as its data
        shutil.rmtree(self._directory / "data", ignore_errors=True)
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._notes = {
            "host": self._settings.host,
            "client_port": self._port("client_port", self._settings.client_port),
            "peer_port": self._port("peer_port", self._settings.peer_port),
            "endpoints": list(endpoints),
            "member_id": 0,
        }
        self._write_notes()

    def _is_elsewhere(self) -> bool:
        """Whether its configured address has changed."""
        notes, settings = self._notes, self._settings
        ports = ((settings.client_port, notes["client_port"]), (settings.peer_port, notes["peer_port"]))
        return notes.get("host") != settings.host or any(wanted not in (0, known) for wanted, known in ports)

    async def _move(self) -> None:
        """End it here; the next start is at the new address."""
        before = self.endpoint
        self._process.find()
        await self.stop()
        for kind, wanted in (("client_port", self._settings.client_port), ("peer_port", self._settings.peer_port)):
            self._notes[kind] = self._port(kind, wanted)
        self._notes["host"] = self._settings.host
        self._write_notes()
        self._log.warning("etcd.moved", before=before, client=self.endpoint)

    def _port(self, kind: str, wanted: int) -> int:
        """The configured port, or that of an earlier attempt, which the others may know, or any."""
        return program.free_port(self._settings.host, wanted or self._notes.get(kind, 0))

    async def _start(self, initial_cluster: str, state: str) -> None:
        self._process.command = await self._whole_command(initial_cluster, state)
        self._spawn()
        self._look_after()

    async def _whole_command(self, initial_cluster: str, state: str) -> list[str]:
        binary = program.find_binary(self._settings.binary)
        await program.check_version(binary)
        peer = self._address_of("peer_port")
        return [binary, *program.member_arguments(self._settings, self.endpoint, peer, initial_cluster, state)]

    def _spawn(self) -> None:
        pid = self._process.spawn()
        self._log.info("etcd.started", pid=pid, client=self.endpoint, peer=self._address_of("peer_port"))

    def _look_after(self) -> None:
        self._answered.clear()
        self.trouble = ""
        self._looking_after = [
            self._tasks.start("etcd process", self._keep_running),
            self._tasks.start("etcd identity", self._check_identity),
            self._tasks.start("etcd space", self._keep_room),
        ]

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        started, pause_s = loop.time(), _LOOK_EVERY_S
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._process.bound_log()
            if self.pid:
                continue
            if _REMOVED in self._process.log_tail():
                self._give_up("the other members of etcd have removed this node's member")
                return
            pause_s = _LOOK_EVERY_S if loop.time() > started + _STEADY_S else min(pause_s * 2, _PAUSE_S_MAX)
            self._log.warning("etcd.ended", again_in_s=pause_s, said=self._process.last_sentence())
            await asyncio.sleep(pause_s)
            started = loop.time()
            try:
                self._spawn()
            except OSError as error:
                self._log.error("etcd.not_started", reason=str(error))

    async def _check_identity(self) -> None:
        """Once it answers: make sure that it is ours, and get its vote."""
        status = await self._first_status()
        if self._notes.get("member_id", 0) not in (0, status.member_id):
            self._give_up(f"the etcd at {self.endpoint} is not the member whose data is in {self._directory}")
            return
        self._notes["member_id"] = status.member_id
        self._write_notes()
        others = self._connection_to(self._notes["endpoints"] if status.learner else [self.endpoint])
        try:
            await update_member_address(others, status.member_id, self.peer_url)
            if status.learner:
                await promote_learner(others, self.peer_url)
        except StoreError as trouble:
            self._give_up(f"the etcd member got no vote: {trouble}")
            return
        finally:
            await others.close()
        while status.learner and (await self._first_status()).learner:
            await asyncio.sleep(_LOOK_EVERY_S)
        self._answered.set()

    async def _keep_room(self) -> None:
        while True:
            await asyncio.sleep(_ROOM_EVERY_S)
            with suppress(EtcdUnavailable, StoreError):
                await self.make_room()

    async def _first_status(self) -> EtcdStatus:
        while True:
            with suppress(EtcdUnavailable):
                return await self.status()
            await asyncio.sleep(_LOOK_EVERY_S)

    def _give_up(self, trouble: str) -> None:
        self.trouble = trouble
        self._answered.set()
        self._log.error("etcd.given_up", reason=trouble)

    def _connection(self) -> EtcdConnection:
        if self._own is None:
            self._own = self._connection_to([self.endpoint])
        return self._own

    def _connection_to(self, endpoints: Sequence[str]) -> EtcdConnection:
        return EtcdConnection(EtcdAddress(tuple(endpoints), self._settings.tls))

    def _address_of(self, port: str) -> str:
        host = self._notes.get("host", self._settings.host)
        return f"{f'[{host}]' if ':' in host else host}:{self._notes[port]}"

    def _read_notes(self) -> dict[str, Any]:
        try:
            notes = json.loads((self._directory / "member.json").read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise StoreError(f"{self._directory}/member.json cannot be used: {error}") from error
        if not isinstance(notes, dict) or not {"client_port", "peer_port"} <= notes.keys():
            raise StoreError(f"{self._directory}/member.json does not tell the ports of the etcd member")
        return notes

    def _write_notes(self) -> None:
        unfinished = self._directory / "member.json.new"
        unfinished.write_text(json.dumps(self._notes))
        unfinished.replace(self._directory / "member.json")


def _initial_cluster(name: str, peer_url: str, listed: list[EtcdMemberRecord]) -> str:
    """All members in the form that etcd expects; members that never started have no name yet."""
    pairs = [(member.name or f"unstarted-{member.id:x}", url) for member in listed for url in member.peer_urls]
    return ",".join(f"{name if url == peer_url else other}={url}" for other, url in pairs)
