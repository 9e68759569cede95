"""Stands in for the suite's Docker client: the only "container" there is is the broker in the jail."""

from dataclasses import dataclass


class DockerNotAvailableError(Exception):
    pass


@dataclass
class DockerHostInfo:
    host: str = "127.0.0.1"


@dataclass
class ContainerInfo:
    id: str
    ports: dict[str, int]
    host: str


def check_docker_available() -> DockerHostInfo:
    return DockerHostInfo()


class DockerClient:
    def __init__(self, host: DockerHostInfo) -> None:
        self._host = host

    def run(self, image: str, ports: list[str], environment: dict[str, str] | None = None) -> ContainerInfo:
        # Port 1 has no listener: there is no TLS in the jail.
        return ContainerInfo("broker", {"5672/tcp": 5672, "5671/tcp": 1}, self._host.host)

    def kill(self, container_id: str) -> None:
        """The broker outlives the suite."""

    def remove(self, container_id: str) -> None:
        """The broker outlives the suite."""
