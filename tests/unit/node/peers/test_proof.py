"""Orders to a node without users need a proof of the cookie, valid for this order, this node, and once."""

import pytest

from warren.node.peers.cookie import COOKIE_PROOF_VALID_S, CookieProofVerifier, prove_cookie

COOKIE = b"a cookie of sixteen"
NOW_S = 1_700_000_000
ORDER = ("warren@one", "POST", "/api/warren/membership/reset", b"{}")


class Clock:
    def __init__(self) -> None:
        self.now_s = float(NOW_S)

    def __call__(self) -> float:
        return self.now_s


def proof(cookie: bytes = COOKIE, time_s: int = NOW_S, number: int = 1) -> str:
    return prove_cookie(cookie, *ORDER, time_s, f"{number:032x}")


def test_a_proof_is_believed_once() -> None:
    verifier = CookieProofVerifier(COOKIE, Clock())
    assert verifier.objection(proof(), *ORDER) == ""
    assert verifier.objection(proof(), *ORDER) == "the proof was used before"
    assert verifier.objection(proof(number=2), *ORDER) == ""


def test_a_fresh_proof_cannot_be_used_again_also_after_a_long_wait_of_the_node() -> None:
    clock = Clock()
    verifier = CookieProofVerifier(COOKIE, clock)
    early = proof(time_s=NOW_S + COOKIE_PROOF_VALID_S)
    assert verifier.objection(early, *ORDER) == ""
    clock.now_s += 2 * COOKIE_PROOF_VALID_S
    assert verifier.objection(proof(time_s=NOW_S + 2 * COOKIE_PROOF_VALID_S, number=2), *ORDER) == ""
    assert verifier.objection(early, *ORDER) == "the proof was used before"
    clock.now_s += 1
    assert verifier.objection(early, *ORDER).startswith("the proof is of another time")


def test_a_clock_that_is_set_back_makes_no_used_proof_fresh_again() -> None:
    clock = Clock()
    verifier = CookieProofVerifier(COOKIE, clock)
    assert verifier.objection(proof(), *ORDER) == ""
    clock.now_s += 3600
    assert verifier.objection(proof(time_s=NOW_S + 3600, number=2), *ORDER) == ""
    clock.now_s -= 3600
    assert verifier.objection(proof(), *ORDER) == "the proof was used before"


@pytest.mark.parametrize("seconds", [-COOKIE_PROOF_VALID_S - 1, COOKIE_PROOF_VALID_S + 1])
def test_a_proof_of_another_time_is_not_believed(seconds: int) -> None:
    objection = CookieProofVerifier(COOKIE, Clock()).objection(proof(time_s=NOW_S + seconds), *ORDER)
    assert objection == f"the proof is of another time: the clocks differ by more than {COOKIE_PROOF_VALID_S} s"


@pytest.mark.parametrize(
    "order",
    [
        ("warren@two", *ORDER[1:]),
        (ORDER[0], "GET", *ORDER[2:]),
        (*ORDER[:2], "/api/warren/membership/force_reset", ORDER[3]),
        (*ORDER[:3], b'{"node": "warren@one"}'),
    ],
)
def test_a_proof_is_of_one_order_to_one_node(order: tuple[str, str, str, bytes]) -> None:
    assert CookieProofVerifier(COOKIE, Clock()).objection(proof(), *order) == "the cookie is not the one of this node"


def test_another_cookie_proves_nothing() -> None:
    objection = CookieProofVerifier(COOKIE, Clock()).objection(proof(b"another cookie of it"), *ORDER)
    assert objection == "the cookie is not the one of this node"


@pytest.mark.parametrize("text", ["", "Basic Z3Vlc3Q6Z3Vlc3Q=", proof().upper(), proof() + " "])
def test_a_malformed_proof_is_answered_with_a_demand_for_one(text: str) -> None:
    objection = CookieProofVerifier(COOKIE, Clock()).objection(text, *ORDER)
    assert objection == "a caller must prove that it has the cookie of this node"
