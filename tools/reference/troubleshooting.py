"""Generate the page about symptoms from the kinds that `skillserve doctor` finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capabilities.doctor.symptoms import Health, Kind, Part

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["troubleshooting_page"]

_HEAD: Final = """\
# Troubleshooting

<!-- Generated from the symptoms of `skillserve doctor` by `make reference`; do not edit. -->

`skillserve doctor` finds out why something does not work. It examines this machine: the installation, the settings and
where each comes from, the folders of skills, the address, and each client that is installed, with the server as the
client starts it. With the address of a running server, it asks that server as a client would, in both eras of the
protocol. It changes nothing, and shows no secret.

```sh
skillserve doctor                                   # this machine
skillserve doctor sample_skills                     # with these folders of skills
skillserve doctor https://skills.example.com/mcp --header "Authorization: Bearer $TOKEN"
```

A line begins with `ok`, with `note` if it works and something is worth knowing, or with `FAIL`. The name in brackets,
and `kind` in `doctor --json`, is the heading on this page. The exit code is 1 if a line begins with `FAIL`.
"""

_PARTS: Final = {
    Part.SERVER: "`skillserve doctor URL` asks a running server. It sends the headers of `--header` to the endpoint"
    " alone, and follows no redirect with them.",
}

_HEALTH: Final = {Health.NOTE: "a note", Health.BAD: "it does not work"}


def troubleshooting_page() -> str:
    """Return the page."""
    return _HEAD + "".join(f"\n{block}\n" for part in Part for block in _part(part))


def _part(part: Part) -> Iterator[str]:
    yield f"## {part.value}"
    if part in _PARTS:
        yield _PARTS[part]
    for kind in Kind:
        if kind.value.part is part:
            yield f"### `{kind.key}`"
            yield kind.value.meaning
            yield f"*What to do ({_HEALTH[kind.value.health]}):* {kind.advice}."
