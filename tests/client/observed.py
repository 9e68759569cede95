"""The spans and metrics that OpenTelemetry's SDK received, for tests to check."""

from dataclasses import dataclass, field

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from warren.client.telemetry import Traced
from warren.client.transport import Transport

DEADLINE_S = 20.0


@dataclass
class Observed:
    """All spans that have ended, and all metrics."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider([self.reader])
        self.tracer = self.tracers.get_tracer("the program")

    def traced(self, transport: Transport) -> Traced:
        return Traced(transport, tracer_provider=self.tracers, meter_provider=self.meters)

    def span(self, name: str) -> ReadableSpan:
        [found] = [each for each in self.spans.get_finished_spans() if each.name == name]
        return found

    def counted(self, name: str) -> dict[str, float]:
        """The points of a metric by an attribute, or one point; of a histogram its count."""
        data = self.reader.get_metrics_data()
        assert data is not None
        found: dict[str, float] = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points if metric.name == name else []:
                attributes = dict(point.attributes or {})
                key = str(attributes.get("warren.settlement") or attributes.get("warren.outcome") or "")
                found[key] = found.get(key, 0) + (point.count if hasattr(point, "count") else point.value)
        return found
