"""What users type after the command of a prompt, as each client hands it over.

Clients give an argument the first word alone, all words only where it is required, or a placeholder that they replace
in our text themselves: `PromptWords`. So the lists and texts of prompts differ a little between clients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.layout import page_for
from server.clients.profile import PromptWords
from server.listing.prompts import with_words_alone, with_words_required
from skills_core.rendering.activation import activation_inputs, render_words
from skills_core.rendering.filling import FREE_ARGUMENT, word_placeholders

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from skills_core.skills.skill import Skill


class Typed(NamedTuple):
    """The values for a skill, the user's message, and what the model has to know about them."""

    values: Mapping[str, str]
    message: str | None
    notes: tuple[str, ...] = ()


_ALL_WORDS = "$ARGUMENTS"

_OF_CLIENT = re.compile(r"\$[0-9]{1,3}")

_ELSEWHERE = (
    "Only the first word of what the user typed may stand here: all of it stands in <command-args> of this same "
    "message, before the skill, and is what counts."
)


def listed_for(client: ClientProfile, page: dict[str, Any]) -> dict[str, Any]:
    """Return a page of `prompts/list` for a client, so that it hands over what users type."""
    page = page_for(client, page, "prompts")
    match _use(client):
        case PromptWords.REQUIRED:
            return with_words_required(page)
        case PromptWords.ALONE:
            return with_words_alone(page)
    return page


def typed(skill: Skill, arguments: Mapping[str, str], client: ClientProfile) -> Typed:
    """Return what a user typed for a skill, from the arguments of its prompt."""
    use = _use(client)
    if use is PromptWords.FILLED and _OF_CLIENT.fullmatch(arguments.get(FREE_ARGUMENT, "")):
        return _filled_by_client(skill, arguments)
    values, message = activation_inputs(skill, arguments)
    if use is not PromptWords.FIRST or not message:
        return Typed(values, message)
    if FREE_ARGUMENT not in values:
        return Typed(values, message, (_ELSEWHERE,))
    # Filled with the first word, the instructions would say something else; the model has all words before it.
    positions = _positions(skill)
    own = {FREE_ARGUMENT: _ALL_WORDS, **{str(at): f"${at}" for at in positions}}
    return Typed({**values, **own}, message, (_ELSEWHERE, _stands_for(positions)))


def typed_words(arguments: Mapping[str, str], client: ClientProfile) -> tuple[str, ...]:
    """Return what a user typed for a prompt that is no skill, as texts for the model."""
    words = arguments.get(FREE_ARGUMENT, "").strip()
    if not words:
        return ()
    if _use(client) is PromptWords.FILLED and _OF_CLIENT.fullmatch(words):
        words = _ALL_WORDS
    return (render_words(words, "task"), *notes_for(client))


def notes_for(client: ClientProfile) -> tuple[str, ...]:
    """Return what a model has to know about the words that this client hands over."""
    return (_ELSEWHERE,) if _use(client) is PromptWords.FIRST else ()


def _filled_by_client(skill: Skill, arguments: Mapping[str, str]) -> Typed:
    """Return the client's own placeholders as values; it counts words from 1, and the last one takes the rest."""
    alone = arguments[FREE_ARGUMENT] == "$1"
    words = _ALL_WORDS if alone else arguments[FREE_ARGUMENT]
    of_client = {str(at): f"${at + 1}" for at in _positions(skill)} if alone else {}
    values, message = activation_inputs(skill, {**arguments, FREE_ARGUMENT: words, **of_client})
    return Typed(values, message)


def _positions(skill: Skill) -> list[int]:
    return sorted({at for at in word_placeholders(skill).values() if at is not None})


def _stands_for(positions: Sequence[int]) -> str:
    """Return which of the words the placeholders in the instructions stand for."""
    words = "".join(f", ${at} for word {at + 1} of them" for at in positions)
    return f"In the instructions, {_ALL_WORDS} stands for all of these words{words}."


def _use(client: ClientProfile) -> PromptWords | None:
    return client.prompt_words.value if client.prompt_words else None
