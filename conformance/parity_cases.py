"""Skills that two validators may judge differently: cases for each rule of the reference validator and its limits.

A case states the expected result of `skillserve validate --strict`, and why that of the reference differs, if it does.
"""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CASES", "Case", "Difference", "generated"]


class Difference(StrEnum):
    """Why the validators differ; docs/explanation/conformance.md explains each reason."""

    OTHER_FORMATS = "other formats"
    YAML_SUBSET = "subset of YAML"
    FENCES = "fences"
    NOT_TEXT = "numbers for text"
    WRONG_KIND = "kinds of values"
    EMPTY = "empty compatibility"
    NOT_JSON = "beyond JSON"
    BOUNDS = "bounds"
    INDENTATION = "indentation"
    MARK = "byte order mark"
    CARRIAGE_RETURN = "carriage return"
    CONTROL = "control characters"
    LINK = "links"
    OWN_KEYS = "keys of JD.AI"


@dataclass(frozen=True, slots=True)
class Case:
    """One SKILL.md in a folder of its own; with `link` it is a symbolic link to a file elsewhere."""

    name: str
    content: bytes
    valid: bool
    why: Difference | None = None
    folder: str = "my-skill"
    file: str = "SKILL.md"
    link: bool = False

    @property
    def reference(self) -> bool:
        """Whether the reference validator accepts it."""
        return self.valid is (self.why is None)


@dataclass(frozen=True, slots=True)
class _Part:
    """The lines of one field, and the result for a skill that is otherwise valid."""

    name: str
    yaml: str
    valid: bool = True
    why: Difference | None = None


_NAME = "name: my-skill\n"
_DESCRIPTION = "description: A thing.\n"

_DESCRIPTIONS = (
    _Part("none", "", valid=False),
    _Part("null", "description:\n", valid=False),
    _Part("word-null", "description: null\n", False, Difference.NOT_TEXT),
    _Part("empty", "description: ''\n", valid=False),
    _Part("blank", "description: '   '\n", valid=False),
    _Part("number", "description: 5\n", False, Difference.NOT_TEXT),
    _Part("boolean", "description: false\n", False, Difference.NOT_TEXT),
    _Part("date", "description: 2024-01-01\n"),
    _Part("yes", "description: yes\n"),
    _Part("list", "description:\n- a\n", valid=False),
    _Part("mapping", "description:\n  a: b\n", valid=False),
    _Part("colon", "description: a: b\n", valid=False),
    _Part("folded", "description: >\n  a\n  b\n"),
    _Part("literal", "description: |\n  a\n  b\n"),
    _Part("1024", f"description: {'x' * 1024}\n"),
    _Part("1025", f"description: {'x' * 1025}\n", valid=False),
    _Part("1024-and-blank", f"description: '{'x' * 1024} '\n", valid=False),
    _Part("literal-1023", f"description: |\n  {'x' * 1023}\n"),
    _Part("literal-1024", f"description: |\n  {'x' * 1024}\n", valid=False),
    _Part("1024-emoji", f"description: {'🎉' * 1024}\n"),
    _Part("1025-decomposed", "description: x" + "e\u0301" * 512 + "\n", valid=False),
)

