from __future__ import annotations

from importlib import import_module

import pytest

from server.capability import ToolModule
from server.config.settings.tools import OptionalTool
from server.listing.tools import CORE_TOOLS, TOOL_MODULES


@pytest.mark.parametrize("registered", TOOL_MODULES, ids=lambda each: each.module)
def test_a_module_defines_the_tools_that_it_is_registered_for_in_their_order(registered: ToolModule) -> None:
    assert tuple(tool.name for tool in import_module(registered.module).TOOLS) == registered.names


def test_every_tool_has_its_module_once() -> None:
    assert sorted(name for each in TOOL_MODULES for name in each.names) == sorted([*CORE_TOOLS, *OptionalTool])
