from __future__ import annotations

from skills_core.format.document import read_lines

TEXT = """\
name: a
steps:
  - kind: x
    deep:
      list: [1,
        2]
  - plain
base: &b
  one: 1
again: *b
"""


def test_each_field_and_each_item_has_the_line_where_it_begins() -> None:
    assert {path: line for path, line in read_lines(TEXT).items() if path} == {
        "name": 1,
        "steps": 2,
        "steps[0]": 3,
        "steps[0].kind": 3,
        "steps[0].deep": 4,
        "steps[0].deep.list": 5,
        "steps[0].deep.list[0]": 5,
        "steps[0].deep.list[1]": 6,
        "steps[1]": 7,
        "base": 8,
        "base.one": 9,
        "again": 10,
    }
