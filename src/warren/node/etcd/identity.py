"""Certificates for etcd's ports, made from the cookie that the nodes of a cluster share.

Whoever has the cookie can work out one and the same key; it is that of an authority, and each node issues a certificate
for itself with it. So both ends of every connection to etcd, and between its members, prove that they have the cookie,
without ever sending it, and whoever listens learns nothing. The work it takes to get from the cookie to the key makes
guessing slow. The authority's key is never written.

The files are made once, and again when the cookie or the host is another.

Not here: certificates that the operator provides (`node.config`), links between nodes (`node.peers`).
"""

import hashlib
import ipaddress
import os
from datetime import UTC, datetime
from pathlib import Path

from warren.errors import ConfigError
from warren.node.tls import TlsFiles

_SALT = b"warren: the authority of a cluster's etcd"
_KEY_BYTES = 48
_COST = {"n": 2**14, "r": 8, "p": 1}
_FROM = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL = datetime(2200, 1, 1, tzinfo=UTC)


def cluster_files(directory: str, cookie: bytes, host: str) -> TlsFiles:
    """The certificate of a node that listens at this host, its key and the authority, as files in a directory."""
    folder = Path(directory)
    secret = hashlib.scrypt(cookie, salt=_SALT, dklen=_KEY_BYTES, **_COST)
    stamp = hashlib.sha256(secret + host.encode()).hexdigest()
    files = TlsFiles(str(folder / "authority.pem"), str(folder / "node.pem"), str(folder / "node.key"))
    try:
        if not _is_current(folder, stamp):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _issue(secret, host, files)
            # last, so that files that are there in part are made again
            _write(str(folder / "stamp"), stamp.encode())
    except OSError as error:
        raise ConfigError(f"the certificates for etcd cannot be kept in {directory}: {error.strerror}") from error
    return files


def _is_current(folder: Path, stamp: str) -> bool:
    try:
        return (folder / "stamp").read_text() == stamp
    except FileNotFoundError:
        return False


def _issue(secret: bytes, host: str, files: TlsFiles) -> None:
    # costs memory, and is needed only now
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    curve = ec.SECP256R1()
    authority = ec.derive_private_key(int.from_bytes(secret, "big") % (curve.group_order - 1) + 1, curve)
    own = ec.generate_private_key(curve)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "warren cluster")])
    root = (
        x509.CertificateBuilder(issuer, issuer, authority.public_key(), x509.random_serial_number(), _FROM, _UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    address = _address(host)
    hosts.append(x509.DNSName(host) if address is None else x509.IPAddress(address))
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "warren node")])
    leaf = (
        x509.CertificateBuilder(issuer, subject, own.public_key(), x509.random_serial_number(), _FROM, _UNTIL)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(usages, critical=False)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    _write(files.authorities, root.public_bytes(pem))
    _write(files.certificate, leaf.public_bytes(pem))
    _write(files.key, own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _write(path: str, data: bytes) -> None:
    """Whole or not at all, and for nobody else to read."""
    unfinished = path + ".new"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.replace(unfinished, path)
