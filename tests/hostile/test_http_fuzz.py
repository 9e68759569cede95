"""A short run of made-up HTTP requests, without a login and with one: nothing is disturbed, no answer is malformed.

Not here: the long run (`bench/fuzz --door http`), requests that conform to the description of the API
(`tests/admin/test_fuzz.py`).
"""

import random

from bench.fuzzing.http_door import HttpWorld
from bench.fuzzing.http_requests import is_spared, made_request

REQUESTS = 1280


def test_made_up_requests_disturb_nothing() -> None:
    world = HttpWorld(seed=20, number=0, requests=REQUESTS)
    world.run()
    assert world.sent > REQUESTS // 2
    assert {200, 400, 401, 404, 405} <= set(world.statuses)


def test_the_requests_are_those_of_the_seed() -> None:
    one, other = ([made_request(draw, "administrator") for _ in range(200)] for draw in map(random.Random, (7, 7)))
    assert one == other
    assert any(request.broken for request in one)


def test_no_request_ends_the_node_or_touches_the_pair() -> None:
    assert is_spared("DELETE", "/api/vhosts/%2F")
    assert is_spared("DELETE", "/api/vhosts/%252F")
    assert is_spared("PUT", "/api/users/guest")
    assert is_spared("POST", "/api/nodes/hare@here/stop")
    assert not is_spared("GET", "/api/vhosts/%2F")
    assert not is_spared("DELETE", "/api/vhosts/fuzz")
