"""The hello of two nodes: which are accepted, which are refused, and the reasons on both sides."""

import pytest

from tests.unit.broker.cluster.hellos import (
    ACCEPTED_NONCE,
    COOKIE,
    DIALLED_NONCE,
    HARE,
    MOLE,
    Village,
    accepter,
    couple,
    dialler,
    diallers_proof,
    still_talking,
)
from warren.broker.cluster.hello import (
    AGREED,
    BODY_BYTES_MAX,
    HEADER,
    JOIN,
    KNOCK,
    LINK,
    NONCE_BYTES,
    OPENING,
    PROOF,
    REFUSED,
    TALKING,
    WELCOME,
    AcceptHello,
    DialHello,
    HelloOpening,
    PeerIdentity,
    frame,
    refusal,
)
from warren.broker.model.settings import RAM


def refused(dialling: DialHello, accepting: AcceptHello, by_dialler: bool = False) -> str:
    """Both sides end with the same sentence, and know which side refused."""
    couple(dialling, accepting)
    assert (dialling.state, accepting.state) == (REFUSED, REFUSED)
    assert (dialling.by_peer, accepting.by_peer) == (not by_dialler, by_dialler)
    assert dialling.reason == accepting.reason
    return dialling.reason


@pytest.mark.parametrize("purpose", [LINK, KNOCK, JOIN])
def test_two_nodes_of_a_cluster_agree_and_know_each_other(purpose: str) -> None:
    dialling, accepting = dialler(purpose=purpose, meant=MOLE.name), accepter()
    couple(dialling, accepting)
    assert (dialling.state, accepting.state) == (AGREED, AGREED)
    assert (dialling.purpose, accepting.purpose) == (purpose, purpose)
    for seen, real in ((dialling.peer, MOLE), (accepting.peer, HARE)):
        assert seen is not None
        assert vars_of(seen) == vars_of(real)


def vars_of(facts: PeerIdentity) -> tuple[object, ...]:
    return (facts.name, facts.incarnation, facts.cluster_id, facts.address, facts.kind, facts.silence_ms)


def test_the_cookie_is_in_no_message() -> None:
    said = b"".join(couple(dialler(), accepter()))
    assert COOKIE not in said
    assert COOKIE.hex().encode() not in said


def test_messages_may_come_an_octet_at_a_time() -> None:
    dialling, accepting = dialler(), accepter()
    said = dialling.start()
    for speaks in (accepting, dialling, accepting, dialling):
        said = b"".join(speaks.receive(said[at : at + 1]) for at in range(len(said)))
    assert (dialling.state, accepting.state) == (AGREED, AGREED)


def test_bytes_behind_the_hello_are_kept_for_the_link() -> None:
    dialling, accepting = dialler(), accepter()
    proof = dialling.receive(accepting.receive(dialling.start()))
    welcome = accepting.receive(proof + b"eager")
    assert accepting.rest == b"eager"
    dialling.receive(welcome + b"first bytes")
    assert dialling.rest == b"first bytes"


def test_a_ram_node_says_that_it_is_one() -> None:
    accepting = accepter()
    couple(dialler(own=PeerIdentity("warren@vole", 1, "burrow", "vole:25672", kind=RAM)), accepting)
    assert accepting.peer is not None
    assert accepting.peer.kind == RAM


def test_the_highest_version_that_both_speak_is_chosen() -> None:
    newer = PeerIdentity("warren@hare", 7, "burrow", "hare:25672", lowest_version=1, highest_version=4)
    older = PeerIdentity("warren@mole", 3, "burrow", "mole:25672", lowest_version=1, highest_version=2)
    dialling, accepting = dialler(own=newer), accepter(own=older)
    couple(dialling, accepting)
    assert (dialling.version, accepting.version) == (2, 2)


def test_versions_too_far_apart_are_refused() -> None:
    newer = PeerIdentity("warren@hare", 7, "burrow", "hare:25672", lowest_version=3, highest_version=4)
    assert refused(dialler(own=newer), accepter()) == (
        "warren@hare speaks versions 3 to 4 of the protocol between nodes, "
        "warren@mole speaks versions 2 to 2 of the protocol between nodes"
    )


def test_a_wrong_cookie_is_refused() -> None:
    reason = refused(dialler(cookie=b"another cookie altogether"), accepter())
    assert reason == "warren@hare and warren@mole do not have the same cookie"


