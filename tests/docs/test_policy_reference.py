"""The page about policies, compared with the code, both ways."""

import re

from tests.docs.pages import DOCS, codes, read_page
from warren.broker.policies.keys import CHECKS, KNOWN_KEYS, OPERATOR_KEYS, definition_refusal
from warren.broker.policies.validation import APPLY_TO

PAGE = read_page(DOCS / "policies.md")
NUMBERS = ("0 or more", "1 or more")


def test_the_table_of_keys_is_that_of_the_code() -> None:
    documented = [key for row in PAGE.rows("key", "value", "for", "meaning") for key in codes(row[0])]
    assert sorted(documented) == sorted(KNOWN_KEYS)


def test_every_documented_value_is_accepted_and_the_number_below_the_least_is_not() -> None:
    checked = 0
    for row in PAGE.rows("key", "value", "for", "meaning"):
        least = next((int(words[0]) for words in NUMBERS if words in row[1]), None)
        for key in [key for key in codes(row[0]) if key in CHECKS]:
            values: list[object] = [*codes(row[1])] if least is None else [least]
            for value in values if " of " not in row[1] else []:
                assert definition_refusal({key: value}, False) == ""
                checked += 1
            if least is not None:
                assert definition_refusal({key: least - 1}, False)
    assert checked > 15


def test_operator_policies_may_say_what_the_page_says() -> None:
    (sentence,) = re.findall(r"It may say (.*?), and nothing else", PAGE.text, re.DOTALL)
    assert sorted(codes(sentence)) == sorted(OPERATOR_KEYS)


def test_apply_to_takes_what_the_page_says() -> None:
    (value,) = [row[1] for row in PAGE.rows("field", "value", "meaning") if row[0] == "`apply-to`"]
    assert sorted(codes(value)) == sorted(APPLY_TO)
