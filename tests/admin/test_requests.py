"""HTTP requests: authentication, methods, paths, origins and sizes."""

import base64
import socket

import pytest

from tests.admin.calling import GUEST, Api

REALM = 'Basic realm="RabbitMQ Management"'


def test_a_request_without_a_login_is_asked_for_one(api: Api) -> None:
    heard = api.get("overview", user=None)
    assert (heard.status, heard.body) == (401, b"")
    assert heard.headers["www-authenticate"] == REALM


@pytest.mark.parametrize("user", [("guest", "wrong"), ("guest", ""), ("nobody", "guest"), ("", "")])
def test_a_wrong_login_is_refused_without_saying_what_is_wrong(api: Api, user: tuple[str, str]) -> None:
    heard = api.get("overview", user=user)
    assert heard.status == 401
    assert heard.json == {"error": "not_authorized", "reason": "Login failed"}
    assert heard.headers["www-authenticate"] == REALM


@pytest.mark.parametrize(("header", "status"), [("Bearer x", 401), ("Basic !!!", 400), ("Digest x", 400)])
def test_another_authorization_is_refused(api: Api, header: str, status: int) -> None:
    assert api.get("overview", user=None, headers={"authorization": header}).status == status


def test_an_unknown_path_is_404_for_every_user(api: Api) -> None:
    for user in (GUEST, None):
        heard = api.get("nosuch", user=user)
        assert (heard.status, heard.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "overview", "HEAD, GET, OPTIONS"),
        ("PATCH", "overview", "HEAD, GET, OPTIONS"),
        ("GET", "login", "POST, OPTIONS"),
        ("POST", "/index.html", "HEAD, GET, OPTIONS"),
    ],
)
def test_a_wrong_method_is_answered_with_the_right_ones_before_a_login(
    api: Api, method: str, path: str, allowed: str
) -> None:
    heard = api.call(method, path, user=None)
    assert (heard.status, heard.headers["allow"], heard.body) == (405, allowed, b"")


def test_options_need_no_login(api: Api) -> None:
    heard = api.call("OPTIONS", "overview", user=None)
    assert (heard.status, heard.headers["allow"], heard.body) == (200, "HEAD, GET, OPTIONS", b"")


def test_head_is_get_without_the_body(api: Api) -> None:
    read, heard = api.get("whoami"), api.call("HEAD", "whoami")
    assert (heard.status, heard.body) == (200, b"")
    assert heard.headers["content-length"] == str(len(read.body))


def test_a_login_form_is_judged_and_nothing_is_remembered(api: Api) -> None:
    good = api.call("POST", "login", b"username=guest&password=guest", user=None)
    assert (good.status, good.json) == (200, "ok")
    assert "set-cookie" not in good.headers
    assert api.call("POST", "login", b"username=guest&password=x", user=None).status == 401
    assert api.call("POST", "login", b"x=1", user=None).status == 401


# -- headers


@pytest.mark.parametrize("path", ["/api/whoami", "/", "/app/main.js", "/api/nosuch", "/api/overview"])
def test_every_answer_forbids_what_no_page_needs(api: Api, path: str) -> None:
    headers = api.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_an_answer_is_json_and_not_cached(api: Api) -> None:
    headers = api.get("whoami").headers
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert headers["vary"] == "accept, accept-encoding, origin"
    assert "date" in headers


# -- pages


def test_the_pages_are_served_without_a_login(api: Api) -> None:
    heard = api.get("/", user=None)
    assert heard.status == 200
    assert heard.headers["content-type"].startswith("text/html")
    assert api.get("/app/main.js", user=None).headers["content-type"].startswith("text/javascript")
    assert api.get("/styles/layout.css", user=None).headers["content-type"].startswith("text/css")


def test_a_page_that_did_not_change_is_not_sent_again(api: Api) -> None:
    tag = api.get("/app/main.js").headers["etag"]
    again = api.get("/app/main.js", headers={"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")
    assert api.get("/app/main.js", headers={"if-none-match": f'"older", W/{tag}'}).status == 304
    assert api.get("/app/main.js", headers={"if-none-match": '"other"'}).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2F..%2F..%2Fetc%2Fpasswd",
        "/app/../../server.py",
        "/app/%2e%2e/%2e%2e/server.py",
        "/app/main.js%00.html",
        "//etc/passwd",
        "/app",
        "/app/",
        "/%2Fetc/passwd",
        "/app\\main.js",
        "/app/%252e%252e/index.html",
        "/app/..%5c..%5cserver.py",
        "/app/%c0%ae%c0%ae/%c0%ae%c0%ae/server.py",
        "/app/%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/app/" + "a/" * 10_000,
    ],
)
def test_nothing_but_the_pages_is_served(api: Api, path: str) -> None:
    assert api.get(path, user=None).status == 404


