"""An etcd that does not take everything from everybody: certificates, passwords, a quota."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.etcd_world import DEADLINE_S, Members, Watcher, carry_out, connected, play, store_at, until
from tests.node.certificate_files import Authority
from warren.broker.metadata.store import COMMITTED, FAILED, CommitResult
from warren.errors import ConfigError, StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdAddress, EtcdConnection, EtcdDeclined, EtcdUnavailable
from warren.node.etcd.keys import KeySpace, LeasedKey
from warren.node.etcd.messages import encode_bytes, encode_message, encode_number, encode_text
from warren.node.etcd.store import EtcdStore
from warren.node.tls import TlsFiles

QUOTA_BYTES = 2 * 1024 * 1024
READ_AND_WRITE = 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def files(authority: Authority) -> TlsFiles:
    return TlsFiles(authority.path, authority.server.certificate, authority.server.key)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, files: TlsFiles) -> Iterator[Members]:
    """Behind certificates and passwords: `warren` has the password `open sesame`, and its own keys."""
    members = Members(tmp_path_factory.mktemp("guarded"), 1, files)
    members.make()
    play(demand_passwords(members.endpoints()[0], files))
    yield members
    members.destroy()


async def demand_passwords(endpoint: str, files: TlsFiles) -> None:
    own_keys = encode_bytes(2, b"/warren/") + encode_bytes(3, messages.prefix_end(b"/warren/"))
    steps = [
        ("RoleAdd", encode_text(1, "root")),
        ("RoleAdd", encode_text(1, "broker")),
        (
            "RoleGrantPermission",
            encode_text(1, "broker") + encode_message(2, encode_number(1, READ_AND_WRITE) + own_keys),
        ),
        ("UserAdd", encode_text(1, "root") + encode_text(2, "top secret")),
        ("UserGrantRole", encode_text(1, "root") + encode_text(2, "root")),
        ("UserAdd", encode_text(1, "warren") + encode_text(2, "open sesame")),
        ("UserGrantRole", encode_text(1, "warren") + encode_text(2, "broker")),
        ("UserAdd", encode_text(1, "stranger") + encode_text(2, "friend")),
        ("AuthEnable", b""),
    ]
    async with connected(endpoint, tls=files) as connection:
        for name, request in steps:
            await carry_out(connection, f"/etcdserverpb.Auth/{name}", request)


def as_user(user: str, password: str, files: TlsFiles) -> dict[str, Any]:
    return {"tls": files, "user": user, "password": password}


def test_a_store_behind_certificates_and_a_password_is_as_good_as_any(guarded: Members, files: TlsFiles) -> None:
    async def scenario() -> None:
        address = EtcdAddress(tuple(guarded.endpoints()), **as_user("warren", "open sesame", files))
        connection = EtcdConnection(address)
        store = EtcdStore(connection, "guarded", "warren@a")
        await store.move_in(10, {"a": (3, b"moved")})
        start, entries = await store.snapshot()
        assert entries["a"][0] == 3
        watcher = Watcher(store, start)
        holding = store.hold("alive/a", b"1", 60)
        await holding.held()
        # a token that is not taken any more is replaced
        connection._token = "stale.1"
        decision = await store.commit([("b", 0)], [("b", b"")])
        assert decision.outcome == COMMITTED
        await watcher.until_told(decision.revision)
        await watcher.end()
        await holding.release()
        assert await store.current() == decision.revision
        await connection.close()

    play(scenario())


def test_a_wrong_password_is_said_to_be_wrong(guarded: Members, files: TlsFiles) -> None:
    async def scenario() -> None:
        async with connected(*guarded.endpoints(), **as_user("warren", "guess", files)) as connection:
            with pytest.raises(StoreError, match="does not know this user and password"):
                await EtcdStore(connection, "guarded", "warren@a").begun()

    play(scenario())


def test_a_user_without_permission_is_told_so(guarded: Members, files: TlsFiles) -> None:
    async def scenario() -> None:
        async with connected(*guarded.endpoints(), **as_user("stranger", "friend", files)) as connection:
            with pytest.raises(StoreError, match="does not let this user do that"):
                await EtcdStore(connection, "guarded", "warren@a").begun()

    play(scenario())


def test_a_key_that_cannot_be_held_says_why(guarded: Members, files: TlsFiles) -> None:
    async def scenario() -> None:
        async with connected(*guarded.endpoints(), **as_user("stranger", "friend", files)) as connection:
            holding = LeasedKey(connection, KeySpace("guarded"), "alive/a", b"", 60)
            await until(lambda: "does not let this user do that" in holding._trouble)
            with pytest.raises(ConnectionError, match="does not let this user do that"):
                await holding.held(0.01)
            await holding.release()

    play(scenario())


def test_whoever_has_no_certificate_or_trusts_another_authority_gets_no_answer(
    guarded: Members, files: TlsFiles, tmp_path: Path
) -> None:
    async def refused(tls: TlsFiles | None) -> None:
        async with connected(*guarded.endpoints(), tls=tls) as connection:
            with pytest.raises(EtcdUnavailable):
                await connection.ask(messages.RANGE, messages.range_request(b"a"), 1.0)

    async def scenario() -> None:
        await refused(None)
        await refused(TlsFiles(files.authorities))
        await refused(TlsFiles(Authority(tmp_path).path, files.certificate, files.key))

    play(scenario())


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=f"{missing}, cannot be read: No such file"):
        EtcdConnection(EtcdAddress(("127.0.0.1:1",), TlsFiles(missing)))


def test_a_store_that_is_full_says_so_and_takes_changes_again_when_room_was_made(tmp_path: Path) -> None:
    members = Members(tmp_path, 1, quota_bytes=QUOTA_BYTES)
    members.make()

    async def scenario() -> None:
        member = members.member(0)
        async with store_at(*members.endpoints(), cluster="full") as store:
            assert not await member.make_room()
            at, decision = 0, CommitResult(COMMITTED, 0)
            for _ in range(400):
                decision = await store.commit([("big", at)], [("big", bytes(100_000))])
                if decision.outcome != COMMITTED:
                    break
                at = decision.revision
            assert decision == CommitResult(FAILED, 0, "the metadata store is full: its quota is reached")
            assert (await store.snapshot())[1]["big"][1] == at
            assert await member.make_room()
            assert (await store.commit([("big", at)], [("big", b"small")])).outcome == COMMITTED
        await member.close()

    try:
        play(scenario())
    finally:
        members.destroy()


def test_an_etcd_that_knows_no_passwords_declines_them(single: Members) -> None:
    async def scenario() -> None:
        async with connected(*single.endpoints(), user="warren", password="x") as connection:
            with pytest.raises(EtcdDeclined, match="authentication is not enabled"):
                await connection.ask(messages.RANGE, messages.range_request(b"a"))

    play(scenario())


def test_an_address_that_leads_to_another_etcd_is_noticed(single: Members, tmp_path: Path) -> None:
    others = Members(tmp_path, 1)
    others.make()

    async def scenario() -> None:
        async with connected(*single.endpoints()) as connection:
            await connection.ask(messages.RANGE, messages.range_request(b"a"), DEADLINE_S)
            connection.use(others.endpoints())
            with pytest.raises(StoreError, match="belongs to another etcd cluster"):
                await connection.ask(messages.RANGE, messages.range_request(b"a"), DEADLINE_S)

    try:
        play(scenario())
    finally:
        others.destroy()
