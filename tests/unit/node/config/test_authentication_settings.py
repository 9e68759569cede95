"""The backends that a configuration names."""

from pathlib import Path

import pytest

from warren.errors import ConfigError
from warren.node.config.settings import NodeFlags, NodeSettings, read_settings

INTERNAL = ("internal", "internal")


def read(tmp_path: Path, *lines: str) -> NodeSettings:
    file = tmp_path / "my.conf"
    file.write_text("\n".join(lines))
    return read_settings(NodeFlags(config=str(file)), {})


@pytest.mark.parametrize(
    ("lines", "chain"),
    [
        ([], [INTERNAL]),
        (["auth_backends.1 = internal"], [INTERNAL]),
        (["auth_backends.10 = internal", "auth_backends.9 = rabbit_auth_backend_internal"], [INTERNAL, INTERNAL]),
        (["auth_backends.1.authn = internal", "auth_backends.1.authz = internal"], [INTERNAL]),
        (["auth_backends.1.authz = internal"], [INTERNAL]),
    ],
)
def test_backends_are_asked_in_the_order_of_their_numbers(
    tmp_path: Path, lines: list[str], chain: list[tuple[str, str]]
) -> None:
    assert read(tmp_path, *lines).broker.authentication.backends == chain


@pytest.mark.parametrize("member", ["first", "1.both", "-1", "1.authn.2"])
def test_a_backend_without_a_number_stops_the_node(tmp_path: Path, member: str) -> None:
    with pytest.raises(ConfigError, match=f"auth_backends.{member} must be auth_backends.N"):
        read(tmp_path, f"auth_backends.{member} = internal")


def test_two_backends_at_one_place_stop_the_node(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"auth_backends\.1 has two backends for authn"):
        read(tmp_path, "auth_backends.1 = internal", "auth_backends.1.authn = internal")
