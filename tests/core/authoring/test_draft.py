from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.authoring.draft import DescriptionError, with_description
from skills_core.format.document import parse_document
from skills_core.texts import find_hidden

NEW = 'Use this skill: "quoted", #1, for tides — even 满潮. Not for: weather.'

FILES = {
    "plain": "---\nname: tides\ndescription: Old text.\nlicense: MIT\n---\n# Body\n",
    "comment": "---\n# first\nname: tides\ndescription: Old text. # why\nlicense: MIT\n---\n# Body\n",
    "quoted": "---\nname: tides\ndescription: 'Old ''text'''\n---\nbody without line end",
    "folded": "---\nname: tides\ndescription: >-\n  Old text\n  over lines\n\nlicense: MIT\n---\n",
    "literal": "---\nname: tides\ndescription: |\n  Old text\n  description: no field\nlicense: MIT\n---\n",
    "keep": "---\ndescription: |+\n  Old text\n\n\nname: tides\n---\nBody\n",
    "lines": "---\nname: tides\ndescription: Old text\n  over lines\nmetadata:\n  description: other\n---\n",
    "last": "---\nname: tides\ndescription: Old text.\n---\n",
    "flow": '---\n{name: tides, description: "Old text.", license: MIT}\n---\nBody\n',
    "crlf": "---\r\nname: tides\r\ndescription: >\r\n  Old text\r\n  more\r\nlicense: MIT\r\n---\r\nBody\r\n",
    "mark": "\ufeff---\nname: tides\ndescription: Old text.\n---\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_description_changes_and_no_other_field(name: str) -> None:
    raw = FILES[name].encode()
    new = with_description(raw, NEW)
    before, after = parse_document(raw, ""), parse_document(new, "")
    assert dict(after.fields) == {**before.fields, "description": NEW}
    assert after.fault is None


@pytest.mark.parametrize("name", FILES)
def test_all_other_bytes_stay(name: str) -> None:
    raw = FILES[name].encode()
    new = with_description(raw, NEW)
    head = raw.index(b"description:") + len(b"description:")
    assert new[:head] == raw[:head]
    rest: dict[str, bytes] = {
        "comment": b" # why\nlicense: MIT\n---\n# Body\n",
        "flow": b", license: MIT}\n---\nBody\n",
        "crlf": b"\r\nlicense: MIT\r\n---\r\nBody\r\n",
        "lines": b"\nmetadata:\n  description: other\n---\n",
        "plain": b"\nlicense: MIT\n---\n# Body\n",
        "quoted": b"\n---\nbody without line end",
    }
    if name in rest:
        assert new.endswith(rest[name])


@given(st.text(min_size=1, max_size=200).filter(lambda text: text.strip() and not find_hidden(text)))
def test_any_text_is_read_back_as_it_is(text: str) -> None:
    try:
        new = with_description(FILES["comment"].encode(), text)
    except (DescriptionError, UnicodeEncodeError):
        return
    assert parse_document(new, "").fields["description"] == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# No frontmatter\n", "cannot be read"),
        ("---\nname: tides\n---\n", "no plain description"),
        ("---\nname: tides\ndescription: [a]\n---\n", "no plain description"),
        ("---\nname: tides\ndescription: &a Old\nother: *a\n---\n", "no plain description"),
        ("---\nname: tides\ndescription: Use when: it rains\n---\n", "validate --fix"),
    ],
)
def test_what_cannot_be_replaced_is_refused(text: str, message: str) -> None:
    with pytest.raises(DescriptionError, match=message):
        with_description(text.encode(), NEW)


@pytest.mark.parametrize("text", ["", "  ", "x" * 1025])
def test_a_description_keeps_to_the_format(text: str) -> None:
    with pytest.raises(DescriptionError, match="expected 1 to 1,024"):
        with_description(FILES["plain"].encode(), text)
