"""Which scenarios of the official conformance suite are run, at which revisions of the protocol, and what is exempt.

The suite was written for SDKs: most of its scenarios call tools and read resources of a fixture server, which no
product has. Those are left out. Where a fixture can be had as a skill, it is one: see `playground`.
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
"""Scenarios of an extension belong to no revision; the suite runs them in the modern era."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, the revisions to run it at, and what it needs of the server.

    `fixtures` asks for the skills that stand in for the suite's own prompts; `edits` for skills that come and go
    meanwhile, as the suite can only wait for changes that a tool of its fixture server would make.
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
    """A part of another's check that must fail, what it then says, and why it is not for this product."""

    says: str
    why: str


NOT_FOR_A_PRODUCT: Mapping[str, Mapping[str, Exemption]] = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": Exemption(
            "does not list the diagnostic tool 'test_missing_capability'",
            "calls a fixture's tool that needs the client's sampling; nothing here asks for a client's capability",
        ),
        "sep-2575-missing-capability-http-400": Exemption(
            "does not list the diagnostic tool 'test_missing_capability'",
            "looks at the HTTP status of the same call",
        ),
        "sep-2575-http-server-no-independent-requests-on-stream": Exemption(
            "does not list the diagnostic tool 'test_streaming_elicitation'",
            "calls a fixture's tool that asks the user something; nothing here does",
        ),
        "sep-2575-server-no-log-without-loglevel": Exemption(
            "does not list the diagnostic tool 'test_logging_tool'",
            "calls a fixture's tool that logs to the client; this server has no logging capability",
        ),
    },
}
"""By scenario and check. The suite itself reports each as "Not testable", and as a failure. One that passes, is not
made or fails with another text is a fault, so that nothing hides behind this table."""
