"""Write the figures of the audit as Markdown."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from skills_core.audit.engine import RULES
from tools.audit_figures.judgements import Skills, judgement_table, read_judgements
from tools.audit_figures.manifests import Kind, Part, read_cases
from tools.audit_figures.measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.audit_figures.measure import Counts, Figures

__all__ = ["figures_page", "tables"]

_HEAD = """# Figures of the audit

How well the rules of [`skillserve audit`](audit.md) find what they should: first in sets of others, whose figures
count for skills that you do not know, then in skills of our own. No rule replaces a reader: **the audit misses most
hostile skills of some kinds**, and finds something wrong with some harmless ones.

## Sets of others

A skill counts as found if it has an error, with `--no-suppressions`; warnings and notes do not count. The sets are
not part of this repository, and nothing in them was run.

| Set | Skills | Version 82cef65 | With the rule `download-to-run` |
|---|---|---|---|
| MalSkills (46d60f0), malicious | 100 | 68 found | 92 found |
| MalSkills (46d60f0), harmless | 100 | 8 flagged | 7 flagged |
| MaliciousSkillBench (893afd6), malicious | 568 of 7,505 | 161 found | 160 found |

- *MalSkills* is `data/ground_truth` of ShenaoW/MalSkills, mostly one campaign: a prerequisite that is downloaded with
  a password, or a script from a page that is pasted into a terminal. The rule `download-to-run` was written for it.
  Of the 32 skills that 82cef65 missed, 15 were read before the rule was written, of which it finds 11; of the 17 that
  were not, it finds 14. So the 92 are better than what another campaign would give. The 8 that are still missed have
  no such text: a suspicious address alone, an installer of a well-known tool, or nothing in the text that is hostile.
- *MaliciousSkillBench* of protectskills collects 13 sources; the 568 are those whose files its repository holds as
  archives below 4 MiB. The authors of the rules read none of them. By source, the audit finds 97 of 153
  (MaliciousAgentSkillsBench), 26 of 90 (SkillFortifyBench), 14 of 21 (ATR), 9 of 33 (SkillLeakBench), 8 of 86
  (AgentTrap), 4 of 30 (Agent Skill Malware), 1 of 154 (SkillSafetyBench) and 1 of 1 (SkillTrojan).
- The five fewer findings in all sets were wrong: `curl … | python3 -c "import json …"` reads data, not a program.
  Four of them stood in malicious skills, for another reason than the one that makes them so.
- The harmless skills that are flagged have a setting of an agent that they change (2), a service of the system that
  they install, a value that looks like a secret, a name that is almost that of another skill, an address that
  collects what is sent to it, and a test that passes on the environment.

`python -m tools.audit_figures` measures the following again and prints its tables, `--faults` also each fault; `make
reference` writes this page.

## Labelled skills

The skills lie in `tools/audit_figures/cases` as text manifests, which no agent loads. They follow published patterns:
the issue codes of snyk/agent-scan, the evals of cisco-ai-defense/skill-scanner, the fixtures of NVIDIA/SkillSpector,
the OWASP Agentic Skills Top 10, and the classes of protectskills/MaliciousAgentSkillsBench. All texts are our own.

