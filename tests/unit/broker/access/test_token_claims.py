"""What the claims of a token mean."""

import pytest

from warren.broker.access.token_claims import Claims, ClaimsRefused, TokenGrant, grant_of
from warren.broker.model.settings import OAuth2Settings

ID = "rabbitmq"


def granted(settings: OAuth2Settings | None = None, **claims: object) -> TokenGrant:
    whole: Claims = {"aud": ID, "scope": "", **claims}
    return grant_of({name: value for name, value in whole.items() if value is not None}, settings or OAuth2Settings(ID))


@pytest.mark.parametrize("audience", [ID, f"other {ID}", [ID], ["other", ID]])
def test_a_token_is_for_this_broker_if_its_audience_names_it(audience: object) -> None:
    assert granted(aud=audience).scopes == []


@pytest.mark.parametrize("audience", [None, "", "other", "rabbitmq2", [], [["rabbitmq"]], {"rabbitmq": 1}, 7, True])
def test_a_token_for_another_audience_is_refused(audience: object) -> None:
    with pytest.raises(ClaimsRefused, match="'rabbitmq' is not in the token's aud"):
        granted(aud=audience)
    assert granted(OAuth2Settings(ID, verify_aud=False), aud=audience).scopes == []


@pytest.mark.parametrize("issuer", [None, "https://evil.example", ["https://id.example"]])
def test_a_token_of_another_issuer_is_refused_if_the_issuer_is_known(issuer: object) -> None:
    known = OAuth2Settings(ID, issuer="https://id.example")
    with pytest.raises(ClaimsRefused, match="another issuer"):
        granted(known, iss=issuer)
    assert granted(known, iss="https://id.example").user == ""


@pytest.mark.parametrize("scope", ["rabbitmq.read:*/* openid  rabbitmq.tag:x", ["rabbitmq.read:*/*", "rabbitmq.tag:x"]])
def test_scopes_are_a_text_or_a_list_and_lose_their_prefix(scope: object) -> None:
    found = granted(scope=scope)
    assert (found.scopes, found.tags) == (["read:*/*", "tag:x"], ["x"])


@pytest.mark.parametrize("scope", [None, 7, {"a": 1}, True])
def test_a_token_without_scopes_is_refused(scope: object) -> None:
    with pytest.raises(ClaimsRefused, match="scope"):
        granted(scope=scope)


def test_scopes_of_other_servers_are_dropped() -> None:
    assert granted(scope="read:*/* other.read:*/* rabbitmqread:*/*").scopes == []


@pytest.mark.parametrize(("prefix", "scope"), [("", "read:*/*"), ("api://", "api://read:*/*")])
def test_the_prefix_can_be_chosen(prefix: str, scope: str) -> None:
    assert granted(OAuth2Settings(ID, scope_prefix=prefix), scope=scope).scopes == ["read:*/*"]


@pytest.mark.parametrize(
    "claim",
    [
        "rabbitmq.read:*/* other.x",
        ["rabbitmq.read:*/*"],
        {"rabbitmq": "read:*/*"},
        {"rabbitmq": ["read:*/*"], "other": ["write:*/*"]},
    ],
)
def test_another_claim_may_have_more_scopes(claim: object) -> None:
    settings = OAuth2Settings(ID, additional_scopes_key="roles")
    assert granted(settings, scope="rabbitmq.tag:x", roles=claim).scopes == ["tag:x", "read:*/*"]
    assert granted(settings, scope=None, roles=claim).scopes == ["read:*/*"]
    assert granted(scope="rabbitmq.tag:x", roles=claim).scopes == ["tag:x"]


@pytest.mark.parametrize("claim", [None, 7, {"other": "read:*/*"}, {"rabbitmq": 7}, [7]])
def test_another_claim_of_a_wrong_type_has_no_scopes(claim: object) -> None:
    assert granted(OAuth2Settings(ID, additional_scopes_key="roles"), roles=claim).scopes == []


@pytest.mark.parametrize("scopes", ["rabbitmq.read:*/*", ["rabbitmq.read:*/*"]])
def test_keycloak_has_scopes_in_permissions(scopes: object) -> None:
    permissions = [{"rsid": "1", "scopes": scopes}, {"rsname": "none"}, "odd"]
    assert granted(scope=None, authorization={"permissions": permissions}).scopes == ["read:*/*"]


@pytest.mark.parametrize("authorization", [7, {}, {"permissions": 7}, {"permissions": [{"scopes": 7}]}])
def test_odd_permissions_have_no_scopes(authorization: object) -> None:
    assert granted(authorization=authorization).scopes == []


def test_an_alias_stands_for_several_scopes() -> None:
    aliases = {"admin": ["rabbitmq.tag:administrator", "rabbitmq.read:*/*"], "rabbitmq.reader": ["rabbitmq.read:a/*"]}
    settings = OAuth2Settings(ID, scope_aliases=aliases)
    assert granted(settings, scope="admin").scopes == ["tag:administrator", "read:*/*"]
    assert granted(settings, scope="rabbitmq.reader").scopes == ["reader", "read:a/*"]


def test_an_alias_of_an_alias_is_not_resolved() -> None:
    aliases = {"a": ["b"], "b": ["rabbitmq.read:*/*"]}
    assert granted(OAuth2Settings(ID, scope_aliases=aliases), scope="a").scopes == []


@pytest.mark.parametrize(
    ("claims", "user"),
    [
        ({"client_id": "app", "sub": "s"}, "app"),
        ({"sub": "s"}, "s"),
        ({"client_id": "", "sub": "s"}, "s"),
        ({"client_id": 7, "sub": ["s"]}, ""),
        ({}, ""),
    ],
)
def test_the_user_is_the_client_or_the_subject(claims: dict[str, object], user: str) -> None:
    assert granted(**claims).user == user


def test_preferred_claims_name_the_user_first() -> None:
    settings = OAuth2Settings(ID, username_claims=["email", "user_name"])
    assert granted(settings, user_name="u", sub="s").user == "u"
    assert granted(settings, sub="s").user == "s"
