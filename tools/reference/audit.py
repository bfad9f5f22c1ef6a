"""Generate the page of the rules that `skillserve audit` applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.engine import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.findings import Rule

__all__ = ["audit_page"]

_HEAD = """\
# Audit

`skillserve audit PATH...` looks at every file of skills, also at those that are never served, such as `__pycache__` and
hidden files. It asks no model and runs nothing. [The guide](../guides/audit-skills.md) shows how to use it.

## Findings

`skillserve audit --json` prints one object:

```
{
  "results": [{
    "path",                            the skill's folder, relative to the working directory if it lies below
    "findings": [{
      "rule", "severity",              id; note, warning or error
      "path", "line", "column",        within the folder; from 1, null for a finding about a whole file
      "message", "fix",
      "fingerprint",                   stays the same while file and line do, wherever the line moves
      "suppressed", "justification"    whether a suppression covers the finding, and its reason or null
    }]
  }],
  "summary": {"skills", "errors", "warnings", "notes", "suppressed"}
}
```

`--format sarif` prints a SARIF 2.1.0 log for code scanning, with suppressed findings as `suppressions`. The exit code
is 0 without an error, 1 if there is an error that no suppression covers, and 2 for wrong usage.

A finding is one step less severe in documentation: in fenced code, code spans, quotes and tables of Markdown files,
in comments of scripts, and in `evals/`. There it is a note if the paragraph calls it an attack, or if a code span
only names a tag. In `SKILL.md` documentation lowers nothing, because a model follows what it says there; only an
order to drop instructions is a warning if it is quoted and the paragraph calls it data or an attack. A sentence that
forbids what it names ("never run ...") makes a finding a note. No context removes a finding.

More than 20 alike findings in one file are reported as 20 and their number. A rule that fails on a file, and a file
that cannot be read, are errors: the audit vouches for nothing that it has not seen.

## Suppressions

A comment accepts findings in its own line and in the next line that is not blank:

```
<!-- skillserve-audit: ignore destructive-command -- runs in a throw-away container -->
# skillserve-audit: ignore fetch-and-run, padding -- the installer is pinned by its digest
```

`ignore-file` instead of `ignore` accepts findings in the whole file, and is the only way to accept a finding about a
whole file. A suppression without a reason, or of a rule that does not exist, accepts nothing and is a finding itself.

`skillserve serve --audit` accepts suppressions of warnings only: the author of a skill cannot hide an error from the
person who serves it.

## Rules

"""


def audit_page() -> str:
    """Return the page."""
    return _HEAD + "\n\n".join("\n".join(_section(rule)) for rule in RULES) + "\n"


def _section(rule: Rule) -> Iterator[str]:
    security = "" if rule.security_severity is None else f", security severity {rule.security_severity}"
    yield f"### `{rule.id}`"
    yield ""
    yield f"{rule.title}: {rule.severity}{security}."
    yield ""
    yield rule.why
    yield ""
    yield f"*Fix:* {rule.fix}"
