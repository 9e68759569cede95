"""What a handler raises to say itself what becomes of its message.

Any other exception means that handling failed, and may be tried again (`listening.retrying`).
"""


class RejectAndDontRequeue(Exception):
    """Refuse the message for good: it becomes a dead letter if its queue has a place for those, or is dropped."""

    def __init__(self, reason: str = "the handler refused it") -> None:
        super().__init__(reason)


class ImmediateAck(Exception):
    """Acknowledge the message although handling it did not come to its end."""
