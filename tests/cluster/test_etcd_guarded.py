"""An etcd with restrictions: certificates, passwords, a quota."""

from pathlib import Path

import pytest

from tests.cluster.etcd_world import CIPHER, Members, Watcher, as_user, connected, store_at
from tests.node.certificate_files import Authority
from tests.support.background import background_tasks
from tests.support.deadlines import DEADLINE_S, in_event_loop, run, until
from warren.broker.metadata.store import COMMITTED, FAILED, CommitResult
from warren.errors import ConfigError, StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdAddress, EtcdConnection, EtcdDeclined, EtcdUnavailable
from warren.node.etcd.keys import KeySpace, LeasedKey
from warren.node.etcd.store import EtcdStore
from warren.node.tls import TlsFiles

QUOTA_BYTES = 2 * 1024 * 1024


@in_event_loop
async def test_a_store_behind_certificates_and_a_password_is_as_good_as_any(guarded: Members, files: TlsFiles) -> None:
    address = EtcdAddress(tuple(guarded.endpoints()), **as_user("warren", "open sesame", files))
    connection = EtcdConnection(address)
    store = EtcdStore(connection, "guarded", "warren@a", CIPHER)
    await store.move_in(10, {"a": (3, b"moved")})
    start, entries = await store.snapshot()
    assert entries["a"][0] == 3
    watcher = Watcher(store, start)
    holding = store.hold("alive/a", b"1", 60, background_tasks())
    await holding.held()
    # an expired token is replaced
    connection._token = "stale.1"
    decision = await store.commit([("b", 0)], [("b", b"")])
    assert decision.outcome == COMMITTED
    await watcher.until_told(decision.revision)
    await watcher.end()
    await holding.release()
    assert await store.current() == decision.revision
    await connection.close()


@in_event_loop
async def test_a_wrong_password_is_said_to_be_wrong(guarded: Members, files: TlsFiles) -> None:
    async with connected(*guarded.endpoints(), **as_user("warren", "guess", files)) as connection:
        with pytest.raises(StoreError, match="does not know this user and password"):
            await EtcdStore(connection, "guarded", "warren@a", CIPHER).begun()


@in_event_loop
async def test_a_user_without_permission_is_refused_with_that_reason(guarded: Members, files: TlsFiles) -> None:
    async with connected(*guarded.endpoints(), **as_user("stranger", "friend", files)) as connection:
        with pytest.raises(StoreError, match="does not let this user do that"):
            await EtcdStore(connection, "guarded", "warren@a", CIPHER).begun()


@in_event_loop
async def test_a_key_that_cannot_be_held_says_why(guarded: Members, files: TlsFiles) -> None:
    async with connected(*guarded.endpoints(), **as_user("stranger", "friend", files)) as connection:
        holding = LeasedKey(connection, KeySpace("guarded"), "alive/a", b"", 60, background_tasks())
        await until(lambda: "does not let this user do that" in holding._trouble)
        with pytest.raises(ConnectionError, match="does not let this user do that"):
            await holding.held(0.01)
        await holding.release()


@in_event_loop
async def test_a_client_without_a_certificate_or_with_another_authority_gets_no_answer(
    guarded: Members, files: TlsFiles, tmp_path: Path
) -> None:
    async def refused(tls: TlsFiles | None) -> None:
        async with connected(*guarded.endpoints(), tls=tls) as connection:
            with pytest.raises(EtcdUnavailable):
                await connection.ask(messages.RANGE, messages.range_request(b"a"), 1.0)

    await refused(None)
    await refused(TlsFiles(files.authorities))
    await refused(TlsFiles(Authority(tmp_path).path, files.certificate, files.key))


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
        run(scenario())
    finally:
        members.destroy()


@in_event_loop
async def test_an_etcd_that_knows_no_passwords_declines_them(single: Members) -> None:
    async with connected(*single.endpoints(), user="warren", password="x") as connection:
        with pytest.raises(EtcdDeclined, match="authentication is not enabled"):
            await connection.ask(messages.RANGE, messages.range_request(b"a"))


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
        run(scenario())
    finally:
        others.destroy()
