"""Keepalived's configuration for one balancer, and the script that checks HAProxy.

All balancers have the same priority, so none takes the address from another without a reason: an address that returns
to a preferred machine costs every client its connection a second time. There are two reasons to release it.

- HAProxy does not answer: the balancer is faulty and releases the address.
- HAProxy finds no node that serves: the balancer's priority drops, so another takes the address if it is better off. If
  not, the address stays and clients are refused at once instead of timing out.

If several balancers claim the address after a network partition, the one with the highest priority gets it, and among
equals the one with the highest IP address.

Not here: HAProxy's answers (`cli.ha.haproxy`).
"""

from typing import Final

from warren.cli.ha.deployment import Balancer, Deployment
from warren.cli.ha.haproxy import ALIVE_PATH, WORKING_PATH

SCRIPT_NAME: Final = "warren-check"
PRIORITY: Final = 100
WITHOUT_NODES: Final = -50


def script_path(deployment: Deployment) -> str:
    return f"{deployment.keepalived.directory.rstrip('/')}/{SCRIPT_NAME}"


def keepalived_config(deployment: Deployment, balancer: Balancer, *, rehearsed_by: str = "") -> str:
    """The text of keepalived.conf.

    `rehearsed_by` is the user who checks it on another machine: the configuration then needs neither the balancer's
    interface nor the script. (`keepalived -t` of version 2.2 fails if the script is to be run by another user.)
    """
    script = "/bin/true" if rehearsed_by else script_path(deployment)
    parts = [
        _heading(deployment, balancer),
        _global(deployment, balancer, rehearsed_by),
        _scripts(deployment, script),
        _instance(deployment, balancer),
    ]
    return "\n".join(parts)


def _heading(deployment: Deployment, balancer: Balancer) -> str:
    directory = deployment.keepalived.directory
    return f"""\
# Keepalived on {balancer.name}, written by `warren ha render`. Belongs at {directory}/keepalived.conf.
#
# It keeps {deployment.virtual_address} on one of the balancers at a time. Check it: keepalived -t -f FILE
# Who has it:  ip address show dev {balancer.interface}
# Hand it over: systemctl stop keepalived, here; another balancer has it within a second.
"""


def _global(deployment: Deployment, balancer: Balancer, rehearsed_by: str) -> str:
    elsewhere = "\n    dynamic_interfaces" if rehearsed_by else ""
    return f"""\
global_defs {{
    router_id {balancer.name}
    vrrp_version 3
    # Keepalived refuses a script that other users could change.
    script_user {rehearsed_by or deployment.keepalived.script_user}
    enable_script_security{elsewhere}
    # Repeat the ARP announcements of the address, in case a switch missed one.
    vrrp_garp_master_delay 2
    vrrp_garp_master_refresh 30
}}
"""


def _scripts(deployment: Deployment, script: str) -> str:
    port = deployment.haproxy.health_port
    return f"""\
# HAProxy answers. If it does not, twice in a row, this balancer is faulty and releases the address. A stopped HAProxy
# refuses the script at once; a slow one has three seconds.
vrrp_script haproxy_alive {{
    script "{script} {port} {ALIVE_PATH}"
    interval 1
    timeout 3
    fall 2
    rise 2
}}

# HAProxy reaches a node that serves clients. If not, another balancer gets the address, if it is better off.
vrrp_script haproxy_working {{
    script "{script} {port} {WORKING_PATH}"
    interval 1
    timeout 3
    fall 3
    rise 2
    weight {WITHOUT_NODES}
}}
"""


def _instance(deployment: Deployment, balancer: Balancer) -> str:
    peers = "\n".join(f"        {each.address}" for each in deployment.balancers if each != balancer)
    return f"""\
vrrp_instance warren {{
    interface {balancer.interface}
    # The same on all balancers, and unique in this network.
    virtual_router_id {deployment.keepalived.router_id}
    # All start as backups with the same priority: the owner of the address keeps it until there is a reason.
    state BACKUP
    priority {PRIORITY}
    # Another balancer takes over after a little more than three of these intervals without an advertisement.
    advert_int {deployment.keepalived.advert_s:g}
    # The balancers talk to each other directly (IP protocol 112); many networks carry no multicast.
    unicast_src_ip {balancer.address}
    unicast_peer {{
{peers}
    }}
    virtual_ipaddress {{
        {deployment.virtual_address}/{deployment.prefix} dev {balancer.interface}
    }}
    track_script {{
        haproxy_alive
        haproxy_working
    }}
}}
"""


def check_script() -> str:
    """The text of the check script; it needs only bash."""
    return f"""\
#!/bin/bash
# Written by `warren ha render`; Keepalived runs it every second: {SCRIPT_NAME} PORT PATH.
# 0 if HAProxy on this machine answers PATH with 200, else 1. It takes less than three seconds.
exec 2>/dev/null
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
printf 'GET %s HTTP/1.0\\r\\n\\r\\n' "$2" >&3 || exit 1
read -r -t 2.5 -u 3 _ status _ || exit 1
[ "$status" = 200 ]
"""
