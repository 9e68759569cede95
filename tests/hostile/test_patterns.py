"""Users who supply regular expressions that a backtracking engine would never finish: others are served meanwhile, and
the node comes back after a restart.

Not here: which expressions there are, and what they match (`tests/unit/broker/model/test_name_pattern.py`).
"""

from urllib.parse import quote

from tests.admin.calling import Api
from tests.hostile.bystanders import Bystanders
from tests.support.amqp_client import Connection
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

NAME = "pol" + "a" * 60 + "!"
REGRESSIVE = "^((.|[^b]){0,10}){0,10}\x00"


def test_a_name_filter_that_backtracks_for_ever_costs_others_nothing(node: NodeProcess) -> None:
    api = Api(node)
    Operator(node.addresses["http"]).user("watcher", "management")
    Operator(node.addresses["http"]).permit("watcher")
    with Bystanders(node) as pair:
        for expression in (REGRESSIVE, "^(a+)+$", "(.*)*(.*)*x"):
            heard = api.get(
                f"exchanges/%2F?page=1&use_regex=true&name={quote(expression)}", user=("watcher", "watcher")
            )
            assert (heard.status, heard.json["filtered_count"]) == (200, 0)
        pair.wait_for_rounds(20)


def test_a_policy_that_backtracks_for_ever_costs_others_nothing_and_does_not_stop_a_restart(node: NodeProcess) -> None:
    operator = Operator(node.addresses["http"])
    client = Connection.opened(node.amqp)
    client.channel().call("queue.declare", queue=NAME, durable=True)
    with Bystanders(node) as pair:
        operator.policy("slow", "^pol(a+)+$", {"max-length": 5})
        operator.policy("fits", "^pol(a+)+!$", {"max-length": 7})
        operator.permit("guest", "^(?!(x+x+)+y).*", "(.*)*", "(.|..)*")
        client.channel().call("queue.declare", queue=NAME + "2", durable=True)
        pair.wait_for_rounds(20)
    client.close()
    node.restart()
    row = Api(node).read(f"queues/%2F/{quote(NAME)}")
    assert (row["policy"], row["effective_policy_definition"]) == ("fits", {"max-length": 7})
