"""Certificates from the cookie: nodes that share it reach etcd and its members, others do not."""

import stat
from pathlib import Path

import pytest

from tests.cluster.etcd_world import connected, member_of
from tests.support.deadlines import in_event_loop
from warren.errors import ConfigError
from warren.node.etcd import member, messages
from warren.node.etcd.connection import EtcdUnavailable
from warren.node.etcd.program import issue_certificates

COOKIE = b"a secret of all nodes"


@in_event_loop
async def test_only_nodes_with_the_same_cookie_trust_one_another(tmp_path: Path) -> None:
    first = member_of(tmp_path / "0", "warren@0", tls=issue_certificates(str(tmp_path / "id0"), COOKIE, "127.0.0.1"))
    second = member_of(tmp_path / "1", "warren@1", tls=issue_certificates(str(tmp_path / "id1"), COOKIE, "127.0.0.1"))
    third = issue_certificates(str(tmp_path / "id2"), COOKIE, "elsewhere.example")
    stranger = issue_certificates(str(tmp_path / "id3"), b"another secret", "127.0.0.1")
    try:
        await first.found()
        await second.join([first.endpoint])
        async with connected(second.endpoint, tls=third) as connection:
            assert len(await member.list_members(connection)) == 2
        for tls in (stranger, None):
            async with connected(first.endpoint, tls=tls) as connection:
                with pytest.raises(EtcdUnavailable):
                    await connection.ask(messages.RANGE, messages.range_request(b"a"), 1.0)
    finally:
        await second.stop()
        await first.stop()


def test_the_files_are_made_again_only_for_another_cookie_or_host(tmp_path: Path) -> None:
    def made(cookie: bytes, host: str) -> bytes:
        return Path(issue_certificates(str(tmp_path / "id"), cookie, host).certificate).read_bytes()

    first = made(COOKIE, "127.0.0.1")
    assert made(COOKIE, "127.0.0.1") == first
    second = made(COOKIE, "node.example")
    assert second != first
    assert made(b"another secret", "node.example") != second


def test_files_that_were_made_in_part_are_made_again(tmp_path: Path) -> None:
    files = issue_certificates(str(tmp_path / "id"), COOKIE, "::1")
    (tmp_path / "id" / "stamp").unlink()
    Path(files.key).write_bytes(b"")
    assert Path(issue_certificates(str(tmp_path / "id"), COOKIE, "::1").key).read_bytes().startswith(b"-----BEGIN")


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    issue_certificates(str(tmp_path / "id"), COOKIE, "127.0.0.1")
    assert stat.S_IMODE((tmp_path / "id").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "id").iterdir()}
    assert modes == dict.fromkeys(("authority.pem", "node.pem", "node.key", "stamp"), 0o600)


def test_a_place_where_nothing_can_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cannot be kept in .*/id: Not a directory"):
        issue_certificates(str(tmp_path / "id"), COOKIE, "127.0.0.1")
