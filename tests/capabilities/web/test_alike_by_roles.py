"""Alike skills of several roles, over HTTP: no list tells a member of the names or the number of what it cannot see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from server.capabilities.evals.lint import DuplicateKind, duplicates
from server.capabilities.login.static_tokens import TokenFile
from server.hosting import background
from server.hosting.views import seen_by
from tests.capabilities.web.visiting import Browser, browsing
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving, until

FORM = " ".join(f"Write field {number} of the form into row {number * 7}." for number in range(60))
FORMS = {"red": 12, "blue": 5}
ROLES = {"red": ["red-*", "usual-*"], "blue": ["blue-*", "usual-*"], "all": ["*"]}
BUDGET = 4000


@pytest.fixture
def library(make_skill: MakeSkill, skills: Path) -> Path:
    """Two roles have forks of one text; and two skills of red are alike only by one of blue that stands between."""
    for role, count in FORMS.items():
        for number in range(count):
            make_skill(f"{role}-form-{number:02}", description="Sign a form.", body=f"{FORM} {role} {number}.")
    words = [f"w{Random(number).randrange(10**6)}" for number in range(420)]  # noqa: S311 - reproducible, not secret
    for name, begin in (("red-left", 0), ("blue-between", 60), ("red-right", 120)):
        make_skill(name, description="Cross it.", body=" ".join(words[begin : begin + 300]))
    for number in range(110):
        make_skill(f"usual-{number:03}", description=f"Does thing {number} of many things. " * 3)
    return skills


@dataclass(frozen=True)
class Seen:
    """What a member sees of alike skills; `text` is all that it was told."""

    search: dict[str, str]
    catalog: dict[str, int]
    page: dict[str, list[str]]
    text: str


async def seen(served: Served, browser: Browser, token: str) -> Seen:
    """Ask as a member does, until the skills of its role have been compared."""

    async def catalog() -> str:
        listed = (await served.ask("tools/list", token=token)).json()["result"]["tools"]
        return next(str(tool["description"]) for tool in listed if tool["name"] == "activate_skill")

    async def is_compared() -> bool:
        return "alike)" in await catalog()

    await until(is_compared)
    texts = [described := await catalog()]
    matches: list[dict[str, str]] = []
    for query in ("sign a form", "cross it"):
        answer = await served.call("find_skills", token, query=query)
        texts.append(answer.text)
        matches += answer.json()["result"]["structuredContent"]["matches"]
    await browser.log_in(token)
    page = (await browser.open("/")).text
    texts.append(page)
    folds = re.findall(
        r"<h2><a[^>]*>([^<]*)</a>(?:(?!</h2>|<h2>).)*</h2>(?:(?!<h2>).)*?<ul>(.*?)</ul>", page, re.DOTALL
    )
    names = {match["name"] for match in matches}
    texts += [(await browser.open(f"/page/skill/{name}")).text for name in sorted(names)]
    return Seen(
        {match["name"]: match["alike"] for match in matches if "alike" in match},
        {name: int(count) for name, count in re.findall(r"^- ([^:]*):.*\(and (\d+) alike\)$", described, re.MULTILINE)},
        {head: re.findall(r">([^<]+)</a>", others) for head, others in folds},
        "\n".join(texts),
    )


@pytest.mark.parametrize("role", ["red", "blue"])
async def test_groups_tell_a_role_nothing_of_the_skills_of_another(
    library: Path, file: TokenFile, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    monkeypatch.setattr(background, "_FIRST_SECONDS", 0)
    other = next(each for each in FORMS if each != role)
    tokens = {each: file.add(each, (each,), None) for each in ("all", role)}
    options: dict[str, Any] = {
        "access_roles": ROLES,
        "login_tokens": True,
        "catalog_budget": BUDGET,
        "structured_results": True,
    }
    async with serving(library, **options) as served, anyio.create_task_group() as tasks:
        tasks.start_soon(served.host.work)
        async with browsing(served) as browser:
            everything = await seen(served, browser, tokens["all"])
        async with browsing(served) as browser:
            own = await seen(served, browser, tokens[role])
        settings = served.host.settings
        catalog = seen_by((role,), served.host.everything, settings).catalog
        tasks.cancel_scope.cancel()
    # The groups of all skills hold those of both roles.
    count = sum(FORMS.values())
    assert everything.catalog == {"blue-between": 2, "blue-form-00": count - 1}
    assert len(everything.page["blue-form-00"]) == count - 1
    assert everything.page["blue-between"] == ["red-left", "red-right"]
    mine = [f"{role}-form-{number:02}" for number in range(FORMS[role])]
    assert own.catalog == {mine[0]: FORMS[role] - 1}
    assert own.page == {mine[0]: mine[1:]}
    assert [text.partition(" ")[0] for text in own.search.values()] == [str(FORMS[role] - 1)]
    assert f"{other}-" not in own.text
    groups = [group.skills for group in duplicates(catalog.offered) if group.kind is DuplicateKind.ALIKE]
    assert [[skill.key for skill in group] for group in groups] == [mine]
