"""Each accessibility rule finds a page that breaks it."""

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import broken_rules
from tests.browser.visitor import Visitor

MAIN = "document.querySelector('main')"
FLAWS = {
    "has no name": f"{MAIN}.append(document.createElement('input'))",
    "image without alt": "document.querySelector('.brand img').removeAttribute('alt')",
    "heading skips a level": f"{MAIN}.append(Object.assign(document.createElement('h4'), {{textContent: 'deep'}}))",
    "the page does not begin with its one h1": "document.querySelector('h1').remove()",
    "id used twice": "document.querySelector('h1').id = 'main'",
    "leads nowhere": "document.querySelector('h1').setAttribute('aria-describedby', 'nowhere')",
    "table without caption": "document.querySelector('caption').remove()",
    "th without scope": "document.querySelector('th').removeAttribute('scope')",
    "contrast of": "document.querySelector('h1').style.color = 'rgb(128 128 128 / 0.5)'",
    "target of": "document.querySelector('.who button').style.cssText = 'min-height: 0; height: 12px; padding: 0'",
}


@pytest.mark.parametrize("rule", FLAWS)
def test_a_rule_finds_what_breaks_it(visitor: Visitor, rule: str) -> None:
    expect(visitor.table("Nodes").locator("tbody tr")).to_have_count(1)
    assert broken_rules(visitor.page) == []
    visitor.page.evaluate(f"() => {{ {FLAWS[rule]} }}")
    assert [found for found in broken_rules(visitor.page) if rule in found]
