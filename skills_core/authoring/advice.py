"""One sentence of advice for each reason that the validation of a skill can report.

A diagnostic's message describes the fault in one file; the advice is the same for every diagnostic with that reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from skills_core.diagnostics import Reason

ADVICE: Mapping[Reason, str] = MappingProxyType(
    {
        # Files
        Reason.MISSING_DIRECTORY: "Correct the path, or create the folder.",
        Reason.NOT_A_DIRECTORY: "Name the skill's folder, or its SKILL.md.",
        Reason.MISSING_SKILL_FILE: "Name a folder that holds skills, or write a SKILL.md there.",
        Reason.FILE_NAME_CASE: "Rename the file to SKILL.md.",
        Reason.UNREADABLE: "Try again later, or check the disk: the system could not read the file.",
        Reason.PERMISSION_DENIED: "Give the user that runs this permission to read the file and to enter its folder.",
        Reason.UNWRITABLE: "Make the file and its folder writable, or edit the original of the file.",
        Reason.TOO_LARGE: "Move rarely needed content into other files, or remove the file from the skill.",
        Reason.TOO_MANY_FILES: "Remove files that the skill does not need, or split the skill.",
        Reason.SYMLINK: "Replace the link by a copy, or allow links with follow_symlinks.",
        Reason.SYMLINK_OUTSIDE: "Point the link to a place inside the directory, or replace it by a copy.",
        Reason.SPECIAL_FILE: "Replace it by a regular file, or remove it.",
        Reason.SCAN_LIMIT: "Move the folder further up, or remove folders that belong to no skill.",
        Reason.MISSING_REFERENCE: "Correct the path under references, or add the file.",
        Reason.PATH_CASE: "Write the path as the file is spelled, or rename the file.",
        # The document: frontmatter and body
        Reason.NOT_UTF8: "Save the file as UTF-8.",
        Reason.EMPTY: "Write the frontmatter with name and description, then the instructions.",
        Reason.MISSING_FRONTMATTER: "Begin the file with a line '---', then name and description, then a line '---'.",
        Reason.UNCLOSED_FRONTMATTER: "Add a line '---' after the last field.",
        Reason.STAR_FENCES: "Write '---' for '***' on the lines before and after the fields.",
        Reason.INVALID_YAML: "Write each field as 'key: value', and put values with special characters in quotes.",
        Reason.YAML_LIMIT: "Make the frontmatter shorter or flatter, and move long texts into the body.",
        Reason.YAML_REPAIRED: "Put the value in double quotes, on one line.",
        Reason.DUPLICATE_KEY: "Keep one of the entries and remove the others.",
        Reason.NOT_JSON: "Use a value that JSON can represent, or put it in quotes.",
        Reason.HIDDEN_CHARACTERS: "Remove the characters, or check their meaning.",
        # Fields
        Reason.MISSING_NAME: "Add a name that equals the name of the folder.",
        Reason.INVALID_NAME: "Use lower-case letters, digits and single hyphens between them.",
        Reason.NAME_TOO_LONG: "Shorten the name, and rename the folder accordingly.",
        Reason.NAME_MISMATCH: "Change the name in the file, or rename the folder.",
        Reason.MISSING_DESCRIPTION: "Add a description that says what the skill does and when to use it.",
        Reason.DESCRIPTION_TOO_LONG: "Shorten the description, and move the details into the body.",
        Reason.COMPATIBILITY_TOO_LONG: "Shorten the text, or remove the field if it says nothing.",
        Reason.UNKNOWN_FIELD: "Correct the field's name, or move the field under metadata.",
        Reason.INVALID_FIELD: "Write a value of the expected type; a string that looks like a number needs quotes.",
        Reason.INVALID_VERSION: "Write three numbers with dots between them, in quotes, as in '1.4.0'.",
        Reason.TOOL_WITHOUT_SCRIPT: "Name the skill's file that implements the tool, as in `script: scripts/tool.py`.",
        Reason.DECODED_PATTERN: r"Also match JSON's escapes of tabs and line ends, as in `rm(\s|\\t|\\n)+-r`.",
        Reason.INVALID_PATTERN: "Rewrite it for RE2, without lookaround and backreferences, or remove it.",
        # The audit
        Reason.AUDIT_FINDING: "Correct what `skillserve audit` names, or accept it there with a reason.",
        # Among other skills
        Reason.DUPLICATE_NAME: "Rename one of the skills, or refer to each by its path.",
        Reason.NOT_PUBLISHED: "Correct what the message names if hosts should see the skill in skills/list.",
    }
)
"""The advice by reason, for exactly those reasons that the validation of a skill can report."""
