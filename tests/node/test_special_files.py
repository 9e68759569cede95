"""Links, pipes and devices in a data directory: legitimate links work; nothing else keeps a node waiting, or leads it
to files of others."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve
from tests.support.amqp_client import Connection
from warren.errors import ConfigError
from warren.node.disk.directory import DataDirectory
from warren.node.disk.file_io import replace_file
from warren.node.disk.offline_directory import OfflineDirectory
from warren.node.peers.cookie import cookie_at

NAME = "warren@test"
OWN = ["NODE", "LOCK", "cookie", "metadata.db", "cluster.json", "journal/000000000001.seg", "journal/checkpoint",
       "journal/spare", "streams/7/000000000001.chunks"]  # fmt: skip
TARGET = "/dev/zero"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to(TARGET)


def door(path: Path) -> None:
    # to bind one, its path would have to be short
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("kind", [pipe, device, door])
@pytest.mark.parametrize("name", OWN)
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str, kind: object) -> None:
    data = tmp_path / "data"
    DataDirectory(str(data), NAME).close()
    path = data / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    assert callable(kind)
    kind(path)
    sentence = f"{path} is a pipe, a socket or a device, not a file; remove it"
    with pytest.raises(ConfigError, match="^" + sentence):
        DataDirectory(str(data), NAME)
    with pytest.raises(ConfigError, match="^" + sentence):
        OfflineDirectory(str(data), print, shared=True)


def test_the_command_says_so_instead_of_waiting(tmp_path: Path) -> None:
    DataDirectory(str(tmp_path), NAME).close()
    os.mkfifo(tmp_path / "journal" / "000000000001.seg")
    command = [sys.executable, "-m", "warren.cli.main", "journal", "inspect", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("warren: ")
    assert "000000000001.seg is a pipe" in said.stderr


@pytest.mark.parametrize("name", ["LOCK", "NODE.new"])
def test_a_link_that_was_there_before_the_node_leads_to_no_other_file(tmp_path: Path, name: str) -> None:
    """Both names count as those of an empty directory, which others may have been able to write to."""
    victim, data = tmp_path / "victim", tmp_path / "data"
    victim.write_text("precious")
    victim.chmod(0o644)
    data.mkdir()
    (data / name).symlink_to(victim)
    if name == "LOCK":
        with pytest.raises(ConfigError, match="LOCK is a symbolic link"):
            DataDirectory(str(data), NAME)
    else:
        DataDirectory(str(data), NAME).close()
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("precious", 0o644)


def test_a_pipe_in_the_place_of_an_unfinished_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint.new")
    replace_file(str(tmp_path / "checkpoint"), b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_cookie_file_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cookie")
    with pytest.raises(ConfigError, match="is not a file"):
        cookie_at(str(tmp_path / "cookie"))


def test_a_data_directory_and_a_journal_that_are_links_are_used_kept_and_reset(
    tmp_path: Path, serve: Serve, connect: Connect
) -> None:
    """As an operator puts them on disks of their own."""
    disk, fast = tmp_path / "disk", tmp_path / "fast"
    disk.mkdir(mode=0o700)
    fast.mkdir(mode=0o700)
    link = tmp_path / "data"
    link.symlink_to(disk)
    options = ("--name", NAME, "--data", str(link))
    DataDirectory(str(link), NAME).close()
    (disk / "journal").rmdir()
    (disk / "journal").symlink_to(fast)

    first = serve(*options)
    client = connect(first, opened=True)
    channel = client.channel()
    channel.call("queue.declare", queue="kept", durable=True)
    channel.call("confirm.select")
    channel.publish("", "kept", b"x", {"delivery_mode": 2})
    channel.expect("basic.ack")
    first.end()
    assert any(path.suffix == ".seg" for path in fast.iterdir())

    second = serve(*options)
    again = Connection.opened(second.address("amqp"))
    again.channel().await_counts("kept", 1)
    again.socket.close()
    assert second.stop() == 0

    directory = DataDirectory(str(link), NAME)
    directory.delete_everything()
    directory.close()
    assert list(fast.iterdir()) == []
    assert (disk / "journal").is_symlink()
    DataDirectory(str(link), NAME).close()
