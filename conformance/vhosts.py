"""A virtual host for one suite, made through the broker's HTTP API.

Not here: which suite needs one (`suites.py`).
"""

import base64
import json
from http.client import HTTPConnection

from node import Broker

USER = "guest"
LOGIN = "Basic " + base64.b64encode(f"{USER}:guest".encode()).decode()
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


class NotMade(Exception):
    """The broker refused; the message says what."""


def make_vhost(broker: Broker, name: str) -> None:
    """Make an empty virtual host with full permissions for the default user; delete an older one first."""
    _ask(broker, "DELETE", f"vhosts/{name}", None, (204, 404))
    _ask(broker, "PUT", f"vhosts/{name}", {}, (201,))
    _ask(broker, "PUT", f"permissions/{name}/{USER}", EVERYTHING, (201, 204))


def _ask(broker: Broker, method: str, path: str, document: object, good: tuple[int, ...]) -> None:
    connection = HTTPConnection(*broker.http, timeout=30)
    try:
        headers = {"authorization": LOGIN, "content-type": "application/json"}
        connection.request(method, f"/api/{path}", json.dumps(document), headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status not in good:
        raise NotMade(f"{method} /api/{path} was answered with {status}")
