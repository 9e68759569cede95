"""The paths about a node's membership, which it answers whether it runs or is stopped.

A node that runs asks for a user, like everywhere else. One that is stopped has no users: it wants proof that whoever
gives orders has the cookie of the cluster, which is looked for in a file of this machine.

Not here: the verbs (`cli.ctl.verbs.membership`), what is proved, and how (`node.cluster.proof`).
"""

import json
import os
import secrets
import time
from typing import Any, Final

from warren.cli.ctl.api import Api, unreachable
from warren.cli.ctl.failure import DATA_ERROR, UNAVAILABLE, Declined, Failure, failed
from warren.errors import ConfigError
from warren.node.cluster.proof import HEADER, prove
from warren.node.peers.cookie import cookie_at

PATH: Final = ("warren", "membership")
RUNNING: Final = "running"
STOPPED: Final = "stopped"


class Membership:
    """Of the node at one address; `wanted` is the name it should have, if that is known."""

    def __init__(self, api: Api, cookie_file: str, wanted: str) -> None:
        self._api = api
        self._cookie_file = cookie_file
        self._wanted = wanted
        self._cookie = b""
        self.node = ""
        self.app = ""
        self.look()

    def look(self) -> None:
        """See which node it is, and what it does."""
        try:
            found = self._api.get(*PATH)
        except Declined as answer:
            if answer.status in (404, 405):
                raise failed("this server has no paths about its membership") from answer
            raise
        self.node, self.app = str(found["node"]), str(found["app"])
        if self._wanted not in ("", self.node, self.node.partition("@")[0]):
            detail = f"the node at {self._api.url} is {self.node}; give the address of the other one with --http"
            raise Failure(UNAVAILABLE, unreachable(self._wanted, detail))

    def trouble(self) -> str:
        """Why the node did not start when it was told to."""
        return str(self._api.get_with(self._proof("GET", "", b""), *PATH).get("trouble", ""))

    def order(self, verb: str, **arguments: object) -> None:
        body = json.dumps(arguments).encode()
        headers = {} if self.app == RUNNING else self._proof("POST", f"/{verb}", body)
        self._api.post(*PATH, verb, body=body, headers=headers)

    def _proof(self, method: str, below: str, body: bytes) -> dict[str, Any]:
        path = "/".join(["", "api", *PATH]) + below
        self._cookie = self._cookie or self._found_cookie()
        text = prove(self._cookie, self.node, method, path, body, int(time.time()), secrets.token_hex(16))
        return {HEADER: text}

    def _found_cookie(self) -> bytes:
        given = os.environ.get("WARREN_CLUSTER__COOKIE", "")
        if given and not self._cookie_file:
            return given.encode()
        path = self._cookie_file or os.environ.get("WARREN_CLUSTER__COOKIE_FILE", "")
        path = path or os.path.join(os.environ.get("WARREN_DATA", "var"), "cookie")
        try:
            return cookie_at(path)
        except FileNotFoundError as error:
            raise failed(_NO_COOKIE.format(node=self.node, app=self.app, path=path), DATA_ERROR) from error
        except ConfigError as error:
            raise failed(str(error), DATA_ERROR) from error


_NO_COOKIE: Final = (
    "{node} is {app}, so it has no users, and does what it is told by whoever has the cookie of its cluster. There is "
    "none at {path}: name the file with --cookie-file or in WARREN_CLUSTER__COOKIE_FILE (it is called cookie, in the "
    "node's data directory)"
)
