"""Search by meaning: a second ranking, by embeddings of a small model that runs in the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capability import Capability, StatusSection
from skills_core.installation import extra_advice, missing_modules

if TYPE_CHECKING:
    from server.capability import ServerPart
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.selection.fusion import Reranker


def _reranker(settings: Settings, wait: bool) -> Reranker | None:  # noqa: FBT001 - a field of `Capability` calls it
    if not settings.search.embeddings:
        return None
    from server.capabilities.embeddings.second_opinion import SecondOpinion

    return SecondOpinion(settings.search.embeddings_model, wait=wait)


def _part(host: Host) -> ServerPart | None:
    if not host.settings.search.embeddings:
        return None
    from server.capabilities.embeddings.preparation import Preparation
    from server.capabilities.embeddings.second_opinion import SecondOpinion

    opinion = host.reranker
    return host.service(lambda _: Preparation(host, opinion)) if isinstance(opinion, SecondOpinion) else None


def _checks(configuration: Configuration) -> Iterator[ConfigFinding]:
    checked = configuration.checked
    if not checked.can_compare("search") or not checked.settings.search.embeddings:
        return
    from server.capabilities.embeddings.local_model import missing_file
    from server.cli.config_check.finding import Level

    if missing_modules("embeddings"):
        message = "search by meaning needs the extra `embeddings`; words alone rank without it"
        yield checked.finding(Level.WARNING, "search.embeddings", message, extra_advice("embeddings"))
    if missing := missing_file(checked.settings.search.embeddings_model):
        advice = "correct the path, or name a model that fastembed knows"
        yield checked.finding(Level.WARNING, "search.embeddings_model", f"{missing} is missing", advice)


def _status(settings: Settings) -> dict[str, Any]:
    search = settings.search
    there = None
    if search.embeddings:
        from server.capabilities.embeddings.local_model import is_fetched

        there = is_fetched(search.embeddings_model)
    return {
        "on": search.embeddings,
        "installed": not missing_modules("embeddings"),
        "model": search.embeddings_model,
        "fetched": there,
    }


def _status_lines(status: Mapping[str, Any]) -> Iterable[str]:
    if not status["on"]:
        return ("search by meaning: off",)
    if not status["installed"]:
        return (f"search by meaning: words alone rank without the extra `embeddings`; {extra_advice('embeddings')}",)
    state = "is on this machine" if status["fetched"] else "is fetched at its first use"
    return (f"search by meaning: on; the model {status['model']} {state}",)


CAPABILITY: Final = Capability(
    name="embeddings",
    checks=_checks,
    status=StatusSection(_status, _status_lines),
    reranker=_reranker,
    part=_part,
)
