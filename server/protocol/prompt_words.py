"""What users type after the command of a prompt, as each client hands it over.

Clients give an argument one word, all words only where it is required, or a placeholder that they replace in our text
themselves: `PromptWords`. So the lists and texts of prompts differ a little between clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.layout import page_for
from server.clients.profile import PromptWords
from server.listing.prompts import (
    FURTHER_WORDS,
    MESSAGE,
    names_apart,
    with_words_alone,
    with_words_apart,
    with_words_required,
)
from skills_core.rendering.activation import activation_inputs, render_words
from skills_core.rendering.filling import FREE_ARGUMENT, word_placeholders

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


class Typed(NamedTuple):
    """The values for a skill, the user's message, and what the model has to know about them."""

    values: Mapping[str, str]
    message: str | None
    notes: tuple[str, ...] = ()


_ALL_WORDS = "$ARGUMENTS"

_OF_CLIENT = "$1"
"""What a client that fills the text itself sends for the only argument."""

_ELSEWHERE = (
    "Only the beginning of what the user typed may stand here: all of it stands in <command-args> of this same "
    "message, before the skill, and is what counts."
)


def listed_for(client: ClientProfile, page: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return a page of `prompts/list` for a client, so that it hands over what users type."""
    page = page_for(client, page, "prompts")
    match _use(client):
        case PromptWords.FIRST:
            return with_words_apart(page, catalog)
        case PromptWords.REQUIRED:
            return with_words_required(page)
        case PromptWords.ALONE | PromptWords.FILLED:
            return with_words_alone(page)
    return page


def typed(skill: Skill, arguments: Mapping[str, str], client: ClientProfile) -> Typed:
    """Return what a user typed for a skill, from the arguments of its prompt."""
    use = _use(client)
    if use is PromptWords.FILLED and arguments.get(FREE_ARGUMENT) == _OF_CLIENT:
        return _filled_by_client(skill, arguments)
    if use is PromptWords.FIRST:
        return _word_by_word(skill, arguments)
    return Typed(*activation_inputs(skill, arguments))


def _word_by_word(skill: Skill, arguments: Mapping[str, str]) -> Typed:
    """Return the words that stand one in each argument; where all have one, further words may be missing."""
    names = names_apart(skill)
    words = _words(names, arguments)
    given = {name: value for name, value in arguments.items() if name not in FURTHER_WORDS}
    values, message = activation_inputs(skill, {**given, FREE_ARGUMENT: " ".join(words)})
    if len(words) < len(names):
        return Typed(values, message)
    if FREE_ARGUMENT not in values:
        return Typed(values, message, (_ELSEWHERE,))
    # Filled with the first words, the instructions would say something else; the model has all words before it.
    positions = _positions(skill)
    own = {FREE_ARGUMENT: _ALL_WORDS, **{str(at): f"${at}" for at in positions}}
    return Typed({**values, **own}, message, (_ELSEWHERE, _stands_for(positions)))


def typed_words(arguments: Mapping[str, str], client: ClientProfile) -> tuple[str, ...]:
    """Return what a user typed for a prompt that is no skill, as texts for the model."""
    words = arguments.get(FREE_ARGUMENT, "").strip()
    if not words:
        return ()
    if _use(client) is PromptWords.FILLED and words == _OF_CLIENT:
        words = _ALL_WORDS
    notes = (_ELSEWHERE,) if _use(client) is PromptWords.FIRST else ()
    return (render_words(words, "task"), *notes)


def whole_message(arguments: Mapping[str, Any], client: ClientProfile) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the arguments of `with_skills` with all words of its message, and what a model has to know about them."""
    if _use(client) is not PromptWords.FIRST or not arguments.get(MESSAGE):
        return arguments, ()
    names = (MESSAGE, *FURTHER_WORDS)
    words = _words(names, arguments)
    others = {name: value for name, value in arguments.items() if name not in names}
    return {MESSAGE: " ".join(words), **others}, (_ELSEWHERE,) if len(words) == len(names) else ()


def _words(names: Sequence[str], arguments: Mapping[str, str]) -> list[str]:
    """Return the words that stand one in each argument."""
    return [arguments[name] for name in names if arguments.get(name)]


def _filled_by_client(skill: Skill, arguments: Mapping[str, str]) -> Typed:
    """Return the client's own placeholders as values; it counts words from 1, and the last one takes the rest."""
    of_client = {str(at): f"${at + 1}" for at in _positions(skill)}
    return Typed(*activation_inputs(skill, {**arguments, FREE_ARGUMENT: _ALL_WORDS, **of_client}))


def _positions(skill: Skill) -> list[int]:
    return sorted({at for at in word_placeholders(skill).values() if at is not None})


def _stands_for(positions: Sequence[int]) -> str:
    """Return which of the words the placeholders in the instructions stand for."""
    words = "".join(f", ${at} for word {at + 1} of them" for at in positions)
    return f"In the instructions, {_ALL_WORDS} stands for all of these words{words}."


def _use(client: ClientProfile) -> PromptWords | None:
    return client.prompt_words.value if client.prompt_words else None
