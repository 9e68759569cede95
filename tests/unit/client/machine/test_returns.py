"""Matching a returned message with its publish, by fingerprint or by the unconfirmed publishes that are left."""

from warren.client.machine.publishes import MandatoryPublishes, MessageFingerprint


def fingerprint(header: bytes, body: bytes, key: str = "new") -> MessageFingerprint:
    return ("orders", key, header, body)


def sent(*all_looks: MessageFingerprint) -> MandatoryPublishes:
    made = MandatoryPublishes()
    for number, each in enumerate(all_looks, start=1):
        made.sent(number, each)
    return made


def test_the_oldest_of_those_that_look_the_same_came_back() -> None:
    made = sent(fingerprint(b"a", b"1"), fingerprint(b"b", b"1"), fingerprint(b"b", b"1"))
    assert [made.came_back(fingerprint(b"b", b"1")) for _ in range(2)] == [2, 3]
    assert len(made) == 1


def test_one_whose_properties_were_changed_is_known_by_its_route_and_body_or_by_its_route() -> None:
    made = sent(fingerprint(b"a", b"0", "old"), fingerprint(b"a", b"1"), fingerprint(b"a", b"2"))
    assert made.came_back(fingerprint(b"changed", b"2")) == 3
    assert made.came_back(fingerprint(b"changed", b"changed")) == 2
    assert made.came_back(fingerprint(b"changed", b"1")) == 0
    assert len(made) == 1


def test_a_confirmed_publish_does_not_match_a_return() -> None:
    made = sent(fingerprint(b"a", b"1"), fingerprint(b"a", b"1"))
    made.decided(1, 1)
    assert (made.came_back(fingerprint(b"a", b"1")), made.came_back(fingerprint(b"a", b"1"))) == (2, 0)
