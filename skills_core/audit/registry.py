"""The table of all rules, composed of the tables of the subjects."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from skills_core.audit.rules import unread_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.audit.rule import Rule

__all__ = ["RULES", "RULES_BY_ID"]

RULES: Final[tuple[Rule, ...]] = (*unread_files.RULES,)
"""All rules, in the order of the documentation."""

RULES_BY_ID: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in RULES})
"""The rules by their ids."""
