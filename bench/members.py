"""The etcd members of a cluster on this machine, and which of them is the leader.

Not here: their processes (`clusters.py`).
"""

import json
import pathlib
import ssl
import urllib.request

from brokers import NotAvailable

LEADS = "etcd_server_is_leader 1\n"
LIMIT_S = 20.0


def leading(folders: list[pathlib.Path]) -> int:
    """The number of the node with etcd's leader."""
    for number, folder in enumerate(folders):
        if LEADS in _metrics(folder):
            return number
    raise NotAvailable("no member of etcd leads")


def _metrics(folder: pathlib.Path) -> str:
    """A member's metrics; reading them needs a certificate of the cluster."""
    identity = folder / "etcd-identity"
    context = ssl.create_default_context(cafile=identity / "authority.pem")
    context.check_hostname = False
    context.load_cert_chain(identity / "node.pem", identity / "node.key")
    member = json.loads((folder / "etcd" / "member.json").read_text())
    url = f"https://{member['host']}:{member['client_port']}/metrics"
    with urllib.request.urlopen(url, timeout=LIMIT_S, context=context) as answer:
        return str(answer.read().decode())
