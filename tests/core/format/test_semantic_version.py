"""`version`: "Semantic version for update logic", by the rules of semver.org."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.format.frontmatter import SemanticVersion, parse_version

NUMBERS = st.integers(0, 10**20)
TEXTS = st.from_regex(r"[0-9]*[A-Za-z-][0-9A-Za-z-]*", fullmatch=True).filter(lambda text: len(text) < 20)
PRERELEASES = st.lists(st.one_of(NUMBERS.map(str), TEXTS), max_size=3).map(tuple)
BUILDS = st.lists(st.from_regex(r"[0-9A-Za-z-]{1,9}", fullmatch=True), max_size=3).map(tuple)
VERSIONS = st.builds(SemanticVersion, NUMBERS, NUMBERS, NUMBERS, PRERELEASES, BUILDS)

ASCENDING = (
    *("0.0.0-0", "0.0.0", "0.9.10", "0.10.0", "1.0.0--", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta"),
    *("1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "10.0.0"),
)


def parsed(text: str) -> SemanticVersion:
    version = parse_version(text)
    assert version is not None
    return version


@pytest.mark.parametrize(("lower", "higher"), [*pairwise(ASCENDING)])
def test_versions_are_ordered_by_precedence(lower: str, higher: str) -> None:
    assert parsed(lower) < parsed(higher)
    assert parsed(higher) >= parsed(lower) != parsed(higher)


def test_builds_have_the_same_precedence() -> None:
    assert parsed("1.0.0+a") == parsed("1.0.0+b.001") == parsed("1.0.0")
    assert not parsed("1.0.0+a") < parsed("1.0.0+b")


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
    assert parse_version(text) is None


@given(VERSIONS)
def test_a_version_survives_its_text(version: SemanticVersion) -> None:
    again = parsed(str(version))
    assert again == version
    assert again.build == version.build


@given(VERSIONS, VERSIONS, VERSIONS)
def test_precedence_is_a_total_order(one: SemanticVersion, two: SemanticVersion, three: SemanticVersion) -> None:
    assert (one < two) + (one == two) + (two < one) == 1
    low, middle, high = sorted((one, two, three))
    assert low <= middle <= high
    assert low <= high
    assert hash(one) == hash(parsed(str(one)))


@given(VERSIONS)
def test_a_release_follows_its_prereleases_and_more_identifiers_win(version: SemanticVersion) -> None:
    release = SemanticVersion(version.major, version.minor, version.patch)
    assert (version < release) == bool(version.prerelease)
    longer = SemanticVersion(version.major, version.minor, version.patch, (*version.prerelease, "0"))
    assert (version < longer) == bool(version.prerelease)
