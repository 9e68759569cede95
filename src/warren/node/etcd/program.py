"""The etcd program of a disc node: its binary, its arguments, its process, and its certificates.

Both ports are on the node's host, which is loopback unless the nodes are on several machines. With certificates,
clients and other members must show one of the same authority; without, any host that reaches the ports may read and
change everything, so they belong on a private network.

The process runs in its own session. It is identified by the data directory among its arguments, even if an earlier run
of the node started it.

**Certificates from the cookie.** All nodes derive the same key from the cookie. It is the key of an authority, with
which each node issues itself a certificate. So both ends of every connection prove that they have the cookie without
sending it, and an eavesdropper learns nothing. The derivation is slow, which makes guessing slow. The authority's key
is never written. The files are made once, and again when the cookie or the host changes.

Not here: starting and ending the process (`node.etcd.member`), configured certificates (`node.config`), connections
between nodes (`node.peers`).
"""

import asyncio
import hashlib
import ipaddress
import os
import re
import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from warren.errors import ConfigError, StoreError
from warren.node.tls import TlsFiles

PLACES = ("etcd", "/usr/bin/etcd", "/usr/local/bin/etcd")
_OLDEST = (3, 4, 23)
_REFUSED_FROM, _SOUND_AGAIN = (3, 5, 0), (3, 5, 9)
_PATIENCE_S = 10.0
_RELEASE_LOOKS = 30
_RELEASE_PAUSE_S = 0.1
_END_PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.1
_LOG_BYTES_MAX = 4 * 1024 * 1024
_LAST_WORDS_BYTES = 2000
_PASSED_ON = ("PATH", "HOME", "ETCD_UNSUPPORTED_ARCH")
_VERSION = re.compile(r"etcd Version: (\d+)\.(\d+)\.(\d+)")

_FIXED = (
    "--max-txn-ops=10000",
    f"--max-request-bytes={16 * 1024 * 1024}",
    # overwritten and deleted values are forgotten after that many changes
    "--auto-compaction-mode=revision",
    "--auto-compaction-retention=10000",
    # each is a change that stays in memory for lagging members
    "--snapshot-count=10000",
    "--logger=zap",
    "--log-level=warn",
)


@dataclass(frozen=True)
class EtcdMemberSettings:
    """A member: its directory and name, its cluster, and its address. Port 0: a free one, kept for good."""

    directory: str
    name: str
    cluster: str
    host: str = "127.0.0.1"
    client_port: int = 0
    peer_port: int = 0
    binary: str = ""
    tls: TlsFiles | None = None
    heartbeat_ms: int = 50
    election_ms: int = 500
    quota_bytes: int = 2 * 1024**3


