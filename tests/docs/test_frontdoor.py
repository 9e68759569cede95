"""The page about the load balancer (docs/frontdoor.md): its deployment is valid, and its table of keys is complete."""

from dataclasses import fields

from tests.docs.pages import DOCS, codes, read_page
from warren.cli.ha.deployment import FRONT_KINDS, Balancer, HaproxySettings, KeepalivedSettings
from warren.cli.ha.deployment_file import parse_deployment

PAGE = read_page(DOCS / "frontdoor.md")


def test_the_deployment_of_the_page_can_be_used() -> None:
    [block] = PAGE.blocks_in("toml")
    told = parse_deployment(block.text, "the page")
    assert [node.name for node in told.nodes] == ["warren@n1", "warren@n2", "warren@n3"]


def test_the_table_of_keys_is_that_of_the_code() -> None:
    documented = [name for row in PAGE.rows("key", "default", "what it says") for name in codes(row[0])]
    known = [
        "virtual_address",
        "proxy_protocol",
        "clients",
        "operators",
        "program",
        *(f"ports.{kind}" for kind in FRONT_KINDS),
        *(f"balancers.{each.name}" for each in fields(Balancer)),
        *(f"nodes.{key}" for key in ("name", "address", "kind", *FRONT_KINDS, "peer", "metrics")),
        *(f"haproxy.{each.name}" for each in fields(HaproxySettings)),
        *(f"keepalived.{each.name}" for each in fields(KeepalivedSettings)),
    ]
    assert sorted(documented) == sorted(known)


def test_the_defaults_of_the_page_are_those_of_the_code() -> None:
    for prefix, settings in (("haproxy", HaproxySettings()), ("keepalived", KeepalivedSettings())):
        for key, default, _ in PAGE.rows("key", "default", "what it says"):
            name = codes(key)[0]
            if name.startswith(f"{prefix}."):
                assert default.strip("`") == str(getattr(settings, name.partition(".")[2])), name
