"""Consuming, as programs want it: a handler is given messages, and what becomes of each is decided here."""

from warren.client.listening.signals import ImmediateAck, RejectAndDontRequeue

__all__ = ["ImmediateAck", "RejectAndDontRequeue"]
