"""How an operator's command proves to a node without users that it has the cluster's cookie.

A node whose core does not run knows no users. Whoever orders it to do something sends, beside the order, a keyed digest
of the node's name, the method, the path, the body, the time and a number that is used once. So an order cannot be
changed on its way, sent to another node, or sent again.

Not here: how nodes prove it to each other (`cluster.hello`), what is ordered (`node.cluster.control_room`).
"""

import hmac
import re
from collections.abc import Callable

HEADER = "warren-proof"
VALID_S = 60
_KEY_FOR = b"warren: orders to a node without users"
_PROOF = re.compile(r"time=(\d{1,12}) nonce=([0-9a-f]{32}) digest=([0-9a-f]{64})")


def prove(cookie: bytes, node: str, method: str, path: str, body: bytes, time_s: int, nonce: str) -> str:
    """The value of the header."""
    return f"time={time_s} nonce={nonce} digest={_digest(cookie, node, method, path, body, time_s, nonce)}"


class Verifier:
    """Believes each proof once, while it is fresh. `now_s` is the clock on the wall."""

    def __init__(self, cookie: bytes, now_s: Callable[[], float]) -> None:
        self._cookie = cookie
        self._now_s = now_s
        # until when nobody else may use a number
        self._used: dict[str, float] = {}

    def objection(self, text: str, node: str, method: str, path: str, body: bytes) -> str:
        """Why it is not believed; empty if it is."""
        found = _PROOF.fullmatch(text)
        if found is None:
            return "whoever asks has to prove that it has the cookie of this node"
        time_s, nonce, digest = int(found[1]), found[2], found[3]
        if not hmac.compare_digest(digest, _digest(self._cookie, node, method, path, body, time_s, nonce)):
            return "the cookie is not the one of this node"
        now_s = self._now_s()
        if abs(now_s - time_s) > VALID_S:
            return f"the proof is of another time: the clocks differ by more than {VALID_S} s"
        self._used = {used: until for used, until in self._used.items() if until > now_s}
        if nonce in self._used:
            return "the proof was used before"
        self._used[nonce] = time_s + VALID_S + 1
        return ""


def _digest(cookie: bytes, node: str, method: str, path: str, body: bytes, time_s: int, nonce: str) -> str:
    key = hmac.digest(cookie, _KEY_FOR, "sha256")
    parts = [node.encode(), method.encode(), path.encode(), body, str(time_s).encode(), nonce.encode()]
    return hmac.digest(key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256").hex()
