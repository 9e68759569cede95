"""The cookie's file: made once, private, refused when it is not."""

import os
import stat
from pathlib import Path

import pytest

from warren.errors import ConfigError
from warren.node.config.cluster_settings import ClusterSettings
from warren.node.peers.cookie import cookie_in, read_cookie


def test_a_cookie_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "cookie"
    first = cookie_in(str(path))
    assert len(bytes.fromhex(first.decode())) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert cookie_in(str(path)) == first
    assert os.listdir(tmp_path) == ["cookie"]


def test_a_cookie_of_the_settings_needs_no_file(tmp_path: Path) -> None:
    path = str(tmp_path / "cookie")
    assert read_cookie(ClusterSettings(cookie="sixteen letters!", cookie_file=path)) == b"sixteen letters!"
    assert os.listdir(tmp_path) == []
    assert read_cookie(ClusterSettings(cookie_file=path)) == cookie_in(path)


def test_each_node_makes_another(tmp_path: Path) -> None:
    assert cookie_in(str(tmp_path / "one")) != cookie_in(str(tmp_path / "two"))


def test_white_space_around_a_cookie_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "cookie"
    path.write_text("  sixteen letters!\r\n")
    path.chmod(0o600)
    assert cookie_in(str(path)) == b"sixteen letters!"


@pytest.mark.parametrize("mode", [0o440, 0o404, 0o644, 0o420, 0o402])
def test_a_cookie_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "cookie"
    path.write_text("a cookie of enough letters")
    path.chmod(mode)
    with pytest.raises(ConfigError, match=rf"can be read or written by others \(mode {mode:04o}\)"):
        cookie_in(str(path))


@pytest.mark.parametrize("text", ["", "\n", "fifteen letters"])
def test_a_cookie_that_is_too_short_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cookie"
    path.write_text(text)
    path.chmod(0o400)
    with pytest.raises(ConfigError, match="a cookie has 16 or more"):
        cookie_in(str(path))


def test_a_place_without_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere/cookie cannot be made: No such file or directory"):
        cookie_in(str(tmp_path / "nowhere" / "cookie"))


def test_a_directory_is_no_cookie(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        cookie_in(str(tmp_path))
