"""TLS settings to a context."""

import ssl
from pathlib import Path

import pytest

from tests.node.certificate_files import Authority
from warren.errors import ConfigError
from warren.node.tls import TlsSettings, server_context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def refusal_of(settings: TlsSettings) -> str:
    with pytest.raises(ConfigError) as refusal:
        server_context(settings)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("verify_peer", "fail_if_no_peer_cert", "mode"),
    [
        (False, False, ssl.CERT_NONE),
        (False, True, ssl.CERT_NONE),
        (True, False, ssl.CERT_OPTIONAL),
        (True, True, ssl.CERT_REQUIRED),
    ],
)
def test_a_clients_certificate_is_asked_for_as_the_options_say(
    authority: Authority, verify_peer: bool, fail_if_no_peer_cert: bool, mode: ssl.VerifyMode
) -> None:
    settings = TlsSettings(authority.server.certificate, authority.server.key, authority.path)
    settings.verify_peer, settings.fail_if_no_peer_cert = verify_peer, fail_if_no_peer_cert
    assert server_context(settings).verify_mode == mode


def test_the_versions_are_those_that_were_named(authority: Authority) -> None:
    settings = TlsSettings(authority.server.certificate, authority.server.key, versions=["tlsv1.3", "tlsv1.2"])
    context = server_context(settings)
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_an_encrypted_key_needs_its_password(authority: Authority) -> None:
    key = authority.encrypted_key(b"open sesame")
    server_context(TlsSettings(authority.server.certificate, key, password="open sesame"))
    for wrong in ("", "sesame"):
        sentence = refusal_of(TlsSettings(authority.server.certificate, key, password=wrong))
        assert f"ssl_options.keyfile {key} cannot be used together" in sentence


def test_a_listener_without_a_certificate_is_refused() -> None:
    assert refusal_of(TlsSettings()) == "a TLS listener needs ssl_options.certfile and ssl_options.keyfile"


def test_verification_without_an_authority_is_refused(authority: Authority) -> None:
    settings = TlsSettings(authority.server.certificate, authority.server.key, verify_peer=True)
    assert refusal_of(settings) == "ssl_options.verify = verify_peer needs ssl_options.cacertfile"


def test_a_file_that_does_not_fit_is_named_with_its_option(authority: Authority, tmp_path: Path) -> None:
    good, prose = authority.server, tmp_path / "prose"
    prose.write_text("not a certificate")
    absent = str(tmp_path / "absent")
    assert refusal_of(TlsSettings(absent, good.key)) == (
        f"ssl_options.certfile {absent} cannot be read: No such file or directory"
    )
    assert refusal_of(TlsSettings(good.certificate, absent)) == (
        f"ssl_options.keyfile {absent} cannot be read: No such file or directory"
    )
    assert refusal_of(TlsSettings(str(prose), good.key)).startswith(f"ssl_options.certfile {prose} and ")
    verified = TlsSettings(good.certificate, good.key, str(prose), verify_peer=True)
    assert refusal_of(verified).startswith(f"ssl_options.cacertfile {prose} cannot be used: ")


def test_a_client_may_not_renegotiate(authority: Authority) -> None:
    """Each time costs the node a whole handshake, and OpenSSL before version 3 sets no limit."""
    context = server_context(TlsSettings(authority.server.certificate, authority.server.key))
    assert context.options & ssl.OP_NO_RENEGOTIATION
