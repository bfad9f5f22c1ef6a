"""The scenarios of the official conformance suite, their revisions of the protocol, and the exemptions.

The suite was written for SDKs: most of its scenarios call tools and read resources of a fixture server, which no
product has. These scenarios are not run. Skills replace fixtures where possible: see `playground`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOT_FOR_A_PRODUCT", "SCENARIOS", "Exemption", "Scenario"]

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
EXTENSION = ""
"""Scenarios of an extension have no revision; the suite runs them in the modern era."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, the revisions to run it at, and what it requires of the server.

    With `fixtures` the server has the skills that replace the suite's prompts. With `edits` a skill is added and
    removed meanwhile, because the suite waits for changes that a tool of its fixture server would make.
    """

    name: str
    revisions: tuple[str, ...]
    fixtures: bool = False
    edits: bool = False


SCENARIOS = (
    Scenario("sep-2640-skills-enumeration", (EXTENSION,)),
    Scenario("sep-2640-skills-manifest", (EXTENSION,)),
    Scenario("sep-2640-skills-directory", (EXTENSION,)),
    Scenario("server-initialize", (HANDSHAKE,)),
    Scenario("server-session-lifecycle", (HANDSHAKE,)),
    Scenario("ping", (HANDSHAKE,)),
    Scenario("tools-list", (HANDSHAKE, MODERN)),
    Scenario("resources-list", (HANDSHAKE, MODERN)),
    Scenario("prompts-list", (HANDSHAKE, MODERN)),
    Scenario("server-sse-multiple-streams", (HANDSHAKE, MODERN)),
    Scenario("dns-rebinding-protection", (HANDSHAKE, MODERN)),
    Scenario("caching", (MODERN,)),
    Scenario("http-header-validation", (MODERN,)),
    Scenario("sep-2164-resource-not-found", (MODERN,)),
    Scenario("completion-complete", (HANDSHAKE, MODERN), fixtures=True),
    Scenario("prompts-get-simple", (HANDSHAKE, MODERN), fixtures=True),
    Scenario("prompts-get-with-args", (HANDSHAKE, MODERN), fixtures=True),
    Scenario("server-stateless", (MODERN,), fixtures=True, edits=True),
)


@dataclass(frozen=True, slots=True)
class Exemption:
    """A third-party check that must fail: a part of its message, and why it does not apply to this product."""

    message: str
    why: str


NOT_FOR_A_PRODUCT: Mapping[str, Mapping[str, Exemption]] = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": Exemption(
            "does not list the diagnostic tool 'test_missing_capability'",
            "calls a fixture's tool that needs the client's sampling; no tool here needs a capability by default",
        ),
        "sep-2575-missing-capability-http-400": Exemption(
            "does not list the diagnostic tool 'test_missing_capability'",
            "checks the HTTP status of the same call",
        ),
        "sep-2575-http-server-no-independent-requests-on-stream": Exemption(
            "does not list the diagnostic tool 'test_streaming_elicitation'",
            "calls a fixture's tool that asks the user a question; no tool here does by default",
        ),
        "sep-2575-server-no-log-without-loglevel": Exemption(
            "does not list the diagnostic tool 'test_logging_tool'",
            "calls a fixture's tool that logs to the client; this server has no logging capability",
        ),
    },
}
"""By scenario and check. The suite reports each as "Not testable" and as a failure. An exempt check that passes, is
missing or fails with another message is a fault, so that the table cannot hide other faults."""
