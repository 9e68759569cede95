"""Counters and durations of messages, and measures as metrics.

Not here: when they are recorded (`telemetry.traces`).
"""

from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from warren.client.errors import ClientError
from warren.client.measures import DESTINATION, Measure, Measured
from warren.client.telemetry.conventions import ERROR_TYPE, OPERATION_NAME, OUTCOME, SCOPE, SETTLEMENT, SYSTEM


def observe(*parts: Measured, meter_provider: MeterProvider | None = None) -> None:
    """Report the measures of these objects as metrics, while the program runs."""
    observed = _OBSERVED.setdefault(meter_provider or _GLOBAL_PROVIDER, {})
    meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
    for measure in (measure for part in parts for measure in part.measures()):
        if measure.name in observed:
            observed[measure.name].append(measure)
            continue
        same = observed[measure.name] = [measure]
        create = meter.create_observable_counter if measure.kind == "counter" else meter.create_observable_gauge
        create(measure.name, [_reading(same)], measure.unit, measure.says)


class _GlobalProvider:
    """The program's global provider, which may be set after its first use."""


_GLOBAL_PROVIDER = _GlobalProvider()
_OBSERVED: WeakKeyDictionary[MeterProvider | _GlobalProvider, dict[str, list[Measure]]] = WeakKeyDictionary()
"""All measures by name: OpenTelemetry ignores a second instrument with the same name."""


def _reading(same: list[Measure]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        points = (point for measure in list(same) for point in measure.read())
        return [Observation(value, dict(attributes)) for value, attributes in points]

    return read


class Meters:
    """Counters and durations by destination, an exchange or a queue."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter(SCOPE, meter_provider=provider)
        counter = meter.create_counter
        self._sent = counter("messaging.client.sent.messages", "{message}", "Messages that were to be published")
        self._confirmed = counter("warren.client.confirmed.messages", "{message}", "Messages that the broker has")
        self._failed = counter("warren.client.failed.messages", "{message}", "Publishes that failed, by their outcome")
        self._consumed = counter("messaging.client.consumed.messages", "{message}", "Messages that came")
        self._redelivered = counter("warren.client.redelivered.messages", "{message}", "Of those, not the first time")
        self._handled = counter("warren.client.handled.messages", "{message}", "Messages that were settled, and how")
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration", "s", "From the publish until it is decided"
        )
        self._process = meter.create_histogram(
            "messaging.process.duration", "s", "From the message, or its handler's begin, until it is settled"
        )

    def published(self, where: str, error: BaseException | None, seconds: float, confirms: bool) -> None:
        """Without `confirms` the outcome of the publish is unknown."""
        attributes = _counted("publish", where, error)
        self._sent.add(1, attributes)
        self._operation.record(seconds, attributes)
        if error is not None:
            outcome = error.outcome if isinstance(error, ClientError) else "unknown"
            self._failed.add(1, {**attributes, OUTCOME: outcome})
        elif confirms:
            self._confirmed.add(1, attributes)

    def consumed(self, queue: str, redelivered: bool) -> None:
        attributes = _counted("process", queue, None)
        self._consumed.add(1, attributes)
        if redelivered:
            self._redelivered.add(1, attributes)

    def handled(self, queue: str, how: str, error: BaseException | None, seconds: float) -> None:
        attributes = _counted("process", queue, error)
        self._process.record(seconds, attributes)
        self._handled.add(1, {**attributes, SETTLEMENT: how})


def _counted(operation: str, place: str, error: BaseException | None) -> dict[str, str]:
    attributes = {SYSTEM: "rabbitmq", OPERATION_NAME: operation, DESTINATION: place}
    return attributes if error is None else {**attributes, ERROR_TYPE: type(error).__qualname__}
