"""What to do about each reason that checking a skill can give, in one sentence.

A message says what is wrong with this file; the advice here is the same wherever the reason is given.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ADVICE"]

ADVICE: Mapping[Reason, str] = MappingProxyType(
    {
        # Files
        Reason.MISSING_DIRECTORY: "Correct the path, or create the folder.",
        Reason.NOT_A_DIRECTORY: "Name the skill's folder, or its SKILL.md.",
        Reason.MISSING_SKILL_FILE: "Name a folder that holds skills, or write a SKILL.md there.",
        Reason.FILE_NAME_CASE: "Rename the file to SKILL.md.",
        Reason.UNREADABLE: "Wait for the system to recover, or check the disk: it could not read the file.",
        Reason.PERMISSION_DENIED: "Let the user that runs this read the file, and enter its folder.",
        Reason.UNWRITABLE: "Make the file and its folder writable, or edit the file where it comes from.",
        Reason.TOO_LARGE: "Move what is rarely needed into further files, or leave the file out of the skill.",
        Reason.TOO_MANY_FILES: "Remove files that the skill does not need, or divide the skill.",
        Reason.SYMLINK: "Put a copy in its place, or allow links with follow_symlinks.",
        Reason.SYMLINK_OUTSIDE: "Let the link lead to a place within the directory, or put a copy in its place.",
        Reason.SPECIAL_FILE: "Put a regular file in its place, or remove it.",
        Reason.SCAN_LIMIT: "Move the folder further up, or remove folders that belong to no skill.",
        Reason.MISSING_REFERENCE: "Correct the path under references, or add the file.",
        # The document: frontmatter and body
        Reason.NOT_UTF8: "Save the file as UTF-8.",
        Reason.EMPTY: "Write the frontmatter with name and description, then the instructions.",
        Reason.MISSING_FRONTMATTER: "Begin the file with a line '---', name and description, and another line '---'.",
        Reason.UNCLOSED_FRONTMATTER: "Add a line '---' after the last field.",
        Reason.INVALID_YAML: "Write each field as 'key: value', and put values with special characters in quotes.",
        Reason.YAML_LIMIT: "Make the frontmatter shorter or flatter, and move what is long into the body.",
        Reason.YAML_REPAIRED: "Put the value in double quotes, on one line.",
        Reason.DUPLICATE_KEY: "Keep one of the entries and remove the others.",
        Reason.NOT_JSON: "Write a value that JSON has, or put it in quotes.",
        Reason.HIDDEN_CHARACTERS: "Remove the characters, or check what they say.",
        # Fields
        Reason.MISSING_NAME: "Add a name that equals the name of the folder.",
        Reason.INVALID_NAME: "Use lower-case letters, digits and single hyphens between them.",
        Reason.NAME_TOO_LONG: "Shorten the name, and that of the folder with it.",
        Reason.NAME_MISMATCH: "Change the name in the file, or rename the folder.",
        Reason.MISSING_DESCRIPTION: "Add a description that says what the skill does and when to use it.",
        Reason.DESCRIPTION_TOO_LONG: "Shorten the description, and move the details into the body.",
        Reason.COMPATIBILITY_TOO_LONG: "Shorten the text, or remove the field where there is nothing to say.",
        Reason.UNKNOWN_FIELD: "Correct the field's name, or move the field under metadata.",
        Reason.INVALID_FIELD: "Write a value as it is asked for; a string that looks like a number needs quotes.",
        Reason.TOOL_WITHOUT_SCRIPT: "Name the file of the skill that carries it out, as in `script: scripts/tool.py`.",
        Reason.DECODED_PATTERN: r"Beside a blank, write what JSON writes of a tab or line end: `rm(\s|\\t|\\n)+-r`.",
        Reason.INVALID_PATTERN: "Write it for RE2, without lookaround and backreferences, or remove it.",
        # Among other skills
        Reason.DUPLICATE_NAME: "Rename one of the skills, or ask for each by its path.",
        Reason.NOT_PUBLISHED: "Correct what the message names, if hosts are to see the skill in skills/list.",
    }
)
"""The sentence for each reason that the check of a skill can give; no other reason has one."""