*Training* cases were used to correct the rules. *Held out* cases were written before the rules were first applied,
and no rule was changed because of one of them, except for those of the [second batch](#first-measurement). Both are by
the authors of the rules, so real attacks will be missed more often.

An *attack* counts as found if every rule that should find it does. Findings that documentation demotes to notes do
not count, neither as found nor as false alarms, except for rules whose findings are always notes.

"""

_RULES_HEAD = """
## Rules

*Precision* is the part of the findings that is right, *recall* the part of the faults that is found. Behind each are
the numbers that it comes from: with so few, a figure of 1.00 means little for one rule.

"""

_TAIL = """
## First measurement

Before any correction, the rules found 78 of 85 attacks and 13 of 14 weaknesses of the training part, with a false
alarm in 2 of 53 harmless skills; and 50 of 56 attacks and 6 of 6 weaknesses of the held out part, with a false alarm
in 1 of 22. In the held out part, 59 of 64 findings had a label, and 59 of 65 labels were found. Four of the other
five findings are right; their labels were added after reading. The corrections for training cases and published
skills also found three attacks of the held out part that were missed at first; for two of them, the labels now name
the rules `hidden-code` and `secret-in-request`, which were added for published attacks and for training cases.

A second batch of the held out part, 24 disguised attacks and 10 harmless skills (`disguised.cases`), was written
before the rule `disguised-instruction`, the phrases of other languages and the reading of notebooks. The rules before
them found 3 of its attacks, with no false alarm. The first version of the new rules found 19, with an alarm in each
harmless skill, because the new rule failed. Its faults in Spanish, German and Russian and the reading of notebooks were
corrected with these cases, so their figures are better than those of texts that no one has seen.

## Published attacks

The audit was applied to attacks that others published, which are not copied here. It finds 9 of the 17 in the evals
of cisco-ai-defense/skill-scanner (48f5934). The others are a test file for virus scanners, three texts about
vulnerable servers, and programs that are vulnerable rather than hostile, for which there are no rules: `eval` of
input, SQL injection, path traversal, an endless loop. It finds 4 of the 13 hostile fixtures of NVIDIA/SkillSpector
(698e2bf). The other nine say in plain words what needs a reader to understand: a false story, a script that does
something else than its description. Of 11 harmless examples of both, none has an error, and one has a warning, which
is right.
"""

_PUBLIC = """
## Public skills

The authors of the rules read the place of each finding and judged it: it is *right* if what it says is true and worth a
look of the person who publishes or installs the skill. The judgements lie in `tools/audit_figures/judgements.tsv`, one
a line. The skills are those of anthropics/skills (9d2f1ae), anthropics/claude-plugins-official (340e33a),
obra/superpowers (44c9b2d) and trailofbits/skills (293fb74). Many of them are about security, which is where false
alarms are likely.

Rules that were mostly wrong were corrected, and the tables show what is left. Before, the same skills had 137 errors
and warnings. The 15 that became notes were all wrong: attacks that references explain, tags and tools that are only
named. One wrong error became a warning. The sample had 173 findings: 89 were further notes on commands in references,
which are one note for each file now, and many were notes on files that a host finds by itself.

### Twenty skills, every finding

Every seventh of the 143 skills, in order of their paths, from the first:

{twenty}

{twenty_table}

### All 143 skills, errors and warnings

{alarms_table}

The errors are twelve commands that a host runs when it loads the skill, one download that runs, and one change of an
agent's settings. None of these skills is an attack: the audit shows what a person should look at.

### Skills of an earlier copy of anthropics/skills, every finding

No error may be found in these {corpus} skills.

{corpus_table}
"""


def figures_page() -> str:
    """Return the page."""
    skills, rules = (list(lines) for lines in _tables())
    return "\n".join([_HEAD + "\n".join(skills), _RULES_HEAD + "\n".join(rules), _TAIL + _public_skills()])


def _public_skills() -> str:
    judged = {part: read_judgements(part) for part in Skills}
    tables = {f"{part}_table": "\n".join(judgement_table(judged[part])) for part in Skills}
    named = {part: list(dict.fromkeys(each.skill.rpartition("/")[2] for each in judged[part])) for part in Skills}
    twenty = fill(", ".join(f"`{name}`" for name in named[Skills.TWENTY]), 120, break_on_hyphens=False)
    return _PUBLIC.format(twenty=twenty, corpus=len(named[Skills.CORPUS]), **tables)


def tables() -> Iterator[str]:
    """Yield the lines of the tables: whole skills first, then each rule."""
    skills, rules = _tables()
    yield from (*skills, "", *rules)


def _tables() -> tuple[Iterator[str], Iterator[str]]:
    cases = read_cases()
    parts = {part: measure(case for case in cases if case.part is part) for part in Part}
    return _of_skills(parts), _of_rules(parts)


def _of_skills(parts: dict[Part, Figures]) -> Iterator[str]:
    yield "| Part | Attacks found | Weaknesses found | Harmless skills with a false alarm |"
    yield "|---|---|---|---|"
    for part, figures in parts.items():
        shares = (f"{figures.found[kind]} of {figures.cases[kind]}" for kind in Kind)
        yield f"| {_TITLES[part]} | {' | '.join(shares)} |"


_TITLES = {Part.TRAIN: "training", Part.HELD_OUT: "held out"}


def _of_rules(parts: dict[Part, Figures]) -> Iterator[str]:
    yield "| Rule | Level | Precision, training | Recall, training | Precision, held out | Recall, held out |"
    yield "|---|---|---|---|---|---|"
    for rule in RULES:
        cells = (cell for figures in parts.values() for cell in _cells(figures.rules[rule.id]))
        yield f"| `{rule.id}` | {rule.severity} | {' | '.join(cells)} |"
    totals = (cell for figures in parts.values() for cell in _cells(figures.total))
    yield f"| **all** | | {' | '.join(totals)} |"


def _cells(counts: Counts) -> tuple[str, str]:
    return (
        _share(counts.precision, counts.right, counts.right + counts.wrong),
        _share(counts.recall, counts.right, counts.right + counts.missed),
    )


def _share(value: float | None, part: int, whole: int) -> str:
    return "-" if value is None else f"{value:.2f} ({part}/{whole})"
