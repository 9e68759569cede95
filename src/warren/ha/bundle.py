"""Everything that `warren ha render` writes: for each machine a folder, in which files lie where they belong there.

Not here: checking and writing them (`cli.ha`).
"""

from dataclasses import dataclass

from warren.ha import document
from warren.ha.deployment import DEPLOYMENT_FILE, Balancer, Deployment
from warren.ha.haproxy import haproxy_config
from warren.ha.keepalived import check_script, keepalived_config, script_path
from warren.ha.node_settings import node_config
from warren.ha.units import CONFIGURATION, service_files, service_of


@dataclass(frozen=True)
class RenderedFile:
    """One file, by its path within the folder of all."""

    path: str
    text: str
    executable: bool = False


def bundle(deployment: Deployment, *, with_itself: bool = True) -> list[RenderedFile]:
    """`with_itself`: also a file that describes the deployment."""
    files = [RenderedFile(DEPLOYMENT_FILE, document.write(deployment))] if with_itself else []
    for balancer in deployment.balancers:
        files += balancer_files(deployment, balancer)
    for node in deployment.nodes:
        files.append(RenderedFile(f"{node.label}{CONFIGURATION}", node_config(deployment, node)))
        for path, text in service_files(service_of(node, deployment.program)).items():
            files.append(RenderedFile(f"{node.label}/{path}", text))
    return files


def balancer_files(deployment: Deployment, balancer: Balancer) -> list[RenderedFile]:
    script = f"{balancer.name}{script_path(deployment)}"
    return [
        RenderedFile(f"{balancer.name}/etc/haproxy/haproxy.cfg", haproxy_config(deployment, balancer)),
        RenderedFile(
            f"{balancer.name}{deployment.keepalived.directory.rstrip('/')}/keepalived.conf",
            keepalived_config(deployment, balancer),
        ),
        RenderedFile(script, check_script(), executable=True),
    ]
