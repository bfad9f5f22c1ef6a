"""`validate` gives advice for every diagnostic."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.authoring.validation import ValidationResult, validation_object
from skills_core import Reason
from skills_core.authoring.advice import ADVICE
from skills_core.disk.sources import Strictness
from skills_core.format.instructions import parse_instructions
from tests.conftest import write_skill
from tests.permissions import CAN_BE_BOUND
from tests.server.cli.test_cli import run, run_bound_by_permissions

Recipe = Callable[[Path], object]

LONG_NAME = "n" * 65
MANY_FILES = {f"f{number}": b"" for number in range(4100)}


def document(text: str | bytes, name: str = "SKILL.md") -> Recipe:
    """Return a recipe that writes a skill with one file."""

    def write(root: Path) -> None:
        (root / "one").mkdir()
        (root / "one" / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


def skill(**parts: Any) -> Recipe:
    return lambda root: write_skill(root, parts.pop("name", "one"), **parts)


def beside_a_skill(add: Recipe) -> Recipe:
    """Return a recipe that writes a valid skill, and then changes its folder with `add`."""
    return lambda root: add(write_skill(root, "one"))


def a_file(root: Path) -> None:
    root.rmdir()
    root.write_text("text")


def read_only(root: Path) -> None:
    document("---\nname: One\ndescription: d\n---\n")(root)
    (root / "one").chmod(0o555)


RECIPES: dict[Reason, Recipe] = {
    Reason.MISSING_DIRECTORY: lambda root: root.rmdir(),
    Reason.NOT_A_DIRECTORY: a_file,
    Reason.MISSING_SKILL_FILE: lambda _: None,
    Reason.FILE_NAME_CASE: document("---\nname: one\ndescription: d\n---\n", name="skill.md"),
    Reason.PERMISSION_DENIED: beside_a_skill(lambda folder: (folder / "SKILL.md").chmod(0)),
    Reason.UNWRITABLE: read_only,
    Reason.TOO_LARGE: document(b"x" * 5_000_000),
    Reason.TOO_MANY_FILES: skill(files=MANY_FILES),
    Reason.SYMLINK: beside_a_skill(lambda folder: (folder / "link").symlink_to("SKILL.md")),
    Reason.SYMLINK_OUTSIDE: beside_a_skill(lambda folder: (folder / "link").symlink_to("/")),
    Reason.SPECIAL_FILE: beside_a_skill(lambda folder: os.mkfifo(folder / "pipe")),
    Reason.SCAN_LIMIT: beside_a_skill(lambda folder: folder.joinpath(*["d"] * 40).mkdir(parents=True)),
    Reason.MISSING_REFERENCE: skill(fields="references: [gone.md]"),
    Reason.PATH_CASE: skill(body="See FORMS.md.", files={"forms.md": b"f"}),
    Reason.NOT_UTF8: document(b"---\nname: one\ndescription: \xff\n---\n"),
    Reason.EMPTY: document(""),
    Reason.MISSING_FRONTMATTER: document("text"),
    Reason.UNCLOSED_FRONTMATTER: document("---\nname: one\n"),
    Reason.STAR_FENCES: document("***\nname: one\ndescription: d\n***\n"),
    Reason.INVALID_YAML: document("---\n- one\n---\n"),
    Reason.YAML_LIMIT: document("---\nname: one\ndescription: d\nmetadata: " + "[" * 200 + "]" * 200 + "\n---\n"),
    Reason.YAML_REPAIRED: skill(description="Use when: asked"),
    Reason.DUPLICATE_KEY: skill(fields="license: a\nlicense: b"),
    Reason.NOT_JSON: skill(fields="metadata: {a: .nan}"),
    Reason.HIDDEN_CHARACTERS: skill(body="a\u200bb"),
    Reason.AUDIT_FINDING: skill(body="a\u202eb"),
    Reason.MISSING_NAME: document("---\ndescription: d\n---\n"),
    Reason.INVALID_NAME: document("---\nname: One\ndescription: d\n---\n"),
    Reason.NAME_TOO_LONG: skill(name=LONG_NAME),
    Reason.NAME_MISMATCH: document("---\nname: two\ndescription: d\n---\n"),
    Reason.MISSING_DESCRIPTION: skill(description="''"),
    Reason.DESCRIPTION_TOO_LONG: skill(description="d" * 1025),
    Reason.COMPATIBILITY_TOO_LONG: skill(fields=f"compatibility: {'c' * 501}"),
    Reason.UNKNOWN_FIELD: skill(fields="colour: red"),
    Reason.INVALID_FIELD: skill(fields="version: [1]"),
    Reason.INVALID_VERSION: skill(fields="version: v1"),
    Reason.TOOL_WITHOUT_SCRIPT: skill(fields="tools: [{name: t, description: d, parameters: {type: object}}]"),
    Reason.DECODED_PATTERN: skill(fields="danger_patterns: ['rm\\s+-r']"),
    Reason.INVALID_PATTERN: skill(fields="danger_patterns: ['(?=a)']"),
    Reason.DUPLICATE_NAME: lambda root: (write_skill(root / "a", "one"), write_skill(root / "b", "one")),
    Reason.NOT_PUBLISHED: skill(name="One Two"),
}
"""For each reason code, a function that writes a folder with that fault."""

POSIX_ONLY = {Reason.SYMLINK, Reason.SYMLINK_OUTSIDE, Reason.SPECIAL_FILE}
NEED_PERMISSIONS = {Reason.PERMISSION_DENIED, Reason.UNWRITABLE}
FLAGS = {Reason.UNWRITABLE: ["--fix"], Reason.SYMLINK_OUTSIDE: ["--follow-symlinks"]}
ENVIRONMENT = {Reason.AUDIT_FINDING: {"SKILLSERVE_AUDIT": "warn"}}

STATUS_REASONS = {
    *(Reason.SHADOWED, Reason.DISABLED, Reason.UNTRUSTED, Reason.BUNDLED_NOT_ALLOWED, Reason.CONFIG_DISABLED),
    *(Reason.OS_MISMATCH, Reason.MISSING_BIN, Reason.MISSING_ENV, Reason.INVALID_CONFIGURATION),
    *(Reason.UNMET_REQUIREMENT, Reason.CIRCULAR_REQUIREMENT, Reason.UNREADABLE_CONDITION),
}
"""Reason codes of `status` that do not concern the skill itself."""

TRANSIENT_REASONS = {Reason.UNREADABLE}
"""Temporary faults of the system, tested in `tests/core/test_system_faults.py`."""

REMOTE_REASONS = {
    *(Reason.UNREACHABLE, Reason.TIMED_OUT, Reason.ACCESS_DENIED, Reason.NOT_MCP, Reason.NO_SKILLS_EXTENSION),
    *(Reason.SERVER_ERROR, Reason.INVALID_LISTING, Reason.UNKNOWN_SKILL, Reason.AMBIGUOUS_NAME, Reason.INVALID_ENTRY),
    *(Reason.INVALID_URI, Reason.OUTSIDE_SKILL, Reason.DUPLICATE_FILE, Reason.DYNAMIC_SKILL, Reason.INCOMPLETE_ENTRY),
    *(Reason.ENTRY_MISMATCH, Reason.DIRECTORY_MISMATCH, Reason.INVALID_CONTENTS, Reason.SIZE_MISMATCH),
    *(Reason.DIGEST_MISMATCH, Reason.FRONTMATTER_MISMATCH, Reason.UNSUPPORTED_NAME, Reason.NAME_COLLISION),
    *(Reason.FOLDER_TAKEN, Reason.EDITED_COPY, Reason.UNKNOWN_PLUGIN, Reason.INVALID_SKILL, Reason.OLDER_VERSION),
}
"""Reason codes of `verify`, `fetch` and `plugin`."""


@pytest.mark.parametrize("reason", RECIPES)
def test_each_diagnostic_has_its_advice(reason: Reason, skills: Path) -> None:
    if os.name == "nt" and reason in POSIX_ONLY | NEED_PERMISSIONS:
        pytest.skip("links, pipes and permissions of POSIX")
    if reason in NEED_PERMISSIONS and not CAN_BE_BOUND:
        pytest.skip("root is refused nothing")
    RECIPES[reason](skills)
    try:
        validate = (
            run_bound_by_permissions if reason in NEED_PERMISSIONS else partial(run, **ENVIRONMENT.get(reason, {}))
        )
        results = json.loads(validate("validate", skills, "--json", *FLAGS.get(reason, [])).stdout)["results"]
    finally:
        for folder in skills.glob("*/"):
            folder.chmod(0o755)
    found = [diagnostic for result in results for diagnostic in result["diagnostics"]]
    assert reason in {diagnostic["code"] for diagnostic in found}
    assert [diagnostic for diagnostic in found if diagnostic["fix"] != ADVICE[Reason(diagnostic["code"])]] == []


FIELDS = ("name", "description", "version", "when", "tools", "metadata", "allowed-tools", "requires", "evaluation")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=6), VALUES),
    st.binary(max_size=40),
    st.sampled_from(Strictness),
)
def test_diagnostics_of_arbitrary_skill_files_have_advice(
    fields: dict[str, Any], body: bytes, strictness: Strictness
) -> None:
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items())
    raw = b"---\n" + lines.encode("utf-8", "surrogatepass") + b"---\n" + body
    found = parse_instructions(raw, "one", "one/SKILL.md", strictness).diagnostics
    shown = validation_object([ValidationResult("one", valid=False, diagnostics=found)], [])
    assert [each for each in shown["results"][0]["diagnostics"] if not each["fix"]] == []


def test_every_reason_code_has_advice_or_does_not_concern_validation() -> None:
    assert set(RECIPES) == set(ADVICE) - TRANSIENT_REASONS
    assert set(ADVICE) == set(Reason) - STATUS_REASONS - REMOTE_REASONS
