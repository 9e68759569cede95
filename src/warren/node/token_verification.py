"""Verifies the signatures of access tokens beside the event loop.

The broker asks for few at a time (`broker.access.credential_checks`), which bounds the queue, and bounds the size of a
token. A token whose key is not known is answered at once; the broker waits for the keys.

The time of day decides whether a token has expired, and not the node's clock, which does not follow changes of the time
of day. Expiry has no tolerance, as in RabbitMQ; a token that is not valid yet has a minute, because clocks differ.

Not here: keys (`node.signing_keys`), what the claims mean (`broker.access.token_claims`).
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
from jwt.types import Options

from warren.broker.model.effects import Effect, VerifyToken
from warren.broker.model.events import Event, SigningKeysFetched, TokenVerified
from warren.node.key_settings import KeySettings
from warren.node.logs import Log
from warren.node.signing_keys import SigningKey, SigningKeys

NOT_BEFORE_LEEWAY_S = 60
LIFE_MAX_MS = 10 * 365 * 24 * 3600 * 1000
_NO_CLAIM_CHECKS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


class TokenVerification:
    """Carries out `VerifyToken`."""

    def __init__(
        self,
        settings: KeySettings,
        loop: asyncio.AbstractEventLoop,
        add: Callable[[Event], None],
        log: Log,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._add = add
        self._wall_s = wall_s
        self.keys = SigningKeys(settings, log, lambda changed: add(SigningKeysFetched(changed)))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="token")

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {VerifyToken: self._verify}

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _verify(self, effect: VerifyToken) -> None:
        changes = self.keys.changes
        future = self._loop.run_in_executor(self._thread, self._outcome, effect)
        future.add_done_callback(lambda done: self._verified(effect, changes, done))

    def _verified(self, effect: VerifyToken, changes: int, done: "asyncio.Future[TokenVerified]") -> None:
        if done.cancelled():
            return
        # a defect of a library must not let a login wait for ever
        event = TokenVerified(effect.ticket, None, "it cannot be verified") if done.exception() else done.result()
        if event.awaits_keys:
            if changes != self.keys.changes:
                # the keys came meanwhile
                self._verify(effect)
                return
            self.keys.want_fetch()
        self._add(event)

    def _outcome(self, effect: VerifyToken) -> TokenVerified:
        """Runs in the thread."""
        ticket = effect.ticket
        try:
            header = jwt.get_unverified_header(effect.token)
        except jwt.PyJWTError:
            return TokenVerified(ticket, None, "the token is malformed")
        name = header.get("kid", "")
        key = self.keys.find(name) if isinstance(name, str) else None
        if key is None:
            return TokenVerified(ticket, None, "the token's key is not known", awaits_keys=self.keys.can_fetch)
        try:
            claims = verified_claims(effect.token, key)
            return TokenVerified(ticket, claims, lives_ms=lifetime_ms(claims, self._wall_s()))
        except jwt.PyJWTError as error:
            return TokenVerified(ticket, None, f"the token is refused: {error}")


def verified_claims(token: str, key: SigningKey) -> dict[str, Any]:
    """The claims of a token that this key has signed; else `jwt.PyJWTError`."""
    return jwt.decode(token, key.key, algorithms=list(key.algorithms), options=_NO_CLAIM_CHECKS)


def lifetime_ms(claims: Mapping[str, Any], now_s: float) -> int:
    """The milliseconds that a token has left; 0 if it does not expire. `jwt.PyJWTError` if it is not valid now."""
    if "nbf" in claims and _seconds(claims, "nbf") > now_s + NOT_BEFORE_LEEWAY_S:
        raise jwt.ImmatureSignatureError("it is not valid yet")
    if "exp" not in claims:
        return 0
    left_s = _seconds(claims, "exp") - now_s
    if left_s <= 0:
        raise jwt.ExpiredSignatureError("it has expired")
    # rounded up: a connection must not be closed before its token expires
    return math.ceil(min(left_s * 1000, LIFE_MAX_MS))


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise jwt.DecodeError(f"its {name} is not a number")
    # an integer of any size
    return float(min(max(value, -1e18), 1e18))
