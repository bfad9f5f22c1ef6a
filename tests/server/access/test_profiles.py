"""Rules of profiles: which one a request names, and that none adds a role."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.access import ProfileFault, Profiles
from server.config.settings.access import AccessSettings
from server.config.values import InvalidValueError, read

PROFILES = Profiles({"eng": ["a", "b"], "none": []})


@pytest.mark.parametrize(
    ("in_path", "in_headers", "expected"),
    [
        (None, [], None),
        ("eng", [], "eng"),
        (None, ["eng"], "eng"),
        ("eng", ["eng"], "eng"),
        ("eng", ["none"], ProfileFault.AMBIGUOUS),
        ("eng", [""], ProfileFault.AMBIGUOUS),
        ("eng", ["other"], ProfileFault.AMBIGUOUS),
        (None, ["eng", "eng"], ProfileFault.AMBIGUOUS),
        (None, ["eng", "none"], ProfileFault.AMBIGUOUS),
        (None, ["eng, none"], ProfileFault.UNKNOWN),
        (None, ["ENG"], ProfileFault.UNKNOWN),
        (None, [""], ProfileFault.UNKNOWN),
        (None, [" eng"], ProfileFault.UNKNOWN),
        ("other", [], ProfileFault.UNKNOWN),
    ],
)
def test_a_request_names_one_profile_or_none(in_path: str | None, in_headers: list[str], expected: str | None) -> None:
    assert PROFILES.choose(in_path, in_headers) is expected or PROFILES.choose(in_path, in_headers) == expected


HELD = st.frozensets(st.sampled_from("abc"))


@given(held=HELD, profile=st.none() | st.sampled_from(["eng", "none", "other"]))
def test_a_profile_adds_no_role(held: frozenset[str], profile: str | None) -> None:
    narrowed = PROFILES.narrowed(held, profile)
    assert narrowed <= held
    assert (narrowed == held) or profile is not None
    if profile == "eng":
        assert narrowed == held & {"a", "b"}
    elif profile is not None:
        assert narrowed == frozenset()


@pytest.mark.parametrize("name", ["", "Eng", "a/b", "..", ".", "a b", "é", "a%2f", "-a", "a" * 65, "a\n"])
def test_the_name_of_a_profile_is_the_same_however_it_is_sent(name: str) -> None:
    with pytest.raises(InvalidValueError):
        read(AccessSettings, {"profiles": {name: []}})
