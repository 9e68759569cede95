"""Both clocks of `admin.loop_holds`, moved by the test."""

from types import ModuleType

import pytest


class SteppedClocks:
    """Takes the place of the clocks of the module `time`."""

    def __init__(self) -> None:
        self._wall_s = 0.0
        self._cpu_s = 0.0

    def perf_counter(self) -> float:
        return self._wall_s

    def thread_time(self) -> float:
        return self._cpu_s

    def work(self, seconds: float) -> None:
        """Use the processor."""
        self._wall_s += seconds
        self._cpu_s += seconds

    def wait(self, seconds: float) -> None:
        """Wait for the processor, or for a disk."""
        self._wall_s += seconds

    def replace(self, patch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Be the clocks of these modules."""
        for module in modules:
            patch.setattr(module, "perf_counter", self.perf_counter)
            patch.setattr(module, "thread_time", self.thread_time)
