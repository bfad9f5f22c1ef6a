"""`version`: "Semantic version for update logic", by the rules of semver.org."""

from __future__ import annotations

from itertools import pairwise

import pytest

from skills_core.format.frontmatter import Precedence, version_precedence

ASCENDING = (
    *("0.0.0-0", "0.0.0", "0.9.10", "0.10.0", "1.0.0--", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta"),
    *("1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "10.0.0"),
)


def precedence(text: str) -> Precedence:
    found = version_precedence(text)
    assert found is not None
    return found


@pytest.mark.parametrize(("lower", "higher"), [*pairwise(ASCENDING)])
def test_versions_are_ordered_by_precedence(lower: str, higher: str) -> None:
    assert precedence(lower) < precedence(higher)
    assert precedence(higher) >= precedence(lower) != precedence(higher)


def test_builds_have_the_same_precedence() -> None:
    assert precedence("1.0.0+a") == precedence("1.0.0+b.001") == precedence("1.0.0")
    assert not precedence("1.0.0+a") < precedence("1.0.0+b")


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.00.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+"),
        *(
            "1.0.0+a+b",
            "1.0.0-a_b",
            " 1.0.0",
            "1.0.0\n",
            "-1.0.0",
            "1.0.0-ä",
            "\u0661.0.0",
            "1.0.0-\u00b2",
            "1.0." + "9" * 9999,
        ),
    ],
)
def test_other_texts_are_no_versions(text: str) -> None:
    assert version_precedence(text) is None
