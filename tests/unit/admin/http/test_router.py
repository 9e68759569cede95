"""From raw paths to resources and names."""

import pytest

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse
from warren.admin.http.router import Resource, Router, administrator, segments_of


async def nothing(call: ApiRequest) -> ApiResponse:
    return ApiResponse(200)


def router_of(*templates: str) -> tuple[Router, dict[str, Resource]]:
    router = Router()
    resources = {template: Resource(None, {"GET": nothing}) for template in templates}
    for template, resource in resources.items():
        router.add(template, resource)
    return router, resources


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        (b"/api/queues/%2F/a%2Fb", ["api", "queues", "/", "a/b"]),
        (b"/api/queues/", ["api", "queues"]),
        (b"/", [""]),
        (b"/a/../b/.", ["a", "..", "b", "."]),
        (b"/a//b", ["a", "", "b"]),
        (b"/%F0%9F%90%87", ["\N{RABBIT}"]),
        (b"/%FF+%25", ["\udcff+%"]),
        (b"/%2e%2E/%00", ["..", "\0"]),
    ],
)
def test_each_segment_is_decoded_by_itself_and_once(path: bytes, segments: list[str]) -> None:
    assert segments_of(path) == segments


@pytest.mark.parametrize("path", [b"/100%", b"/%2", b"/%zz", b"/a%%2F"])
def test_a_percent_sign_that_escapes_nothing_is_no_path(path: bytes) -> None:
    assert segments_of(path) is None


def test_names_in_a_template_take_their_values_from_the_path() -> None:
    router, resources = router_of("/api/queues", "/api/queues/{vhost}", "/api/queues/{vhost}/{name}")
    assert router.find(["api", "queues"]) == (resources["/api/queues"], {})
    found = router.find(["api", "queues", "/", ".."])
    assert found == (resources["/api/queues/{vhost}/{name}"], {"vhost": "/", "name": ".."})


def test_a_literal_goes_before_a_name_and_a_name_is_tried_when_the_literal_leads_nowhere() -> None:
    router, resources = router_of("/users/{user}", "/users/new", "/users/{user}/limits")
    assert router.find(["users", "new"]) == (resources["/users/new"], {})
    assert router.find(["users", "new", "limits"]) == (resources["/users/{user}/limits"], {"user": "new"})


@pytest.mark.parametrize("segments", [[""], ["api"], ["api", "queues", "a", "b", "c"], ["API", "queues"]])
def test_a_path_that_no_template_fits_leads_nowhere(segments: list[str]) -> None:
    router, _ = router_of("/api/queues", "/api/queues/{vhost}/{name}")
    assert router.find(segments) is None


def test_methods_of_one_path_may_demand_different_levels() -> None:
    resource = Resource(None, {"GET": nothing}).also(administrator, {"PUT": nothing, "DELETE": nothing})
    assert resource.allowed() == "HEAD, GET, PUT, DELETE, OPTIONS"
    assert [resource.endpoints[method].level for method in ("GET", "DELETE")] == [None, administrator]


def test_a_resource_that_cannot_be_read_does_not_offer_head() -> None:
    resource = Resource(None, {"POST": nothing})
    assert resource.allowed() == "POST, OPTIONS"
    assert resource.endpoint("HEAD") is None
    assert Resource(None, {"GET": nothing}).endpoint("HEAD") is not None
