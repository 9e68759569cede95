"""Certificates made for a test, as files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


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
        self.server = self._write("server", self._authority.issue_cert("localhost", "127.0.0.1"))

    def _write(self, name: str, issued: trustme.LeafCert) -> CertificateFile:
        file = CertificateFile(str(self._directory / f"{name}.pem"), str(self._directory / f"{name}.key"))
        for blob in issued.cert_chain_pems:
            blob.write_to_path(file.certificate, append=True)
        issued.private_key_pem.write_to_path(file.key)
        return file

    def client(self, common_name: str, organization: str) -> CertificateFile:
        """A certificate whose subject is the organization, then the common name."""
        issued = self._authority.issue_cert(
            f"{common_name}.example", common_name=common_name, organization_name=organization
        )
        return self._write(f"client-{common_name}", issued)

    def encrypted_key(self, password: bytes) -> str:
        """The server's key again, behind a password."""
        key = serialization.load_pem_private_key(Path(self.server.key).read_bytes(), None)
        path = self._directory / "encrypted.key"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password),
            )
        )
        return str(path)


def self_signed(directory: Path, common_name: str) -> CertificateFile:
    """A certificate nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    file = CertificateFile(str(directory / "stranger.pem"), str(directory / "stranger.key"))
    Path(file.certificate).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    Path(file.key).write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file
