"""The public client suites: which ones, at which version, and how each is told where the broker is.

Every suite comes from PyPI as a source distribution, because only those carry the tests. What it needs to run is
pinned with hashes in `requirements/NAME.txt`, the source itself in `requirements/NAME.source.txt`. Files under
`overlay/NAME` are laid over the unpacked source: they stand in for fixtures that would start a container.

Only the files that hold a counted id (`NAME.expect`) are run. Inside the jail the broker is always at
127.0.0.1:5672, the address most of these suites assume, and its HTTP API at 127.0.0.1:15672.

Not here: how a suite is prepared (`workspace.py`), how it is run (`jail.py`).
"""

from dataclasses import dataclass, field

BROKER_HOST = "127.0.0.1"
BROKER_PORT = 5672
HTTP_PORT = 15672


@dataclass(frozen=True)
class Suite:
    name: str
    deselect: str = ""
    """A pytest expression for tests, in files that also hold counted ones, that need something other than a broker."""
    shadowed_package: str = ""
    """Folder of the source that would hide the installed package from its own tests."""
    environment: dict[str, str] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    """Plugins of pytest that it must be told of."""
    vhost: str = ""
    """A virtual host that is made for it, empty, before it runs."""
    limit_s: int = 900


CELERY_VHOST = "celery_suite"
_CELERY_FAMILY = {"RABBITMQ_HOST": BROKER_HOST, "RABBITMQ_5672_TCP": str(BROKER_PORT)}

SUITES = {
    suite.name: suite
    for suite in (
        # The longest first, so that two at a time finish together.
        Suite(
            name="aio-pika",
            deselect="not stairway",
            shadowed_package="aio_pika",
        ),
        Suite(
            name="aiormq",
            deselect="not amqps and not external",
            shadowed_package="aiormq",
        ),
        Suite(
            name="amqpstorm",
            environment={
                # The suite's own default is a public server, so every address is set.
                "AMQP_HOST": BROKER_HOST,
                "AMQP_USERNAME": "guest",
                "AMQP_PASSWORD": "guest",
                "AMQP_URI": f"amqp://guest:guest@{BROKER_HOST}:{BROKER_PORT}/%2F",
                "AMQP_HTTP_URL": f"http://{BROKER_HOST}:{HTTP_PORT}",
                "AMQP_SSL_URI": f"amqps://guest:guest@{BROKER_HOST}:1/%2F",
                "AMQP_SSL_HOST": BROKER_HOST,
            },
        ),
        Suite(
            name="celery",
            shadowed_package="celery",
            plugins=("celery.contrib.pytest",),
            vhost=CELERY_VHOST,
            environment={
                "TEST_BROKER": f"pyamqp://guest:guest@{BROKER_HOST}:{BROKER_PORT}/{CELERY_VHOST}",
                "TEST_BACKEND": "rpc://",
            },
        ),
        Suite(
            name="kombu",
            shadowed_package="kombu",
            environment=_CELERY_FAMILY,
        ),
        Suite(
            name="py-amqp",
            deselect="not tls",
            shadowed_package="amqp",
            environment=_CELERY_FAMILY,
        ),
    )
}
