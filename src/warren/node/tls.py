"""TLS contexts, from `ssl_options.*`, `management.ssl.*`, `cluster.tls.*` and `auth_http.ssl_options.*`, and the user
name in a client's certificate.

Every faulty file has its own error sentence.

Between nodes, both sides show a certificate of the authority in `cluster.tls.cacertfile`.

For SASL EXTERNAL, `ssl_cert_login_from` chooses the user name: the distinguished name as RabbitMQ renders it
(`CN=alice,O=Example`: the last part first, RFC 4514 escapes, RabbitMQ's short names), the common name (several are
joined by commas), or one of the subject's alternative names. Only certificates that the TLS layer verified get here:
without `verify = verify_peer` a client is not asked for one.

Not here: sockets (`node.listeners`), users (`broker.access`), the cookie between nodes (`node.peers.handshake`).
"""

import ssl
from dataclasses import dataclass, field, replace
from typing import Any

from warren.errors import ConfigError

TLS_VERSIONS = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}


@dataclass
class TlsSettings:
    """The `ssl_options` of the configuration; the defaults are RabbitMQ's."""

    certfile: str = ""
    keyfile: str = ""
    cacertfile: str = ""
    password: str = ""
    verify_peer: bool = False
    fail_if_no_peer_cert: bool = False
    versions: list[str] = field(default_factory=list)
    # the keys it was read from
    family: str = "ssl_options"


@dataclass(frozen=True)
class TlsFiles:
    """The authorities to trust, and the certificate and key to show; empty names for none."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a TLS listener; `ConfigError` names the faulty option and file."""
    if not settings.certfile:
        family = settings.family
        raise ConfigError(f"a TLS listener needs {family}.certfile and {family}.keyfile")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # OpenSSL 3 refuses a client's renegotiation by itself, earlier versions do it as often as the client likes
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.versions:
        wanted = sorted(TLS_VERSIONS[version] for version in settings.versions)
        context.minimum_version, context.maximum_version = wanted[0], wanted[-1]
    _load_chain(context, settings)
    if settings.verify_peer:
        _load_authorities(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for dialling a server with a certificate of the same authority, for any host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _load_chain(context, settings)
    _load_authorities(context, settings)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def web_client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for asking a web server, whose name is verified: with the system's authorities, or the named ones."""
    context = ssl.create_default_context()
    if settings.cacertfile:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_authorities(context, settings)
        context.verify_mode = ssl.CERT_REQUIRED
    if settings.versions:
        wanted = sorted(TLS_VERSIONS[version] for version in settings.versions)
        context.minimum_version, context.maximum_version = wanted[0], wanted[-1]
    if settings.certfile:
        _load_chain(context, settings)
    return context


def _load_chain(context: ssl.SSLContext, settings: TlsSettings) -> None:
    keyfile = settings.keyfile or settings.certfile
    # opened first, because an error of load_cert_chain does not say which of the two files is meant
    _require_readable(f"{settings.family}.certfile", settings.certfile)
    _require_readable(f"{settings.family}.keyfile", keyfile)
    try:
        # without a callable, OpenSSL would ask for the password on the terminal
        context.load_cert_chain(settings.certfile, keyfile, password=lambda: settings.password)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{settings.family}.certfile {settings.certfile} and {settings.family}.keyfile {keyfile} cannot be used "
            f"together: {_first_sentence(error)}"
        ) from error


def _load_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.cacertfile:
        raise ConfigError(f"{settings.family}.verify = verify_peer needs {settings.family}.cacertfile")
    _require_readable(f"{settings.family}.cacertfile", settings.cacertfile)
    try:
        context.load_verify_locations(settings.cacertfile)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{settings.family}.cacertfile {settings.cacertfile} cannot be used: {_first_sentence(error)}"
        ) from error
    context.verify_mode = ssl.CERT_REQUIRED if settings.fail_if_no_peer_cert else ssl.CERT_OPTIONAL


def _require_readable(option: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read: {error.strerror}") from error


def _first_sentence(error: OSError) -> str:
    return (error.strerror or str(error) or "it is not a PEM file").split("\n")[0]


_SHORT_NAMES = {
    "commonName": "CN",
    "surname": "SN",
    "serialNumber": "SERIALNUMBER",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "userId": "UID",
    "emailAddress": "EMAILADDRESS",
    # RabbitMQ has no names for these and shows their object identifiers
    "streetAddress": "2.5.4.9",
    "postalCode": "2.5.4.17",
    "dnQualifier": "2.5.4.46",
}
_ALTERNATIVE_NAME_LABELS = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}

PeerCertificate = dict[str, Any]
"""The return type of `ssl.SSLSocket.getpeercert`."""


@dataclass(frozen=True)
class CertificateUserName:
    """The part of a certificate that is the user's name."""

    login_from: str = "distinguished_name"
    alternative_name_type: str = "dns"
    alternative_name_index: int = 0

    def name_of(self, certificate: PeerCertificate | None) -> str:
        """The user's name; empty if there is no certificate or it lacks that part."""
        if not certificate:
            return ""
        if self.login_from == "distinguished_name":
            return distinguished_name(certificate)
        if self.login_from == "common_name":
            return ",".join(_common_names(certificate))
        return self._alternative_name(certificate)

    def _alternative_name(self, certificate: PeerCertificate) -> str:
        label = _ALTERNATIVE_NAME_LABELS[self.alternative_name_type]
        names = [name for kind, name in certificate.get("subjectAltName", ()) if kind == label]
        return names[self.alternative_name_index] if self.alternative_name_index < len(names) else ""


def distinguished_name(certificate: PeerCertificate) -> str:
    """The subject, last part first, as RabbitMQ writes it."""
    parts = ("+".join(_attribute(*pair) for pair in part) for part in reversed(certificate.get("subject", ())))
    return ",".join(parts)


def _common_names(certificate: PeerCertificate) -> list[str]:
    return [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]


def _attribute(name: str, value: str) -> str:
    return f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    """RFC 4514, with everything outside printable ASCII as the hexadecimal of its UTF-8 octets."""
    octets = value.encode()
    last = len(octets) - 1
    return "".join(_escaped_octet(octet, at == 0, at == last) for at, octet in enumerate(octets))


def _escaped_octet(octet: int, first: bool, last: bool) -> str:
    character = chr(octet)
    if octet < 0x20 or octet >= 0x7E:
        return f"\\{octet:02X}"
    if character in ',+"\\<>;' or (first and character in " #") or (last and character == " "):
        return f"\\{character}"
    return character


PEER_TLS_FAMILY = "cluster.tls"


@dataclass(frozen=True)
class PeerTlsContexts:
    """Both are None without TLS."""

    listening: ssl.SSLContext | None = None
    dialling: ssl.SSLContext | None = None


def peer_tls_contexts(settings: TlsSettings) -> PeerTlsContexts:
    """Raises a `ConfigError` that names the faulty option and file."""
    given = {"certfile": settings.certfile, "keyfile": settings.keyfile, "cacertfile": settings.cacertfile}
    if not any(given.values()):
        return PeerTlsContexts()
    missing = [f"{PEER_TLS_FAMILY}.{name}" for name in ("certfile", "cacertfile") if not given[name]]
    if missing:
        raise ConfigError(f"TLS between nodes needs {' and '.join(missing)}, too")
    strict = replace(settings, verify_peer=True, fail_if_no_peer_cert=True, family=PEER_TLS_FAMILY)
    return PeerTlsContexts(server_context(strict), client_context(strict))