_FIELDS = {
    "license": (
        _Part("text", "license: MIT\n"),
        _Part("null", "license:\n"),
        _Part("tilde", "license: ~\n"),
        _Part("empty", "license: ''\n"),
        _Part("yes", "license: yes\n"),
        _Part("date", "license: 2024-01-31\n"),
        _Part("minutes", "license: 1:30\n"),
        _Part("number", "license: 2\n", False, Difference.NOT_TEXT),
        _Part("octal", "license: 0o17\n", False, Difference.NOT_TEXT),
        _Part("boolean", "license: true\n", False, Difference.NOT_TEXT),
        _Part("list", "license:\n- a\n", False, Difference.WRONG_KIND),
        _Part("mapping", "license:\n  a: b\n", False, Difference.WRONG_KIND),
        _Part("twice", "license: a\nlicense: b\n", valid=False),
        _Part("colon", "license: a: b\n", valid=False),
        _Part("at", "license: @x\n", valid=False),
        _Part("backtick", "license: `x`\n", valid=False),
        _Part("undefined-alias", "license: *x\n", valid=False),
        _Part("open-quote", "license: 'x\n", valid=False),
        _Part("text-after-quote", "license: 'x' y\n", valid=False),
        _Part("bad-escape", 'license: "\\q"\n', valid=False),
        _Part("tag", "license: !!str 5\n", True, Difference.YAML_SUBSET),
        _Part("unknown-tag", "license: !x y\n", valid=False),
        _Part("anchor", "license: &a MIT\n", True, Difference.YAML_SUBSET),
        _Part("tab", "license:\tMIT\n", True, Difference.YAML_SUBSET),
        _Part("folded", "license: >\n  a\n  b\n"),
        _Part("over-lines", "license: a\n  b\n"),
        _Part("explicit-key", "? license\n: MIT\n"),
        _Part("quoted-key", "'license': MIT\n"),
        _Part("comment", "# c\nlicense: MIT # d\n"),
        _Part("escapes", 'license: "\\u00e9\\ud83d\\ude00"\n'),
        _Part("half-a-character", 'license: "\\ud83d"\n', False, Difference.NOT_JSON),
        _Part("outdented", 'license: "a\nb"\n', False, Difference.INDENTATION),
        _Part("hidden", "license: a\u200bb\n"),
        _Part("next-line", "license: a\u0085b\n"),
        _Part("delete", "license: a\u007fb\n", True, Difference.CONTROL),
        _Part("c1", "license: a\u0080b\n", True, Difference.CONTROL),
        _Part("no-character", "license: a\ufffeb\n", True, Difference.CONTROL),
        _Part("bell", "license: a\u0007b\n", valid=False),
        _Part("nul", "license: a\u0000b\n", valid=False),
    ),
    "compatibility": (
        _Part("text", "compatibility: Needs git.\n"),
        _Part("null", "compatibility:\n"),
        _Part("empty", "compatibility: ''\n", False, Difference.EMPTY),
        _Part("blank", "compatibility: '  '\n", False, Difference.EMPTY),
        _Part("500", f"compatibility: {'x' * 500}\n"),
        _Part("501", f"compatibility: {'x' * 501}\n", valid=False),
        _Part("500-and-blank", f"compatibility: '{'x' * 500} '\n", valid=False),
        _Part("number", "compatibility: 3.11\n", False, Difference.NOT_TEXT),
        _Part("list", "compatibility:\n- a\n", valid=False),
    ),
    "metadata": (
        _Part("texts", "metadata:\n  a: b\n  c: 'd'\n"),
        _Part("numbers", "metadata:\n  a: 1\n  b: true\n  c: 1.5\n  d: 010\n"),
        _Part("nested", "metadata:\n  a:\n    b: c\n"),
        _Part("lists", "metadata:\n  a:\n  - b\n"),
        _Part("unknown-key-of-jdai", "metadata:\n  jdai:\n    allways: true\n", False, Difference.OWN_KEYS),
        _Part("null", "metadata:\n"),
        _Part("text", "metadata: x\n", False, Difference.WRONG_KIND),
        _Part("list", "metadata:\n- a\n", False, Difference.WRONG_KIND),
        _Part("braces", "metadata: {a: b}\n", True, Difference.YAML_SUBSET),
        _Part("empty-braces", "metadata: {}\n", True, Difference.YAML_SUBSET),
        _Part("alias", "metadata:\n  a: &x b\n  c: *x\n", True, Difference.YAML_SUBSET),
        _Part("merge", "metadata:\n  <<: b\n", True, Difference.YAML_SUBSET),
        _Part("twice", "metadata:\n  a: 1\n  a: 2\n", valid=False),
        _Part("tab", "metadata:\n\ta: b\n", valid=False),
        _Part("not-a-number", "metadata:\n  a: .nan\n", False, Difference.NOT_JSON),
        _Part("infinite", "metadata:\n  a: -.inf\n", False, Difference.NOT_JSON),
        _Part("huge", f"metadata:\n  a: {'9' * 400}\n", False, Difference.NOT_JSON),
        _Part("key-a-number", "metadata:\n  1: a\n", False, Difference.NOT_JSON),
        _Part("deep", "metadata:\n" + "".join(f"{'  ' * n}a:\n" for n in range(1, 71)), False, Difference.BOUNDS),
        _Part("jdai", "metadata:\n  jdai:\n    skillKey: a\n"),
        _Part("jdai-list", "metadata:\n  jdai:\n  - a\n", False, Difference.WRONG_KIND),
    ),
    "allowed-tools": (
        _Part("text", "allowed-tools: Bash(git:*) Read\n"),
        _Part("null", "allowed-tools:\n"),
        _Part("list", "allowed-tools:\n- Read\n- Write\n"),
        _Part("brackets", "allowed-tools: [Read]\n", True, Difference.YAML_SUBSET),
        _Part("number", "allowed-tools: 5\n", False, Difference.NOT_TEXT),
        _Part("numbers", "allowed-tools:\n- 5\n", False, Difference.NOT_TEXT),
        _Part("mapping", "allowed-tools:\n  a: b\n", False, Difference.WRONG_KIND),
        _Part("mappings", "allowed-tools:\n- a: b\n", False, Difference.WRONG_KIND),
    ),
    "others": (
        _Part("unknown", "nobody: knows\n", valid=False),
        _Part("case", "License: MIT\n", valid=False),
        _Part("underscore", "allowed_tools: Read\n", valid=False),
        _Part("number", "1: a\n", valid=False),
        _Part("version", "version: '1'\n", True, Difference.OTHER_FORMATS),
        _Part("tags", "tags:\n- a\n", True, Difference.OTHER_FORMATS),
        _Part("foreign", "author: somebody\n", True, Difference.OTHER_FORMATS),
    ),
}

