from __future__ import annotations

from importlib import import_module
from itertools import chain

import pytest

from server.config.settings.tools import OptionalTool
from server.listing.tools import CORE_TOOLS, TOOL_MODULES


@pytest.mark.parametrize("module", TOOL_MODULES)
def test_a_module_defines_the_tools_that_it_is_registered_for_in_their_order(module: str) -> None:
    assert tuple(tool.name for tool in import_module(module).TOOLS) == TOOL_MODULES[module]


def test_every_tool_has_its_module_once() -> None:
    assert sorted(chain(*TOOL_MODULES.values())) == sorted([*CORE_TOOLS, *OptionalTool])
