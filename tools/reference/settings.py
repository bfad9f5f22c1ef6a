"""Generate the reference of settings from the model and the docstrings below its fields."""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec import NODEFAULT, Struct
from msgspec.inspect import Type, type_info
from msgspec.structs import fields
from typer.main import get_command

from server.cli.app import app
from server.config.settings.names import BY_PATH, SECTIONS
from server.config.settings.project import ProjectDiscovery, ProjectSource
from server.config.settings.skills import SourceSettings
from tools.reference.value_types import described, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from server.config.settings.names import Setting

__all__ = ["docstrings_of", "settings_page"]

_HEAD: Final = """# Settings

<!-- Generated from the sections of settings by `make reference`; do not edit. -->

A setting can be given in several places; the first place that has it wins:

1. a flag on the command line,
2. an environment variable (an empty one counts as not set; lists are separated by commas, switches are `true` or
   `false`),
3. your own `skillserve.toml`, in `$XDG_CONFIG_HOME/skillserve`, which is usually `~/.config/skillserve`
   (`%APPDATA%\\skillserve` on Windows),
4. for `watch.mode` and `watch.debounce_ms`, JD.AI's `skills.json`,
5. the default.

```toml
[http]
port = 9000

[catalog]
pinned = ["release-notes"]

[[discovery.sources]]
path = "~/team/skills"
```

Every command reads all settings. An unknown section or key, or an invalid value, ends the command with exit code 2 and
a message that names the setting and its origin.
"""

_PROJECT: Final = """## The file of a project

A `skillserve.toml` in the working directory belongs to the project. Once you
[trust the project](../guides/choose-sources.md#trust-a-project), these of its keys apply, to the project's own skills
only: {keys}. A source in it may have {source_keys}. All other keys in it are ignored and named on stderr.
"""


def settings_page() -> str:
    """Return the page."""
    flagged = {option.name for option in _serve().params} | {"strictness", "adapt"}
    parts = [_HEAD]
    for section, found in SECTIONS.items():
        kind = found.kind
        parts += [f"## `[{section}]`\n", f"{inspect.getdoc(kind)}\n"]
        texts, kinds = docstrings_of(kind), _types_of(kind)
        for setting in (each for each in BY_PATH.values() if each.section == section):
            parts += _entry(setting, texts[setting.key], kinds[setting.key], has_flag=setting.option in flagged)
        if section == "discovery":
            parts += _sources()
    keys = listed(f"discovery.{name}" for name in ProjectDiscovery.__struct_fields__)
    parts.append(_PROJECT.format(keys=keys, source_keys=listed(ProjectSource.__struct_fields__)))
    return "\n".join(parts)


def docstrings_of(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a struct, parsed from its source because Python discards them."""
    definition, *_ = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    found = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
            case _:
                pass
    return found


def _serve() -> Any:  # noqa: ANN401 - typer does not export the type
    return get_command(app).commands["serve"]  # type: ignore[attr-defined]


def _entry(setting: Setting, text: str, kind: Type, *, has_flag: bool) -> Iterator[str]:
    yield f"### {'.'.join(setting.path)}\n"
    yield f"{text}\n"
    yield f"- Value: {described(kind)}"
    yield f"- Default: {_shown(setting.default)}"
    if setting.variable:
        from_file = f", or `{setting.file_variable}` with the path of a file" if setting.file_variable else ""
        yield f"- Variable: `{setting.variable}`{from_file}"
    if has_flag:
        yield f"- Flag of `serve`: `{setting.flag}`"
    yield ""


def _sources() -> Iterator[str]:
    texts, kinds = docstrings_of(SourceSettings), _types_of(SourceSettings)
    defaults: Mapping[str, Any] = {field.name: field.default for field in fields(SourceSettings)}
    yield "Keys of a table `[[discovery.sources]]`; without a default, the setting of `[discovery]` applies:\n"
    yield "| Key | Value | Default | Meaning |\n|---|---|---|---|"
    for key, text in texts.items():
        default = "required" if defaults[key] is NODEFAULT else _shown(defaults[key])
        yield f"| `{key}` | {described(kinds[key])} | {default} | {' '.join(text.split())} |"
    yield ""


def _types_of(kind: type[Struct]) -> dict[str, Type]:
    return {field.name: type_info(field.type) for field in fields(kind)}


def _shown(value: object) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