def test_a_node_of_another_cluster_is_refused() -> None:
    stranger = PeerIdentity("warren@hare", 7, "warren", "hare:25672")
    reason = refused(dialler(own=stranger), accepter(), by_dialler=True)
    assert reason == "warren@mole is of the cluster burrow, warren@hare of the cluster warren"


def test_a_node_of_another_cluster_is_refused_by_the_accepter_too() -> None:
    said = open_and_prove(PeerIdentity("warren@hare", 7, "", "hare:25672"), accepting := accepter())
    assert accepting.reason == "warren@hare is of no cluster, warren@mole of the cluster burrow"
    assert said == refusal(accepting.reason)


def test_a_node_of_another_cluster_may_ask_to_join() -> None:
    dialling, accepting = dialler(own=PeerIdentity("warren@hare", 7, "", "hare:25672"), purpose=JOIN), accepter()
    couple(dialling, accepting)
    assert (dialling.state, accepting.state) == (AGREED, AGREED)


@pytest.mark.parametrize("purpose", [LINK, KNOCK])
def test_a_node_that_is_no_member_is_refused(purpose: str) -> None:
    reason = refused(dialler(purpose=purpose), accepter(village=Village("warren@hare")))
    assert reason == "warren@hare is not a member of the cluster of warren@mole"


def test_a_node_that_is_no_member_may_ask_to_join() -> None:
    accepting = accepter(village=Village("warren@hare"))
    couple(dialler(purpose=JOIN), accepting)
    assert accepting.state == AGREED


@pytest.mark.parametrize("purpose", [LINK, KNOCK, JOIN])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(PeerIdentity("warren@hare", 7, "burrow", "elsewhere:25672"), id="another address"),
        pytest.param(PeerIdentity("warren@hare", 6, "burrow", "elsewhere:25672"), id="another address, earlier run"),
        pytest.param(PeerIdentity("warren@hare", 8, "burrow", "hare:25672"), id="later run of the same address"),
    ],
)
def test_a_name_that_another_node_has_is_refused(other: PeerIdentity, purpose: str) -> None:
    village = Village()
    village.links["warren@hare"] = other
    assert refused(dialler(purpose=purpose), accepter(village=village)) == (
        f"another node called warren@hare, at {other.address} in its run {other.incarnation}, "
        "is connected to warren@mole"
    )


@pytest.mark.parametrize("incarnation", [6, 7])
def test_the_same_process_or_its_successor_is_no_other_node(incarnation: int) -> None:
    village = Village()
    village.links["warren@hare"] = PeerIdentity("warren@hare", incarnation, "burrow", "hare:25672")
    accepting = accepter(village=village)
    couple(dialler(), accepting)
    assert accepting.state == AGREED


def test_a_node_does_not_talk_to_its_own_name() -> None:
    reason = refused(dialler(own=MOLE), accepter(), by_dialler=True)
    assert reason == "both nodes are called warren@mole"


def test_a_node_refuses_its_own_name_although_the_other_has_the_cookie() -> None:
    open_and_prove(MOLE, accepting := accepter())
    assert accepting.reason == "both nodes are called warren@mole"


def test_a_dialler_refuses_a_node_that_it_did_not_mean() -> None:
    reason = refused(dialler(meant="warren@vole"), accepter(), by_dialler=True)
    assert reason == "warren@hare wants warren@vole, but reached warren@mole"


def test_a_dialler_refuses_an_answer_about_something_else() -> None:
    dialling = dialler(purpose=JOIN)
    dialling.start()
    dialling.receive(HEADER + frame(OPENING, HelloOpening(LINK, ACCEPTED_NONCE, MOLE).encode()))
    assert dialling.reason == "warren@hare was answered about something else"


def test_an_accepter_refuses_an_unknown_purpose() -> None:
    accepting = accepter()
    said = accepting.receive(HEADER + frame(OPENING, HelloOpening("dance", DIALLED_NONCE, HARE).encode()))
    assert accepting.state == REFUSED
    assert said == HEADER + refusal("warren@mole does not know the purpose of the request")


def open_and_prove(own: PeerIdentity, accepting: AcceptHello) -> bytes:
    """The accepter's messages to a dialler with the cookie."""
    opening = HelloOpening(LINK, DIALLED_NONCE, own).encode()
    answer = accepting.receive(HEADER + frame(OPENING, opening))
    return accepting.receive(frame(PROOF, diallers_proof(opening, answer[len(HEADER) + 3 :])))