def test_the_api_itself_leads_to_the_pages(api: Api) -> None:
    heard = api.get("/api", user=None)
    assert (heard.status, heard.headers["location"]) == (301, "/")


# -- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://localhost:1", "sec-fetch-site": "cross-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(api: Api, headers: dict[str, str]) -> None:
    heard = api.call("DELETE", "auth/attempts/hare@here", headers=headers)
    assert (heard.status, heard.json["error"]) == (403, "forbidden")


def test_a_page_of_this_node_and_a_client_that_is_no_browser_may(api: Api) -> None:
    own = f"http://{api.host}:{api.port}"
    for headers in ({}, {"origin": own}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
        assert api.call("DELETE", "auth/attempts/hare@here", headers=headers).status == 204


def test_other_sites_get_no_cors_headers(api: Api) -> None:
    headers = api.get("whoami", headers={"origin": "https://evil.example"}).headers
    assert not [name for name in headers if name.startswith("access-control-")]


# -- size


def test_a_body_that_is_announced_too_large_is_refused_unread(api: Api) -> None:
    with socket.create_connection((api.host, api.port), timeout=20) as client:
        client.sendall(b"POST /api/login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 413 ")


def test_the_refusal_of_a_large_file_names_the_setting(api: Api) -> None:
    login = b"authorization: Basic " + base64.b64encode(b"guest:guest")
    with socket.create_connection((api.host, api.port), timeout=20) as client:
        client.sendall(
            b"POST /api/definitions HTTP/1.1\r\nhost: localhost\r\n%s\r\ncontent-length: 20000001\r\n\r\n" % login
        )
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"management.http.max_body_size" in said


@pytest.mark.parametrize(
    ("path", "user", "bytes_max"), [("login", None, 4096), ("queues/%2F/q/get", GUEST, 65536)], ids=["before", "after"]
)
def test_an_ordinary_body_is_small(api: Api, path: str, user: tuple[str, str] | None, bytes_max: int) -> None:
    assert api.call("POST", path, b" " * bytes_max, user).status in (400, 401)
    refused = api.call("POST", path, b" " * (bytes_max + 1), user)
    assert (refused.status, refused.reason) == (413, f"the body is larger than {bytes_max} bytes")


def test_a_query_has_a_limited_number_of_fields(api: Api) -> None:
    assert api.get("queues?" + "a=b&" * 50).status == 200
    refused = api.get("queues?" + "a=b&" * 10_000)
    assert (refused.status, refused.reason) == (400, "there are more than 100 fields")


def test_a_body_that_turns_out_too_large_is_refused(api: Api) -> None:
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection((api.host, api.port), timeout=20) as client:
        client.sendall(b"POST /api/login HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        said = b""
        try:
            for _ in range(40):
                client.sendall(chunk)
        except OSError:
            pass
        try:
            while received := client.recv(65536):
                said += received
        except OSError:
            pass
    # the rest of the body may have reset the connection before the answer was read
    assert said == b"" or said.startswith(b"HTTP/1.1 413 ")
    assert api.get("whoami").status == 200


def test_health_checks_answer(api: Api) -> None:
    port = api.port
    assert api.read("health/checks/alarms") == {"status": "ok"}
    assert api.read("health/checks/local-alarms") == {"status": "ok"}
    assert api.read("health/checks/virtual-hosts") == {"status": "ok"}
    assert api.read(f"health/checks/port-listener/{port}") == {"status": "ok", "port": port}
    assert api.read("health/checks/protocol-listener/amqp091") == {"status": "ok", "protocol": "amqp"}
    assert api.read("health/checks/certificate-expiration/1/weeks") == {"status": "ok"}
    assert api.read("health/checks/node-is-quorum-critical") == {"status": "ok", "reason": "single node cluster"}
    assert api.read("healthchecks/node/hare@here") == {"status": "ok"}
    missing = api.get("health/checks/port-listener/1")
    assert missing.status == 503
    assert (missing.json["status"], missing.json["reason"], missing.json["missing"]) == (
        "failed",
        "No active listener",
        1,
    )
    assert api.get("health/checks/protocol-listener/mqtt").status == 503
    assert api.get("health/checks/port-listener/abc").reason == "Invalid port"
    assert api.get("health/checks/certificate-expiration/x/days").reason == "Invalid expiration value."
    assert api.get("health/checks/certificate-expiration/1/eons").status == 400
    assert api.get("healthchecks/node/other@there").status == 404


def test_the_background_tasks_of_a_node_do_not_fail(api: Api) -> None:
    assert api.get("health/checks/background-tasks").json == {"status": "ok"}


def test_a_feature_flag_that_can_be_enabled_is_enabled(api: Api) -> None:
    flags = {flag["name"]: flag["state"] for flag in api.get("feature-flags").json}
    assert "stream_queue" in flags
    for name in flags:
        assert api.call("PUT", f"feature-flags/{name}/enable", {"name": name}).status == 204
    assert set(flags.values()) == {"enabled"}
