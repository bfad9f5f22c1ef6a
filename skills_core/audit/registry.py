"""The table of all rules, composed of the tables of the subjects."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from skills_core.audit.rules import (
    binaries,
    code_flow,
    commands,
    credentials,
    descriptions,
    disguised,
    exfiltration,
    grants,
    hidden_text,
    injection,
    links,
    menus,
    name_twins,
    packages,
    pre_execution,
    references,
    scripts,
    secrets,
    size,
    tainted_shell,
    unread_files,
    write_targets,
)
from skills_core.audit.suppressions import invalid_suppressions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.audit.rule import Rule

__all__ = ["RULES", "RULES_BY_ID"]

_OF_SUBJECTS: Final[tuple[Rule, ...]] = (
    *hidden_text.RULES,
    *injection.RULES,
    *disguised.RULES,
    *exfiltration.RULES,
    *commands.RULES,
    *credentials.RULES,
    *code_flow.RULES,
    *secrets.RULES,
    *write_targets.RULES,
    *tainted_shell.RULES,
    *binaries.RULES,
    *links.RULES,
    *packages.RULES,
    *name_twins.RULES,
    *pre_execution.RULES,
    *grants.RULES,
    *unread_files.RULES,
    *descriptions.RULES,
    *size.RULES,
    *references.RULES,
    *menus.RULES,
    *scripts.RULES,
)

RULES: Final[tuple[Rule, ...]] = (*_OF_SUBJECTS, invalid_suppressions([rule.id for rule in _OF_SUBJECTS]))
"""All rules, in the order of the documentation."""

RULES_BY_ID: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in RULES})
"""The rules by their ids."""
