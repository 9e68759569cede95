"""All verbs in the groups of the help, and verbs that work on other verbs: help, autocomplete, report.

Not here: what a verb does (`cli.ctl.verbs`).
"""

import dataclasses
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from warren.cli.ctl import command_line, output
from warren.cli.ctl.api import USAGE, Failure
from warren.cli.ctl.verb import Rows, Text, Verb, VerbCall, VerbResult
from warren.cli.ctl.verbs import (
    bridges,
    connections,
    definitions,
    hardening,
    health_checks,
    membership,
    nodes,
    parameters,
    queues,
    status,
    topology,
    users,
    vhosts,
)
from warren.cli.terminal import say


def report(call: VerbCall) -> None:
    """Print the output of the other verbs one after another; the error of one is printed in its place. Others will read
    it, so URIs have no logins."""
    for verb, vhost in _reported(call):
        print()
        options = dataclasses.replace(call.options, vhost=vhost, formatter="table", own={})
        with closing(VerbCall(verb, list(verb.columns), options)) as part:
            output.announce(part, part.banner())
            try:
                output.write(part, _without_logins(verb.run(part)))
            except Failure as failure:
                say(failure.text)


_LOGIN: Final = re.compile(r'://[^"\s]*@')
"""In a URI. A slash in a password should be escaped, and may not be."""


def _without_logins(outcome: VerbResult) -> VerbResult:
    if not isinstance(outcome, Rows):
        return outcome
    items = ({name: _masked(value) for name, value in item.items()} for item in outcome.items)
    return dataclasses.replace(outcome, items=items if outcome.streamed else list(items))


def _masked(value: object) -> object:
    return _LOGIN.sub("://...@", value) if isinstance(value, str) else value


def _reported(call: VerbCall) -> Iterator[tuple[Verb, str]]:
    for verb in (*status.VERBS, status.ENVIRONMENT, *connections.LISTS):
        yield verb, call.vhost
    for vhost in call.api.get("vhosts", columns="name"):
        for name in REPORTED_OF_A_VHOST:
            yield VERBS[name], vhost["name"]
    yield VERBS["list_users"], call.vhost
    yield VERBS["list_global_parameters"], call.vhost


def show_help(call: VerbCall) -> Text:
    if not call.arguments:
        return Text(command_line.verb_overview(GROUPS, sys.stdout))
    verb = VERBS.get(call.arguments[0])
    if verb is None:
        raise Failure(USAGE, f"Error:\n\nCommand '{call.arguments[0]}' not found.")
    return Text(command_line.verb_page(verb, sys.stdout))


def autocomplete(call: VerbCall) -> Text | None:
    prefix = call.arguments[0] if call.arguments else ""
    names = sorted(name for name in VERBS if name.startswith(prefix))
    return Text("\n".join(names)) if names else None


REPORTED_OF_A_VHOST: Final = (
    "list_queues",
    "list_exchanges",
    "list_bindings",
    "list_permissions",
    "list_policies",
    "list_operator_policies",
    "list_parameters",
)
GROUPS: Final[dict[str, list[Verb]]] = {
    "Help": [
        Verb(
            "autocomplete",
            "Prints the verbs that begin with a prefix",
            autocomplete,
            "[prefix]",
            "autocomplete list_",
            "",
            (0, 1),
        ),
        Verb("help", "Prints how to use a verb, or all verbs", show_help, "[<command>]", "help set_policy", "", (0, 1)),
        nodes.VERSION,
    ],
    "Nodes": [*nodes.VERBS, *membership.NODE_VERBS],
    "Cluster": [*membership.CLUSTER_VERBS, status.VERBS[1]],
    "Replication": queues.REPLICATION,
    "Users": users.VERBS,
    "Access Control": users.PERMISSION_VERBS,
    "Monitoring, observability and health checks": [
        queues.LIST,
        queues.LIST_UNRESPONSIVE,
        *topology.VERBS,
        *queues.STREAM_VERBS,
        *connections.LISTS,
        nodes.PING,
        status.VERBS[0],
        Verb(
            "report",
            "Prints the status and all lists, for a bug report",
            report,
            "",
            "report > report.txt",
            "Reporting server status of node {node} ...",
        ),
        *health_checks.VERBS,
        hardening.VERB,
    ],
    "Parameters": parameters.VERBS,
    "Policies": parameters.POLICY_VERBS,
    "Shovels": bridges.SHOVEL_VERBS,
    "Federation": bridges.FEDERATION_VERBS,
    "Virtual hosts": vhosts.VERBS,
    "Configuration and Environment": [status.ENVIRONMENT, *nodes.SETTINGS],
    "Definitions": definitions.VERBS,
    "Operations": connections.VERBS,
    "Queues": [queues.ADD, *queues.VERBS],
}
VERBS: Final[dict[str, Verb]] = {verb.name: verb for verbs in GROUPS.values() for verb in verbs}