class EtcdProcess:
    """The process of a member's data directory, once found or spawned."""

    def __init__(self, settings: EtcdMemberSettings) -> None:
        self._mark = data_argument(settings).encode()
        self._log_path = Path(settings.directory).resolve() / "etcd.log"
        self._pid = 0
        self.command: list[str] = []

    @property
    def pid(self) -> int:
        """0: none runs."""
        if not self._pid:
            return 0
        # the child of an earlier run of the node is reaped by init
        with suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)
        return self._pid if self._is_ours(self._pid) else 0

    def find(self) -> int:
        """Look for it among all processes."""
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        self._pid = next((pid for pid in pids if self._is_ours(pid)), 0)
        return self._pid

    def spawn(self) -> int:
        """Returns the process id, which `pid` reports once the process has its arguments."""
        appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._pid = os.posix_spawn(
            self.command[0],
            self.command,
            {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._log_path), appending, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        return self._pid

    async def end(self) -> None:
        for order in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(self._pid, order)
            for _ in range(int(_END_PATIENCE_S / _LOOK_EVERY_S)):
                if not self.pid:
                    return
                await asyncio.sleep(_LOOK_EVERY_S)

    def bound_log(self) -> None:
        """Etcd appends to the file, so it may be truncated while the process runs."""
        with suppress(OSError):
            if self._log_path.stat().st_size > _LOG_BYTES_MAX:
                os.truncate(self._log_path, 0)

    def log_tail(self) -> str:
        """The end of its log."""
        with suppress(OSError):
            return self._log_path.read_bytes()[-_LAST_WORDS_BYTES:].decode(errors="replace")
        return ""

    def last_sentence(self) -> str:
        lines = self.log_tail().strip().splitlines()
        return lines[-1] if lines else "nothing"

    def _is_ours(self, pid: int) -> bool:
        """An ended process has no arguments."""
        with suppress(OSError):
            return self._mark in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return False


def find_binary(wanted: str) -> str:
    """The configured binary, or the one on the path. Raises `ConfigError` if there is none."""
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise ConfigError(f"cluster.etcd.binary {wanted} is not a program that can be run")
        return str(Path(found).resolve())
    for place in PLACES:
        found = shutil.which(place)
        if found is not None:
            return found
    raise ConfigError(
        "a disc node of a cluster runs etcd, and there is none: "
        "install the package etcd-server, or set cluster.etcd.binary"
    )


async def check_version(binary: str) -> None:
    """Raises `ConfigError` if this version of etcd must not be used."""
    try:
        process = await asyncio.create_subprocess_exec(
            binary,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(_PATIENCE_S):
            output, _ = await process.communicate()
    except (OSError, TimeoutError) as error:
        raise ConfigError(f"{binary} cannot be run: {error}") from error
    refuse_version(binary, output.decode(errors="replace"))


def refuse_version(binary: str, output: str) -> None:
    """Judge the output of `etcd --version`."""
    found = _VERSION.search(output)
    if found is None:
        raise ConfigError(f"{binary} does not tell its version as etcd does")
    version = (int(found[1]), int(found[2]), int(found[3]))
    name = ".".join(found.groups())
    if version < _OLDEST:
        raise ConfigError(
            f"{binary} is etcd {name}; a cluster needs 3.4.23 or newer, because older versions lack security fixes"
        )
    if _REFUSED_FROM <= version < _SOUND_AGAIN:
        raise ConfigError(
            f"{binary} is etcd {name}; versions 3.5.0 to 3.5.8 can lose data (up to 3.5.5) or let users do more than "
            "they may (CVE-2021-28235, CVE-2023-32082), use 3.5.9 or newer"
        )


def data_argument(settings: EtcdMemberSettings) -> str:
    """The argument that identifies the process of this member."""
    return f"--data-dir={Path(settings.directory).resolve() / 'data'}"


def member_url(settings: EtcdMemberSettings, address: str) -> str:
    return f"{'http' if settings.tls is None else 'https'}://{address}"


def member_arguments(
    settings: EtcdMemberSettings, client: str, peer: str, initial_cluster: str, state: str
) -> list[str]:
    """`client` and `peer` are the advertised addresses. Etcd uses the initial cluster only without data."""
    found = [
        f"--name={settings.name}",
        data_argument(settings),
        f"--listen-client-urls={member_url(settings, _listening(client))}",
        f"--advertise-client-urls={member_url(settings, client)}",
        f"--listen-peer-urls={member_url(settings, _listening(peer))}",
        f"--initial-advertise-peer-urls={member_url(settings, peer)}",
        f"--initial-cluster-token={settings.cluster}",
        f"--initial-cluster-state={state}",
        f"--initial-cluster={initial_cluster or f'{settings.name}={member_url(settings, peer)}'}",
        f"--heartbeat-interval={settings.heartbeat_ms}",
        f"--election-timeout={settings.election_ms}",
        f"--quota-backend-bytes={settings.quota_bytes}",
        *_FIXED,
    ]
    return found if settings.tls is None else [*found, *_tls_arguments(settings.tls)]


def free_port(host: str, wanted: int = 0) -> int:
    """A port that is free at this moment: the wanted one, if given. Raises `StoreError` if that is taken."""
    address = _resolved(host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.create_server((address, wanted), family=family) as probe:
            port: int = probe.getsockname()[1]
            return port
    except OSError as error:
        raise StoreError(
            f"the etcd member of this node cannot listen on port {wanted} of {host} ({os.strerror(error.errno or 0)}); "
            "cluster.etcd.client_port and cluster.etcd.peer_port choose its ports"
        ) from error


async def wait_for_released_port(host: str, port: int) -> None:
    """Wait a moment for a port that a process which just ended may still hold."""
    for _ in range(_RELEASE_LOOKS):
        try:
            free_port(host, port)
        except StoreError:
            await asyncio.sleep(_RELEASE_PAUSE_S)
        else:
            return


def _tls_arguments(tls: TlsFiles) -> list[str]:
    return [
        f"--cert-file={tls.certificate}",
        f"--key-file={tls.key}",
        f"--trusted-ca-file={tls.authorities}",
        "--client-cert-auth",
        f"--peer-cert-file={tls.certificate}",
        f"--peer-key-file={tls.key}",
        f"--peer-trusted-ca-file={tls.authorities}",
        "--peer-client-cert-auth",
    ]


def _listening(address: str) -> str:
    """Etcd listens on addresses only, not on names."""
    host, _, port = address.rpartition(":")
    found = _resolved(host.strip("[]"))
    return f"[{found}]:{port}" if ":" in found else f"{found}:{port}"


def _resolved(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise ConfigError(f"the host {host}, where etcd is to listen, is not known: {error.strerror}") from error


_SALT = b"warren: the authority of a cluster's etcd"
_KEY_BYTES = 48
_COST = {"n": 2**14, "r": 8, "p": 1}
_FROM = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL = datetime(2200, 1, 1, tzinfo=UTC)


def issue_certificates(directory: str, cookie: bytes, host: str) -> TlsFiles:
    """The certificate of a node at this host, its key and the authority, as files in a directory."""
    folder = Path(directory)
    secret = hashlib.scrypt(cookie, salt=_SALT, dklen=_KEY_BYTES, **_COST)
    stamp = hashlib.sha256(secret + host.encode()).hexdigest()
    files = TlsFiles(str(folder / "authority.pem"), str(folder / "node.pem"), str(folder / "node.key"))
    try:
        if not _is_current(folder, stamp):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _issue(secret, host, files)
            # written last, so that incomplete files are made again
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
    # costs memory, and is needed only here
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
    """Atomically, and readable by the owner only."""
    unfinished = path + ".new"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.replace(unfinished, path)
