"""Import the SDK's server without its client.

For convenience, `mcp/__init__` and `mcp.server/__init__` import the client, the high-level server, an HTTP client and
cryptography. A server on the low-level API needs none of them, and they take a sixth of the start-up time. So the two
packages are registered with a deferred `__init__`, which runs at the first access to one of the package's names.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


def defer_packages() -> None:
    """Defer the `__init__` of the SDK's packages, unless they are imported already."""
    for name in ("mcp", "mcp.server"):
        if name not in sys.modules:
            _defer(name)


def _defer(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return  # the import itself reports what is missing
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Deferred
    sys.modules[name] = module
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)


class _Deferred(ModuleType):
    """A package whose `__init__` runs at the first access to a missing name."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the package defines
        if name.startswith("__"):
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]  # an ordinary module from here on
        assert self.__spec__ is not None  # noqa: S101 - it was made from a spec
        assert self.__spec__.loader is not None  # noqa: S101
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)
