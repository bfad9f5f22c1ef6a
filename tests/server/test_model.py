"""Typed values out of untyped ones, as settings are read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from server.model import Field, InvalidValueError, Model, PositiveInt, SecretStr, field_validator


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Model):
    path: str = Field(min_length=1)
    colour: Colour | None = None


class Sample(Model):
    on: bool = False
    size: int = Field(default=3, ge=1, le=10)
    share: float = 0.5
    name: str = Field(default="x", pattern=r"^[a-z]+$")
    colour: Colour = Colour.RED
    words: tuple[str, ...] = ()
    inner: tuple[Inner, ...] = ()
    counts: dict[str, PositiveInt] = Field(default_factory=dict)
    tables: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    token: SecretStr | None = None

    @field_validator("words")
    @classmethod
    def _check_words(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if "no" in words:
            raise ValueError("expected no no")
        return words


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("on", "yes", True),
        ("on", "OFF", False),
        ("size", "7", 7),
        ("size", 7.0, 7),
        ("share", "0.25", 0.25),
        ("share", 1, 1.0),
        ("colour", "blue", Colour.BLUE),
        ("words", ["a", "b"], ("a", "b")),
        ("inner", [{"path": "p", "colour": "red"}], (Inner(path="p", colour=Colour.RED),)),
        ("counts", {"a": "2"}, {"a": 2}),
        ("tables", {"a": {"b": "c"}}, {"a": {"b": "c"}}),
        ("token", "t", SecretStr("t")),
        ("token", None, None),
    ],
)
def test_a_value_is_read_by_the_type_of_its_field(name: str, given: object, value: object) -> None:
    read = getattr(Sample.model_validate({name: given}), name)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({"on": "maybe"}, "on", "expected true or false"),
        ({"on": 2}, "on", "expected true or false"),
        ({"size": 0}, "size", "at least 1 and at most 10"),
        ({"size": 11}, "size", "at most 10"),
        ({"size": "9" * 5000}, "size", "expected a whole number"),
        ({"size": True}, "size", "expected a whole number"),
        ({"size": 1.5}, "size", "expected a whole number"),
        ({"share": "much"}, "share", "expected a number"),
        ({"name": "X"}, "name", "the pattern"),
        ({"name": 1}, "name", "expected text"),
        ({"colour": "green"}, "colour", "expected one of red, blue"),
        ({"words": "a"}, "words", "expected a list"),
        ({"words": ["a", 1]}, "words.1", "expected text"),
        ({"words": ["no"]}, "words", "expected no no"),
        ({"inner": [{"path": ""}]}, "inner.0.path", "not empty"),
        ({"inner": [{}]}, "inner.0.path", "missing"),
        ({"inner": [{"path": "p", "more": 1}]}, "inner.0.more", "unknown"),
        ({"inner": ["p"]}, "inner.0", "expected a table"),
        ({"counts": {"a": 0}}, "counts.a", "at least 1"),
        ({"tables": {"a": 1}}, "tables.a", "expected a table"),
        ({"token": 1}, "token", "expected text"),
        ({"nothing": 1}, "nothing", "unknown"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_the_way_to_it(given: Any, path: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message) as caught:
        Sample.model_validate(given)
    assert ".".join(caught.value.path) == path


def test_what_is_read_is_frozen_and_compares_by_value() -> None:
    sample = Sample(size=4)
    assert sample == Sample(size=4)
    assert sample != Sample()
    with pytest.raises(AttributeError, match="frozen"):
        sample.size = 5  # type: ignore[misc]


def test_a_secret_is_in_no_text() -> None:
    assert "hidden-thing" not in f"{Sample(token=SecretStr('hidden-thing'))!r} {SecretStr('hidden-thing')}"
