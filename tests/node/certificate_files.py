"""Certificates made for a test, as files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


@dataclass(frozen=True)
class CertificateFile:
    certificate: str
    key: str


class Authority:
    """An authority of the test's own, with a certificate for a server on loopback."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self.path = str(directory / "authority.pem")
        self._authority.cert_pem.write_to_path(self.path)
        issued = self._authority.issue_cert("localhost", "127.0.0.1")
        self.server = CertificateFile(str(directory / "server.pem"), str(directory / "server.key"))
        issued.cert_chain_pems[0].write_to_path(self.server.certificate)
        issued.private_key_pem.write_to_path(self.server.key)

    def client(self, common_name: str, organization: str) -> CertificateFile:
        """A certificate with the organization, then the common name, as its subject."""
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes()).subject
        return _issued(self._directory / common_name, subject, issuer, key)

    def encrypted_key(self, password: bytes) -> str:
        """The server's key again, behind a password."""
        key = serialization.load_pem_private_key(Path(self.server.key).read_bytes(), None)
        path = self._directory / "encrypted.key"
        path.write_bytes(key.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(password)))
        return str(path)


def self_signed(directory: Path, common_name: str) -> CertificateFile:
    """A certificate that no authority signed."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    return _issued(directory / "stranger", name, name, ec.generate_private_key(ec.SECP256R1()))


def _issued(
    path: Path, subject: x509.Name, issuer: x509.Name, issuer_key: ec.EllipticCurvePrivateKey
) -> CertificateFile:
    """A certificate for an hour, with the last part of the subject as a host of example, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    host = f"{subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value!s}.example"
    certificate = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    file = CertificateFile(f"{path}.pem", f"{path}.key")
    Path(file.certificate).write_bytes(certificate.public_bytes(PEM))
    Path(file.key).write_bytes(key.private_bytes(PEM, PKCS8, serialization.NoEncryption()))
    return file
