"""The name a client's verified certificate gives it, for SASL EXTERNAL.

`ssl_cert_login_from` chooses: the distinguished name as RabbitMQ renders it (`CN=alice,O=Example`: the last part
first, RFC 4514 escapes, RabbitMQ's own short names), the common name (several are joined by commas), or one of the
subject's alternative names.

Only what the TLS layer verified gets here: without `verify = verify_peer` a client's certificate is never asked for.

Not here: whether such a user exists (`broker`), which certificates are trusted (`node.tls`).
"""

from dataclasses import dataclass
from typing import Any

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
    # RabbitMQ has no name for these and shows their object identifiers
    "streetAddress": "2.5.4.9",
    "postalCode": "2.5.4.17",
    "dnQualifier": "2.5.4.46",
}
_ALTERNATIVE_NAME_LABELS = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}

PeerCertificate = dict[str, Any]
"""What `ssl.SSLSocket.getpeercert` returns."""


@dataclass(frozen=True)
class CertificateNaming:
    """Which part of a certificate is the user's name."""

    login_from: str = "distinguished_name"
    alternative_name_type: str = "dns"
    alternative_name_index: int = 0

    def name_of(self, certificate: PeerCertificate | None) -> str:
        """The user's name; empty when there is no certificate or it does not have the wanted part."""
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