_NAMES = (
    *(("MySkill", "MySkill", False), ("my-skill", "My-Skill", False), ("other", "my-skill", False)),
    *(("a" * 64, "a" * 64, True), ("a" * 65, "a" * 65, False), ("a", "a", True), ("1a", "1a", True)),
    *(("-a", "-a", False), ("a-", "a-", False), ("a--b", "a--b", False), ("a_b", "a_b", False)),
    *(("a.b", "a.b", False), ("a b", "a b", False), ("", "my-skill", False), ("''", "my-skill", False)),
    *(("'  '", "my-skill", False), ("' my-skill '", "my-skill", True), ("'123'", "123", True)),
    *((">\n  my-skill", "my-skill", True), ("|\n  my-skill", "my-skill", True), ("- a", "my-skill", False)),
    *(("yes", "yes", True), ("no", "no", True), ("2024-01-01", "2024-01-01", True), ("~", "my-skill", False)),
    *(("技能", "技能", True), ("мой-навык", "мой-навык", True), ("НАВЫК", "НАВЫК", False)),
    *(("cafe\u0301", "café", True), ("café", "cafe\u0301", True), ("ﬁx", "fix", True), ("ﬁx", "ﬁx", True)),
    *(("e\u0301" * 40, "é" * 40, True), ("ﬁ" * 40, "ﬁ" * 40, False), ("straße", "straße", True)),
    *(("a²", "a²", True), ("a٣", "a٣", True), ("İ", "İ", False), ("ǅ", "ǅ", False), ("\uff41", "\uff41", True)),
    *(
        ("\uff21", "a", False),
        ("a\u200bb", "a\u200bb", False),
        ("a\u2010b", "a\u2010b", False),
        ("न\u093f", "न\u093f", False),
    ),
)

_NAMES_NO_TEXT = (("123", "123"), ("true", "true"), ("null", "null"), ("1e3", "1e3"), ("0x1", "0x1"))

