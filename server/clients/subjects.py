"""The facts about clients by subject: the columns of the tables in `docs/reference/clients.md`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FACTS", "SUBJECTS", "Column", "Subject"]


class Column(NamedTuple):
    """A fact: its field in the profile, its heading, and what it means."""

    field: str
    heading: str
    meaning: str


class Subject(NamedTuple):
    """The columns of one table."""

    title: str
    columns: tuple[Column, ...]


SUBJECTS = (
    Subject(
        "Who they are",
        (
            Column("called", "tool `x` of server `skills`", "what its model calls the tool"),
            Column("tool_name", "tool name", "the longest name of a tool, mostly including the server's name"),
            Column("max_tools", "tools", "the most tools of all servers together"),
            Column("own_activation", "own activate_skill", "it has a tool `activate_skill` of its own"),
            Column("protocol", "protocol", "the protocol version that it asks for"),
            Column("capabilities", "capabilities", "the capabilities that it declares"),
        ),
    ),
    Subject(
        "What the model is shown",
        (
            Column("description", "description", "how much of a tool's description the model sees"),
            Column("instructions", "instructions", "how much of the server's instructions the model sees"),
            Column("framed", "framed", "the caution under which the server's texts are shown"),
            Column("schema", "schema", "the size in bytes from which a tool is dropped because of its input schema"),
            Column("checks_enum", "checks enum", "it refuses a call itself if a value is not in the enum that it read"),
        ),
    ),
    Subject(
        "What is loaded late, and how it is found",
        (
            Column("lazy_tools", "lazy tools", "tools are loaded only when the model searches for them"),
            Column("always_load", "always load", "`anthropic/alwaysLoad` in a tool's `_meta` prevents that"),
            Column("deferred", "before", "how much of a description the model sees before the tool is loaded"),
            Column("loaded", "after", "how much of it once the search has loaded the tool, if that is more than usual"),
            Column("searched", "searched", "the texts in which the client's search looks for tools"),
            Column("search_hint", "search hint", "among them is `anthropic/searchHint` in a tool's `_meta`"),
            Column("search_answer", "search answer", "the longest answer of that search, schemas included"),
        ),
    ),
    Subject(
        "What becomes of results",
        (
            Column("result", "result", "the longest tool result before the client cuts it or writes it to a file"),
            Column("model_results", "by model", "the same for conversations with these models"),
            Column("raised_result", "raised", "the limit to which `anthropic/maxResultSizeChars` in `_meta` raises it"),
            Column("cut_result", "of a longer one", "what the model reads of a result beyond the limit"),
            Column("structure", "structured content", "what `structuredContent` does to the text beside it"),
            Column("embedded", "embedded", "what reaches the model of an embedded resource"),
            Column("links", "links", "what reaches the model of a resource link"),
            Column("untrusted", "untrusted", "results are framed as data whose instructions are to be ignored"),
            Column("compaction", "compacts", "it drops or summarises old results on its own"),
        ),
    ),
    Subject(
        "Changes, resources and prompts",
        (
            Column("list_changed", "list changed", "it fetches a list again after `list_changed`"),
            Column("redefines", "changed tool", "the model sees a changed tool in the same conversation"),
            Column("new_tools", "new tool", "the model sees a tool of a new name in the same conversation"),
            Column("model_reads", "model reads resources", "the model can read resources by itself"),
            Column("reads_disk", "reads disk", "its tools read files outside the workspace as they do within it"),
            Column("starts_in_workspace", "starts in workspace", "its workspace is the working directory of servers"),
            Column("prompts", "prompts", "prompts are shown as commands"),
            Column("prompt_called", "prompt `x` of server `skills`", "how users call the prompt"),
        ),
    ),
    Subject(
        "Skills that it reads by itself",
        (
            Column("native", "own listing", "how it lists skills that it finds in folders"),
            Column("commands", "commands", "how many of its built-in slash commands are known"),
        ),
    ),
)
"""All facts; a column that no client fills is left out of its table."""

FACTS = {column.field: column.heading for subject in SUBJECTS for column in subject.columns}
"""The fields of a profile that are facts, with their labels."""
