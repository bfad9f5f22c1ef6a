"""Render the texts that models read: one renderer for tools, prompts, the command line and runs.

`activation` renders one skill, `parts` the beginning of one that is too long, and `catalog` the list of all skills.
`recipient` describes who reads the text,
`adaptation` explains a skill's tools and files to that recipient, and `escaping` keeps foreign text inside our tags.
"""

from skills_core.catalog.catalog import MAX_ENTRY
from skills_core.rendering.activation import (
    FREE_ARGUMENT,
    activation_inputs,
    parameters_of,
    render_activation,
    render_activations,
    render_link,
    render_linked_activation,
    render_request,
    render_unchanged,
)
from skills_core.rendering.catalog import (
    ACTIVATION_TOOL,
    RULE,
    CatalogText,
    activation_rule,
    entries_budget,
    entries_within,
    entry_text,
    listing_order,
    render_catalog,
    render_entries,
    render_entry,
    texts_within,
    utf16_length,
)
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient

__all__ = [
    "ACTIVATION_TOOL",
    "FREE_ARGUMENT",
    "MAX_ENTRY",
    "RULE",
    "UNKNOWN_RECIPIENT",
    "CatalogText",
    "Recipient",
    "activation_inputs",
    "activation_rule",
    "entries_budget",
    "entries_within",
    "entry_text",
    "listing_order",
    "parameters_of",
    "render_activation",
    "render_activations",
    "render_catalog",
    "render_entries",
    "render_entry",
    "render_link",
    "render_linked_activation",
    "render_request",
    "render_unchanged",
    "texts_within",
    "utf16_length",
]
