"""Temporary and final refusals, in the words of both brokers."""

import pytest

from warren.client.errors import ChannelClosed
from warren.client.recovering.subscription import is_transient


@pytest.mark.parametrize(
    ("code", "text", "method"),
    [
        (404, "NOT_FOUND - home node 'a@b' of durable queue 'q' in vhost '/' is down or inaccessible", "queue.declare"),
        (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", "basic.consume"),
        (405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'", "queue.declare"),
        (406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out", ""),
    ],
)
def test_a_temporary_refusal_is_retried(code: int, text: str, method: str) -> None:
    assert is_transient(ChannelClosed("closed", code, text, method))


@pytest.mark.parametrize(
    ("code", "text", "method"),
    [
        (404, "NOT_FOUND - no queue 'q' in vhost '/'", "basic.consume"),
        (403, "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'app'", "basic.consume"),
        (406, "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'q'", "basic.consume"),
    ],
)
def test_a_decided_action_is_not(code: int, text: str, method: str) -> None:
    assert not is_transient(ChannelClosed("closed", code, text, method))
