"""Skills with unusual layouts, file names, bytes and YAML, which programs read differently.

Each frontmatter is a separate skill, so that a rejection identifies its cause.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["MUST_BE_LISTED", "write_tricky"]


def _skill(name: str, further: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: A tricky skill.\n{further}---\n\nBody.\n".encode()


LAYOUT: Mapping[str, bytes] = {
    "outer/SKILL.md": _skill("outer"),
    "outer/notes.txt": b"outer\n",
    "outer/inner/SKILL.md": _skill("inner"),
    "outer/inner/notes.txt": b"inner\n",
    "outer/docs/deep/innermost/SKILL.md": _skill("innermost"),
    "east/twin/SKILL.md": _skill("twin"),
    "west/twin/SKILL.md": _skill("twin"),
    "owner--repo--renamed/SKILL.md": _skill("renamed"),
    "100% #1?/SKILL.md": _skill("percent"),
    "Folder With Blanks/other name/SKILL.md": _skill("blanks"),
    "ünïcödé/日本/SKILL.md": _skill("beyond-ascii"),
    # FastMCP's client rejects backslashes in URIs, so this skill need not be listed.
    "backslash/SKILL.md": _skill("backslash"),
    "backslash/back\\slash.txt": b"backslash\n",
    "bytes/SKILL.md": _skill("bytes"),
    "bytes/every.bin": bytes(range(256)),
    "bytes/empty": b"",
    "bytes/empty.txt": b"",
    "bytes/nul.txt": b"a\0b",
    "bytes/bom.txt": b"\xef\xbb\xbfmarked\n",
    "bytes/crlf.txt": b"a\r\nb\r\n",
    "bytes/cr.txt": b"a\rb\r",
    "bytes/latin-1.txt": b"caf\xe9\n",
    "bytes/utf-16.txt": "ünïcödé".encode("utf-16"),
    "bytes/surrogate.txt": b"\xed\xa0\x80",
    "bytes/separators.txt": "a\u2028b\u2029c\x85d\ufffe".encode(),
}

FILE_NAMES = (
    *("with space.txt", " leading", "trailing ", "100%.txt", "a%20b.txt", "%2e%2e", "%2F.txt", "hash#tag.txt"),
    *("what?.txt", "ünïcödé.txt", "日本語.md", "party-🎉.txt", "plus+sign.txt", "amp&semi;.txt", "colon:at@.txt"),
    *("comma,eq=.txt", 'quote".txt', "apostrophe'.txt", "new\nline.txt", "tab\there.txt"),
    *("-dash.txt", "[brackets]{braces}.txt", "pipe|less<greater>.txt", "star*.txt", "$(x)`y`.txt", "\x01\x7f.txt"),
    *("\u202ereversed.txt", "a..b", "a" * 200, "index.json", "_manifest", "skills", "sub/50%/x#y?z.txt"),
)

FRONTMATTERS: Mapping[str, str] = {
    "words": "a: yes\nb: on\nc: no\nd: off\ne: y\nf: true\ng: True\nh: TRUE\ni: tRUE\n",
    "dates": "a: 2024-01-31\nb: 2024-01-31 10:00:00\nc: 2001-12-14t21:59:43.10-05:00\n",
    "integers": "a: 010\nb: 0o10\nc: 0x1F\nd: 0b11\ne: 1_000\nf: +12\ng: -0\nh: 08\ni: -0x1f\nj: 0o9\nk: 00\n",
    "large-integers": "a: 9007199254740993\nb: 12345678901234567890\n",
    "sexagesimal": "a: 1:30\nb: 190:20:30\nc: 20:30.15\n",
    "nulls": 'a: null\nb: ~\nc:\nd: ""\ne: Null\nf: "null"\ng: [~, null]\nh: {i: , j}\n',
    "floats": "a: 1.5\nb: 1e3\nc: .5\nd: 5.\ne: -1.5e-3\nf: 1.0\ng: +.5\nh: 5e-324\ni: -0.0\nj: 1.7976e308\n",
    "nearly-numbers": "a: 1.2.3\nb: 1e\nc: 0x\nd: 12abc\ne: 1,000\nf: .\ng: --1\nh: e5\nversion: 1.10\n",
    "quoted-scalars": 'a: "true"\nb: \'12\'\nc: "0x1"\nd: "~"\n',
    "maps": "metadata:\n  a:\n    b: {c: [1, {d: e}]}\n  f:\n    - g\n    - - h\n    - i: j\n  k: {}\n  l: []\n",
    "deep": f"a: {'[' * 60}1{']' * 60}\n",
    "sequences": "a:\n- x\n- y\nb: [\n  1,\n  2\n  ]\nc: {d: e,\n  f: g}\n",
    "literal": "a: |\n  one\n  two\n\n\nb: |-\n  one\nc: |+\n  one\n\nd: |2\n    indented\n   less\ne: 1\n",
    "folded": "a: >\n  one\n  two\n\n  three\n    four\n  five\nb: >-\n  one\n  two\n\nc: >+\n  one\n\n\nd: 1\n",
    "literal-last": "a: |\n  one\n  two\n",
    "literal-kept-last": "a: |+\n  one\n  two\n\n\n",
    "literal-stripped-last": "a: |-\n  one\n  two\n",
    "literal-empty-last": "a: |\n",
    "folded-last": "a: >\n  one\n  two\n",
    "folded-kept-last": "a: >+\n  one\n  two\n\n",
    "plain-over-lines": "a: one\n  two\n\n  three\nb: last\n  more\n",
    "escapes": 'a: "\\u00e9 \\U0001F389 \\x41 \\t \\\\ \\/ \\e"\nb: "\\ud83c\\udf89"\nc: "over\n  lines\\\n  joined"\n',
    "apostrophes": "a: 'it''s'\n",
    "comments": "# top\na: b # trailing\nc: d#none\n# end\n",
    "anchors": "a: &b {x: 1, y: [2]}\nc: *b\nd: &e text\nf: *e\n",
    "merge": "a: &b {x: 1}\nc:\n  <<: *b\n  y: 2\n",
    "fences-within": 'a: |\n  ---\n  x\nb: "---"\n',
    "document-end": "a: b\n...\n",
    "wide": "a: \u00a0x\u00a0\nb: 🎉\U0001d4b3\n\U0001d4a6: v\nc: \u3000\nd: x\u2028y\ne: x\x85y\n",
    "blanks": "a:\tb\nc: d\t\ne: f   \ng:   \n",
    "colons": 'a: x:y\nb: x://y/z\nc: a:b:c\nd: "k: v"\n',
    "order": "z: 1\na: 2\n10: x\n2: y\n",
    "keys": '1: a\ntrue: b\nnull: c\n1.5: d\n"quoted key": e\n? f\n: g\n',
    "javascript": "constructor: a\ntoString: b\nhasOwnProperty: c\nlength: 1\n",
}

UNVERIFIABLE: Mapping[str, str] = {
    "not-finite": "a: .inf\nb: -.inf\nc: .nan\n",
    "overflow": "a: 1e400\n",
    "binary": "a: !!binary aGVsbG8=\n",
    "lone-surrogate": 'a: "\\ud800"\n',
    "twice": "a: 1\na: 2\n",
    "tagged": "a: !foo bar\n",
}
"""Values that JSON lacks or parsers read differently. These skills need not be listed, but must verify if they are."""

WHOLE: Mapping[str, bytes] = {
    "crlf": b"---\r\nname: crlf\r\ndescription: |\r\n  One.\r\n  Two.\r\na: >\r\n  x\r\n  y\r\n---\r\nBody.\r\n",
    "crlf-literal-last": b"---\r\nname: crlf-literal-last\r\ndescription: |+\r\n  One.\r\n\r\n---\r\nBody.\r\n",
    "mixed-line-ends": b"---\nname: mixed-line-ends\r\ndescription: |\r\n  One.\n  Two.\n---\r\nBody.\r\n",
    "bom": b"\xef\xbb\xbf---\nname: bom\ndescription: Marked.\n---\nBody.\n",
    "bom-crlf": b"\xef\xbb\xbf---\r\nname: bom-crlf\r\ndescription: Marked.\r\n---\r\nBody.\r\n",
    "blanks-after-fences": b"---  \nname: blanks-after-fences\ndescription: d\n---\t \nBody.\n",
    "ends-at-the-fence": b"---\nname: ends-at-the-fence\ndescription: d\n---",
    "fences-in-the-body": b"---\nname: fences-in-the-body\ndescription: d\n---\n---\na: b\n---\nBody.",
    "nul-in-the-body": b"---\nname: nul-in-the-body\ndescription: d\n---\na\0b",
    "description-last": b"---\nname: description-last\ndescription: |\n  One.\n  Two.\n---\nBody.",
    "description-folded-last": b"---\nname: description-folded-last\ndescription: >\n  One.\n  Two.\n---\nBody.",
    "description-of-1024": f"---\nname: description-of-1024\ndescription: {'🎉' * 1024}\n---\n".encode(),
    "description-in-blanks": b'---\nname: description-in-blanks\ndescription: "  x  "\n---\n',
    "123abc": b"---\nname: 123abc\ndescription: d\n---\n",
    "1e3": b'---\nname: "1e3"\ndescription: d\n---\n',
    "n" * 64: f"---\nname: {'n' * 64}\ndescription: d\n---\n".encode(),
}

WHOLE_UNVERIFIABLE: Mapping[str, bytes] = {
    "description-of-1025": f"---\nname: description-of-1025\ndescription: {'é' * 1025}\n---\n".encode(),
    "description-of-1024-and-blanks": (
        f'---\nname: description-of-1024-and-blanks\ndescription: "{"d" * 1024}  "\n---\n'.encode()
    ),
    "description-a-number": b"---\nname: description-a-number\ndescription: 5\n---\n",
    "name-a-number": b"---\nname: 123\ndescription: d\n---\n",
    "not-utf-8": b"---\nname: not-utf-8\ndescription: caf\xe9\n---\n",
}

MUST_BE_LISTED = (
    "skill://outer/SKILL.md",
    "skill://outer/inner/SKILL.md",
    "skill://outer/docs/deep/innermost/SKILL.md",
    "skill://east/twin/SKILL.md",
    "skill://west/twin/SKILL.md",
    "skill://renamed/SKILL.md",
    "skill://percent/SKILL.md",
    "skill://Folder%20With%20Blanks/blanks/SKILL.md",
    "skill://%C3%BCn%C3%AFc%C3%B6d%C3%A9/beyond-ascii/SKILL.md",
    "skill://bytes/SKILL.md",
    "skill://file-names/SKILL.md",
    *(f"skill://{name}/SKILL.md" for name in (*FRONTMATTERS, *WHOLE)),
)


def write_tricky(root: Path) -> None:
    """Write all skills below `root`."""
    files = dict(LAYOUT)
    files |= {f"file-names/{name}": name.encode() for name in FILE_NAMES}
    files["file-names/SKILL.md"] = _skill("file-names")
    if sys.platform == "linux":
        # Only file systems of Linux accept names that are not valid text.
        files["file-names/" + os.fsdecode(b"latin-1-\xe9.txt")] = b"no text\n"
    files |= {f"{name}/SKILL.md": _skill(name, yaml) for name, yaml in {**FRONTMATTERS, **UNVERIFIABLE}.items()}
    files |= {f"{name}/SKILL.md": content for name, content in {**WHOLE, **WHOLE_UNVERIFIABLE}.items()}
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
