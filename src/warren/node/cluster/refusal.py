"""Why an operator's order about membership is not carried out, with the word that RabbitMQ has for it.

Not here: who finds that (`node.cluster.life`, `node.cluster.stopped_member`).
"""


class MembershipRefused(Exception):
    """Nothing was changed. `code` is for scripts; it is empty where RabbitMQ has no word."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def not_in_the_cluster() -> MembershipRefused:
    return MembershipRefused("not_a_cluster_node", "The node selected is not in the cluster.")


def only_disc_node() -> MembershipRefused:
    return MembershipRefused(
        "resetting_only_disc_node",
        "You cannot reset a node when it is the only disc node in a cluster. Please convert another node of the "
        "cluster to a disc node first.",
    )


def nobody_online(reason: str) -> MembershipRefused:
    return MembershipRefused(
        "no_online_cluster_nodes",
        f"Could not find a majority of the cluster's disc nodes online ({reason}). If the others are gone for good, "
        "use 'force_reset', or 'forget_cluster_node --offline' on a disc node that is to stay.",
    )


def lives(name: str) -> MembershipRefused:
    return MembershipRefused(
        "", f"RabbitMQ on node {name} must be stopped with 'warren ctl -n {name} stop_app' before it can be removed"
    )
