from dataclasses import field, replace

from skills_core.values import value_type


@value_type(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    note: str = field(default="", compare=False)


def test_value_types_have_the_equality_and_the_hash_of_frozen_dataclasses() -> None:
    point = Point(1, note="here")
    assert point == Point(1, 0)
    assert replace(point, y=2) == Point(1, 2)
    assert {point: "found"}[Point(1, note="there")] == "found"