_FINE = f"---\n{_NAME}{_DESCRIPTION}---\nBody\n"
_OPEN = f"---\n{_NAME}{_DESCRIPTION}"

_WHOLE = (
    Case("fine", _FINE.encode(), valid=True),
    Case("crlf", _FINE.replace("\n", "\r\n").encode(), valid=True),
    Case("cr", _FINE.replace("\n", "\r").encode(), False, Difference.CARRIAGE_RETURN),
    Case("cr-within", f"{_OPEN}license: a\rmetadata:\n---\n".encode(), False, Difference.CARRIAGE_RETURN),
    Case("mark", b"\xef\xbb\xbf" + _FINE.encode(), True, Difference.MARK),
    Case("mark-crlf", b"\xef\xbb\xbf" + _FINE.replace("\n", "\r\n").encode(), True, Difference.MARK),
    Case("no-frontmatter", b"# Title\n", valid=False),
    Case("empty-file", b"", valid=False),
    Case("no-fields", b"---\n---\n", valid=False),
    Case("comments-alone", b"---\n# x\n---\n", valid=False),
    Case("text-alone", b"---\nhello\n---\n", valid=False),
    Case("list-alone", b"---\n- a\n---\n", valid=False),
    Case("braces", b"---\n{name: my-skill, description: d}\n---\n", True, Difference.YAML_SUBSET),
    Case("no-name", f"---\n{_DESCRIPTION}---\n".encode(), valid=False),
    Case("blank-line-first", f"\n{_FINE}".encode(), valid=False),
    Case("blank-first", f" {_FINE}".encode(), valid=False),
    Case("unclosed", _OPEN.encode(), valid=False),
    Case("four-hyphens", f"----\n{_NAME}{_DESCRIPTION}----\n".encode(), valid=False),
    Case("text-behind-the-first-fence", f"--- x\n{_NAME}{_DESCRIPTION}---\n".encode(), valid=False),
    Case("blanks-behind-fences", f"---  \n{_NAME}{_DESCRIPTION}---\t\nB".encode(), valid=True),
    Case("ends-at-the-fence", f"{_OPEN}---".encode(), valid=True),
    Case("fences-in-the-body", f"{_FINE}---\nx: [\n---\n".encode(), valid=True),
    Case("hyphens-in-a-value", f"{_OPEN}license: a --- b\n---\n".encode(), valid=True),
    Case("hyphens-in-quotes", f"{_OPEN}license: 'a --- b'\n---\n".encode(), True, Difference.FENCES),
    Case("field-behind-the-fence", f"---{_NAME}{_DESCRIPTION}---\n".encode(), False, Difference.FENCES),
    Case("indented-fence", f"{_OPEN} ---\nB".encode(), False, Difference.FENCES),
    Case("text-behind-the-last-fence", f"{_OPEN}--- x\nB".encode(), False, Difference.FENCES),
    Case("fence-behind-a-value", f"---\n{_NAME}description: d ---\nB".encode(), False, Difference.FENCES),
    Case("four-hyphens-last", f"{_OPEN}----\nB".encode(), False, Difference.FENCES),
    Case("end-of-document", f"{_OPEN}...\n---\n".encode(), valid=True),
    Case("indented-field", f"{_OPEN} license: MIT\n---\n".encode(), valid=False),
    Case("not-utf-8", _FINE.encode() + b"\xff", valid=False),
    Case("utf-16", _FINE.encode("utf-16"), valid=False),
    Case("nul-in-the-body", _FINE.encode() + b"\0", valid=True),
    Case("large", _FINE.encode() + b"x" * 1024 * 1024, False, Difference.BOUNDS),
    Case("small-letters", _FINE.encode(), valid=True, file="skill.md"),
    Case("another-file", _FINE.encode(), valid=False, file="README.md"),
    Case("link", _FINE.encode(), False, Difference.LINK, link=True),
)


