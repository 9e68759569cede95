"""Of several URIs the one that answers is known whole, and shown without its login."""

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost
from tests.support.deadlines import run
from tests.support.node_process import NodeProcess
from warren.bridges.connections import ReachedBroker, connect_first, connect_uri


def test_of_two_uris_that_differ_in_their_login_alone_the_one_that_led_there_is_remembered(near: NodeProcess) -> None:
    right = url_of(near)
    wrong = right.replace("guest:guest", "guest:wrong")

    async def scenario() -> ReachedBroker:
        host = LoneHost()
        reached = await connect_first(host, [wrong, right], "/", "test", "")
        # a bridge that connects once more does it in the same way
        async with reached.connection, await connect_uri(host, reached.whole_uri, "/", "test", ""):
            return reached

    reached = run(scenario())
    assert reached.whole_uri == right
    assert reached.uri == right.replace("guest:guest@", "")
    assert "guest" not in repr(reached)
