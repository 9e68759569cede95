"""Re-exported until the shell imports it from the model."""

from warren.model.settings import BrokerSettings

__all__ = ["BrokerSettings"]
