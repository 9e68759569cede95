"""A core whose logins and permissions are decided by a web server, which is the test."""

from tests.support.core_driver import Client, Core
from warren.broker.model.effects import AskWebServer
from warren.broker.model.identity import HTTP
from warren.broker.model.settings import BrokerSettings, HttpBackendSettings
from warren.wire.methods import ChannelOpen, ConnectionOpen, ConnectionTuneOk


def web_settings(http: HttpBackendSettings | None = None, chain: list[tuple[str, str]] | None = None) -> BrokerSettings:
    settings = BrokerSettings()
    settings.authentication.backends = chain or [(HTTP, HTTP)]
    settings.authentication.http = http or HttpBackendSettings()
    return settings


def web_core(http: HttpBackendSettings | None = None, chain: list[tuple[str, str]] | None = None) -> Core:
    return Core(web_settings(http, chain))


def greeted(core: Core, user: str = "alice", password: str = "pw", host: str = "127.0.0.1") -> Client:
    """A client that has sent its password."""
    client = core.connect(host)
    client.log_in(user, password)
    return client


def opening(core: Core, user: str = "alice", tags: str = "", host: str = "127.0.0.1", vhost: str = "/") -> Client:
    """A client that was let in, and has sent connection.open."""
    client = greeted(core, user, host=host)
    core.answer(f"allow {tags}".strip(), at=-1)
    client.say(ConnectionTuneOk(channel_max=2047, frame_max=131_072, heartbeat=0), channel=0)
    client.heard()
    client.say(ConnectionOpen(virtual_host=vhost), channel=0)
    return client


def working(core: Core, user: str = "alice", tags: str = "", channels: int = 1) -> Client:
    """A client with open channels."""
    client = opening(core, user, tags)
    core.answer(at=-1)
    for number in range(1, channels + 1):
        client.say(ChannelOpen(), channel=number)
    client.heard()
    return client


def asked(question: AskWebServer) -> tuple[str, str, str]:
    """The kind, name and permission that a question is about."""
    given = dict(question.parameters)
    return given["resource"], given["name"], given["permission"]


def allow_all(core: Core) -> list[tuple[str, str, str]]:
    """Allow everything that is asked, until nothing is; what was asked."""
    questions: list[tuple[str, str, str]] = []
    while core.questions:
        questions.append(asked(core.answer()))
    return questions