def _table() -> Iterator[Case]:
    yield from _WHOLE
    for number, (name, folder, valid) in enumerate(_NAMES):
        yield Case(f"name-{number}", f"---\nname: {name}\n{_DESCRIPTION}---\n".encode(), valid, folder=folder)
    for name, folder in _NAMES_NO_TEXT:
        content = f"---\nname: {name}\n{_DESCRIPTION}---\n".encode()
        yield Case(f"name-{name}", content, False, Difference.NOT_TEXT, folder)
    for part in _DESCRIPTIONS:
        content = f"---\n{_NAME}{part.yaml}---\n".encode()
        yield Case(f"description-{part.name}", content, part.valid, part.why)
    for field, parts in _FIELDS.items():
        for part in parts:
            yield Case(f"{field}-{part.name}", f"{_OPEN}{part.yaml}---\n".encode(), part.valid, part.why)


CASES = tuple(_table())
"""The cases that are written by hand."""


def generated(count: int, seed: int = 2640) -> Iterator[Case]:
    """Yield random cases: combinations of valid and invalid fields, names, and lengths near the limits."""
    chance = random.Random(seed)  # noqa: S311 - reproducible cases
    for number in range(count):
        yield (_combined, _named, _measured)[number % 3](chance, f"generated-{number}")


def _combined(chance: random.Random, name: str) -> Case:
    """Combine fields; a validator accepts the skill if it accepts each field."""
    parts = [chance.choice(_DESCRIPTIONS), *(chance.choice(_FIELDS[f]) for f in chance.sample(list(_FIELDS), 3))]
    parts = [part for part in parts if part.valid or chance.random() < 1 / 3] or [_DESCRIPTIONS[-2]]
    texts = [part.yaml for part in parts]
    if not any(part in _DESCRIPTIONS for part in parts):
        texts.append(_DESCRIPTION)
    chance.shuffle(texts)
    ours = all(part.valid for part in parts)
    theirs = all(part.valid is (part.why is None) for part in parts)
    why = next((part.why for part in parts if part.why is not None and part.valid is ours), None)
    content = f"---\n{_NAME}{''.join(texts)}---\nBody\n".encode()
    return Case(name, content, ours, None if ours is theirs else why)


def _named(chance: random.Random, name: str) -> Case:
    """Generate a quoted name of any characters; both validators have the same rules for names."""
    length = chance.choice((1, 2, 3, 4, 63, 64, 65))
    letters = chance.choice(("abz019-", "abz-éß技", "aZ9-_. ", "aéÉ²٣ǅİﬁ-e\u0301"))
    text = "".join(chance.choice(letters) for _ in range(length)) or "a"
    folder = chance.choice((text, text, text, text.lower(), "my-skill")).strip(". ") or "my-skill"
    return Case(
        name, f'---\nname: "{text}"\n{_DESCRIPTION}---\n'.encode(), _keeps_the_rules(text, folder), folder=folder
    )


def _keeps_the_rules(text: str, folder: str) -> bool:
    name = unicodedata.normalize("NFKC", text.strip())
    rules = (
        0 < len(name) <= 64,  # noqa: PLR2004 - the limit of the format
        name == name.lower(),
        all(char.isalnum() or char == "-" for char in name),
        name.strip("-") == name,
        "--" not in name,
        name == unicodedata.normalize("NFKC", folder),
    )
    return all(rules)


def _measured(chance: random.Random, name: str) -> Case:
    """Generate texts near their limits, with blanks at both ends."""
    description, compatibility = chance.randint(1022, 1026), chance.randint(498, 502)
    before, after = chance.randint(0, 2), chance.randint(0, 2)
    texts = [
        f"{key}: '{' ' * before}{'x' * (length - before - after)}{' ' * after}'\n"
        for key, length in (("description", description), ("compatibility", compatibility))
    ]
    valid = description <= 1024 and compatibility <= 500  # noqa: PLR2004 - the limits of the format
    return Case(name, f"---\n{_NAME}{''.join(texts)}---\n".encode(), valid)
