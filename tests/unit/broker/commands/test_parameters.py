"""Parameters of components, and global ones."""

from tests.support.core_driver import Core
from tests.unit.broker.refusals import refusal
from warren.broker.commands.requests import ClearGlobalParameter, ClearParameter, SetGlobalParameter, SetParameter
from warren.broker.policies.parameters import Parameter, ParameterComponent
from warren.wire.frames import PROTOCOL_HEADER
from warren.wire.methods import ConnectionStart


class Even(ParameterComponent):
    """Takes even numbers."""

    def refusals(self, parameter: Parameter) -> list[str]:
        value = parameter.value
        return [] if isinstance(value, int) and value % 2 == 0 else [f"{value} in {parameter.name}", "not even"]


def test_an_unknown_component_is_refused() -> None:
    refused = refusal(Core(), SetParameter("/", "nosuch", "n", {}))
    assert refused == ("bad_request", "Validation failed\n\ncomponent nosuch not found\n")


def test_policies_are_not_set_as_parameters() -> None:
    for component in ("policy", "operator_policy"):
        refused = refusal(Core(), SetParameter("/", component, "n", {}))
        assert refused == ("bad_request", "policies may not be set using this method")


def test_a_component_validates_its_parameters() -> None:
    core = Core()
    core.broker.parameters.components["even"] = Even()
    assert refusal(core, SetParameter("/", "even", "n", 3)) == (
        "bad_request",
        "Validation failed\n\n3 in n\nnot even\n",
    )
    assert refusal(core, SetParameter("nowhere", "even", "n", 2)) == ("not_found", "vhost_not_found")
    core.command(SetParameter("/", "even", "n", 2))
    assert core.broker.policies.parameters["/", "even", "n"].value == 2
    core.command(ClearParameter("/", "even", "n"))
    assert core.broker.policies.parameters == {}
    assert refusal(core, ClearParameter("/", "even", "n")) == ("not_found", "Parameter does not exist")


def test_a_parameter_that_says_otherwise_than_it_was_seen_to_stays() -> None:
    core = Core()
    core.broker.parameters.components["even"] = Even()
    core.command(SetParameter("/", "even", "n", 2))
    seen = core.broker.policies.parameters["/", "even", "n"]
    core.command(SetParameter("/", "even", "n", 4))
    cleared = ClearParameter("/", "even", "n", as_seen=seen)
    assert refusal(core, cleared) == ("not_found", "Parameter does not exist")
    assert core.broker.policies.parameters["/", "even", "n"].value == 4
    core.command(SetParameter("/", "even", "n", 2))
    core.command(cleared)
    assert core.broker.policies.parameters == {}


def test_a_global_parameter_may_be_anything() -> None:
    core = Core()
    for value in (None, 1, "text", [1], {"a": {}}):
        core.command(SetGlobalParameter("g", value))
        assert core.broker.policies.global_parameters["g"] == value
    core.command(ClearGlobalParameter("g"))
    assert refusal(core, ClearGlobalParameter("g")) == ("not_found", "Parameter does not exist")


def test_clients_get_the_name_of_the_cluster() -> None:
    core = Core()
    assert cluster_name(core) == "warren@localhost"
    core.command(SetGlobalParameter("cluster_name", "sales"))
    assert cluster_name(core) == "sales"
    core.command(SetGlobalParameter("cluster_name", 5))
    assert cluster_name(core) == "warren@localhost"


def cluster_name(core: Core) -> object:
    client = core.connect()
    client.read(PROTOCOL_HEADER)
    (start,) = client.methods()
    assert isinstance(start, ConnectionStart)
    return start.server_properties["cluster_name"]