def test_an_accepter_proves_nothing_before_the_dialler_has() -> None:
    accepting = accepter()
    answer = accepting.receive(dialler().start())
    assert answer[:8] == HEADER + bytes((OPENING,))
    refusal_of_a_guess = accepting.receive(frame(PROOF, b"?" * 32))
    assert refusal_of_a_guess == refusal("warren@hare and warren@mole do not have the same cookie")


def test_an_accepter_without_the_cookie_is_not_believed() -> None:
    dialling, accepting = dialler(), accepter()
    dialling.receive(accepting.receive(dialling.start()))
    dialling.receive(frame(WELCOME, b"?" * 32))
    assert dialling.reason == "warren@mole has not proved that it has the cookie of warren@hare"


def test_a_dialler_does_not_take_its_own_proof_for_the_others() -> None:
    dialling, accepting = dialler(), accepter()
    proof = dialling.receive(accepting.receive(dialling.start()))
    dialling.receive(frame(WELCOME, proof[3:]))
    assert dialling.state == REFUSED


def test_a_node_that_talks_to_itself_through_a_relay_proves_nothing() -> None:
    """A relay that the mole dials dials the mole, and passes on all messages."""
    dialling = dialler(own=MOLE, meant="warren@hare")
    accepting = accepter(own=MOLE)
    said = couple(dialling, accepting)
    assert (dialling.state, accepting.state) == (REFUSED, REFUSED)
    assert all(bytes((PROOF, 0, 32)) not in each for each in said)


def test_a_nonce_that_comes_back_is_refused() -> None:
    reason = refused(dialler(nonce=ACCEPTED_NONCE), accepter())
    assert reason == "warren@mole was sent its own challenge"


def test_a_proof_of_another_conversation_is_worth_nothing() -> None:
    opening, _, proof, _ = couple(dialler(), accepter())
    accepting = accepter(nonce=b"b" * NONCE_BYTES)
    accepting.receive(opening)
    accepting.receive(proof)
    assert accepting.state == REFUSED


def test_a_proof_of_another_channel_is_worth_nothing() -> None:
    reason = refused(dialler(channel=b"to the one in the middle"), accepter(channel=b"from the one in the middle"))
    assert reason == "warren@hare and warren@mole do not have the same cookie"


def test_a_proof_before_the_opening_is_out_of_turn() -> None:
    accepting = accepter()
    said = accepting.receive(HEADER + frame(PROOF, b"?" * 32))
    assert said == HEADER + refusal("warren@mole was sent something out of turn")


def test_a_second_opening_is_out_of_turn() -> None:
    accepting = accepter()
    opening = dialler().start()
    accepting.receive(opening)
    assert accepting.receive(opening[len(HEADER) :]) == refusal("warren@mole was sent something out of turn")


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"WARREN\x02", b"\x00"])
def test_another_protocol_is_not_answered(garbage: bytes) -> None:
    accepting = accepter()
    assert accepting.receive(garbage) == b""
    assert accepting.reason == "the other side was not understood: it does not speak the protocol between nodes"


def test_a_message_that_would_be_too_long_is_refused_before_it_comes() -> None:
    accepting = accepter()
    accepting.receive(HEADER + bytes((OPENING,)) + (BODY_BYTES_MAX + 1).to_bytes(2, "big"))
    assert accepting.reason == "the other side was not understood: its message is too long"


def test_half_a_hello_is_waited_for() -> None:
    dialling, accepting = dialler(), accepter()
    assert accepting.receive(dialling.start()[:-1]) == b""
    assert accepting.receive(b"") == b""
    assert still_talking(dialling, accepting)


def test_nothing_is_said_after_the_end() -> None:
    accepting = accepter()
    accepting.receive(b"nonsense")
    assert accepting.receive(dialler().start()) == b""
    assert accepting.state == REFUSED


def test_a_refusal_is_shown_without_control_characters() -> None:
    dialling = dialler()
    dialling.start()
    dialling.receive(HEADER + refusal("no\x1b[31m\n, \ud800never"))
    assert (dialling.state, dialling.by_peer, dialling.reason) == (REFUSED, True, "no[31m, ?never")


def test_both_ends_of_a_hello_begin_in_the_talking_state() -> None:
    assert (dialler().state, accepter().state) == (TALKING, TALKING)
