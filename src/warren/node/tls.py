"""The TLS side of a listener, or of a node that dials another: from `ssl_options.*` and its like to a context.

There is a sentence for every file that does not fit.

Not here: who a certificate says a client is (`node.certificates`); the sockets (`node.listeners`).
"""

import ssl
from dataclasses import dataclass, field

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
    """The authorities to trust, and the certificate and key to show, for who reads them itself; an empty name: none."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context every TLS listener uses; `ConfigError` names the option and file at fault."""
    if not settings.certfile:
        family = settings.family
        raise ConfigError(f"a TLS listener needs {family}.certfile and {family}.keyfile")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if settings.versions:
        wanted = sorted(TLS_VERSIONS[version] for version in settings.versions)
        context.minimum_version, context.maximum_version = wanted[0], wanted[-1]
    _load_chain(context, settings)
    if settings.verify_peer:
        _load_authorities(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for dialling whoever has a certificate of the same authority, whatever the name in it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _load_chain(context, settings)
    _load_authorities(context, settings)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load_chain(context: ssl.SSLContext, settings: TlsSettings) -> None:
    keyfile = settings.keyfile or settings.certfile
    # opened first, because the error of load_cert_chain does not say which of the two files it means
    _require_readable(f"{settings.family}.certfile", settings.certfile)
    _require_readable(f"{settings.family}.keyfile", keyfile)
    try:
        # without a callable OpenSSL would ask the terminal for the password
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
