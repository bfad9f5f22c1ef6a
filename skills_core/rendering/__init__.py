"""The text that models see: one renderer for tools, prompts, command line and runs.

`activation` is the text of a skill and `catalog` that of all skills; `recipient` is for whom, `adapting` what is said
to them of tools and files, and `containment` what keeps the words of strangers within our tags.
"""

from skills_core.rendering.activation import (
    FREE_ARGUMENT,
    activation_inputs,
    parameters_of,
    render_activation,
    render_request,
    render_unchanged,
)
from skills_core.rendering.catalog import (
    MAX_ENTRY,
    RULE,
    CatalogText,
    entries_within,
    in_order,
    render_catalog,
    render_entry,
    room_for_entries,
    texts_within,
)
from skills_core.rendering.recipient import ANYBODY, Recipient

__all__ = [
    "ANYBODY",
    "FREE_ARGUMENT",
    "MAX_ENTRY",
    "RULE",
    "CatalogText",
    "Recipient",
    "activation_inputs",
    "entries_within",
    "in_order",
    "parameters_of",
    "render_activation",
    "render_catalog",
    "render_entry",
    "render_request",
    "render_unchanged",
    "room_for_entries",
    "texts_within",
]
