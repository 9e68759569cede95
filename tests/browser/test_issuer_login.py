"""Logging in to the pages at an issuer: OpenID Connect with PKCE, renewal, expiry and logging out."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.support.http_calls import call_api
from tests.support.issuer import Issuer
from tests.support.node_process import NodeProcess

SCOPES = "openid rabbitmq.tag:administrator rabbitmq.configure:*/* rabbitmq.write:*/*/* rabbitmq.read:*/*/*"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def node(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    lines = [
        "auth_backends.1 = oauth2",
        "auth_oauth2.resource_server_id = rabbitmq",
        f"auth_oauth2.issuer = {issuer.url}",
        "management.oauth_enabled = true",
        "management.oauth_client_id = pages",
        f"management.oauth_scopes = {SCOPES}",
        "management.disable_basic_auth = true",
        "",
    ]
    made = NodeProcess(tmp_path_factory.mktemp("node"), configuration="\n".join(lines))
    yield made
    made.stop()


@pytest.fixture
def window(browser: Browser, node: NodeProcess, issuer: Issuer) -> Iterator[Visitor]:
    host, port = node.addresses["http"]
    made = Visitor(browser, Site(f"http://{host}:{port}/", node.amqp))
    made.issuer = issuer.url
    issuer.life_s = 3600
    yield made
    made.close()


def log_in(window: Visitor, page: str = "") -> None:
    window.page.goto(f"{window.site.url}{page}")
    window.page.get_by_role("button", name="Log in at 127.0.0.1").click()
    window.page.get_by_label("Account").fill("carol")
    window.page.get_by_role("button", name="Sign in").click()
    expect(window.page.locator(".who")).to_contain_text("carol (administrator)")


def test_a_user_logs_in_at_the_issuer_and_returns_to_the_page(window: Visitor) -> None:
    log_in(window, "#/queues")
    expect(window.heading).to_have_text("Queues")
    assert "code=" not in window.page.url
    window.page.reload()
    expect(window.page.locator(".who")).to_contain_text("carol (administrator)")


def test_the_pages_offer_no_password_form_if_passwords_are_switched_off(window: Visitor, node: NodeProcess) -> None:
    window.page.goto(window.site.url)
    expect(window.page.get_by_role("button", name="Log in at 127.0.0.1")).to_be_visible()
    expect(window.page.get_by_label("Password")).to_have_count(0)
    answer = call_api(node.addresses["http"], "GET", "/api/whoami", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    assert (answer.status, answer.document["reason"]) == (401, "HTTP access denied: basic auth disabled")
    assert "www-authenticate" not in answer.headers


def test_the_content_security_policy_allows_the_issuer_and_nothing_else(node: NodeProcess, issuer: Issuer) -> None:
    policy = call_api(node.addresses["http"], "GET", "/").headers["content-security-policy"]
    assert policy == (
        f"default-src 'self'; connect-src 'self' {issuer.url}; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )


def test_a_token_is_renewed_before_it_expires(window: Visitor, issuer: Issuer) -> None:
    issuer.life_s = 4
    log_in(window)
    first = window.page.evaluate("sessionStorage.getItem('warren.authorization')")
    window.page.wait_for_function("first => sessionStorage.getItem('warren.authorization') !== first", arg=first)
    window.go("queues")
    expect(window.heading).to_have_text("Queues")


def test_a_login_that_cannot_be_renewed_ends_with_a_sentence(window: Visitor, issuer: Issuer) -> None:
    issuer.life_s = 4
    log_in(window)
    issuer.oauth2.refresh_tokens.clear()
    with window.refused(400):
        window.set_pace(1)
        with window.refused(401):
            expect(window.page.get_by_role("status").first).to_have_text("Your login has expired. Please log in again.")
    expect(window.page.get_by_role("button", name="Log in at 127.0.0.1")).to_be_visible()


def test_logging_out_ends_the_session_here_and_at_the_issuer(window: Visitor) -> None:
    log_in(window)
    with window.page.expect_request("**/logout?*") as left:
        window.page.get_by_role("button", name="Log out").click()
    assert "id_token_hint=" in left.value.url
    expect(window.page.get_by_role("button", name="Log in at 127.0.0.1")).to_be_visible()
    assert window.page.evaluate("sessionStorage.length") == 0


def test_an_answer_to_a_login_that_this_tab_did_not_begin_is_refused(window: Visitor) -> None:
    window.page.goto(f"{window.site.url}?code=stolen&state=guessed")
    expect(window.page.get_by_role("status").first).to_have_text("The login was not begun in this tab.")
    assert "code=" not in window.page.url
