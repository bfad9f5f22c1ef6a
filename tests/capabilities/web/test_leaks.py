"""What a role cannot see is nowhere: tests walk all pages that its members reach, and all addresses that they guess."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from server.capabilities.login.static_tokens import TokenFile
from server.capabilities.web.catalog_page import skill_address
from tests.capabilities.web.visiting import Browser, browsing
from tests.conftest import MakeSkill
from tests.server.serving import serving

ROLES = ("red", "blue", "green")
WORDS = ("name", "text", "body", "file", "path", "tag")
MAX_PAGES = 400


def marks(role: str) -> list[str]:
    """Return the words that stand in the skills of a role alone."""
    return [f"{role}{word}zq" for word in WORDS]


def write_skills(make_skill: MakeSkill) -> None:
    for role in ROLES:
        name, text, body, file, path, tag = marks(role)
        fields = f"tags: [{tag}, shared]\nlicense: {role}licensezq"
        body = f"# {body}\n\n[it]({path}.md)"
        files = {f"{path}.md": file.encode(), "evals/evals.json": f'{{"x": "{role}evalzq"}}'.encode()}
        make_skill(name, description=f"Does {text}. Use for shared work.", body=body, fields=fields, files=files)
        make_skill(f"{role}invalidzq", description="''")
        make_skill(f"{role}elsewherezq", fields="metadata:\n  jdai:\n    requires:\n      env: [NO_SUCH_VARIABLE]")
        # The second of two skills at one place of their sources is shadowed, or has a longer key.
        make_skill(f"deep/{name}", description=f"Does {text} again. Use for shared work.")
    make_skill("common", description="Everybody has it. Use for shared work.", fields="tags: [shared]")


async def walked(browser: Browser) -> dict[str, str]:
    """Return the text of every page that links lead to from the list, by address."""
    found: dict[str, str] = {}
    waiting = ["/", "/?state=invalid", "/?state=excluded", "/?faulty=yes", "/?order=changed", "/?q=shared"]
    while waiting and len(found) < MAX_PAGES:
        address = waiting.pop()
        if address in found:
            continue
        answer = await browser.open(address)
        found[address] = f"{answer.headers}\n{answer.text}"
        links = re.findall(r'(?:href|action)="(/[^"]*)"', answer.text)
        waiting += [html.unescape(link).partition("#")[0] for link in links if "/login" not in link]
    return found


@pytest.mark.parametrize("role", ROLES)
async def test_no_page_and_no_guess_tells_a_role_of_the_skills_of_others(
    skills: Path, make_skill: MakeSkill, file: TokenFile, role: str
) -> None:
    write_skills(make_skill)
    roles = {each: [f"{each}*", "common"] for each in ROLES}
    token = file.add("member", (role,), None)
    async with serving(skills, login_tokens=True, access_roles=roles) as served, browsing(served) as browser:
        assert (await browser.open("/")).status_code == 401
        await browser.log_in(token)
        found = await walked(browser)
        guesses = [skill_address(skill) for skill in served.host.everything.skills]
        guesses += [f"/page/skill/{quote(word)}" for each in ROLES for word in marks(each)]
        guesses += [f"{address}?file={quote(f'{each}pathzq.md')}" for address in guesses for each in ROLES]
        guesses += [f"/?q={word}" for each in ROLES for word in marks(each)]
        guesses += [f"/page/{tab}" for tab in ("live", "activity", "runs", "schedules", "improvements", "connect")]
        for guess in guesses:
            answer = await browser.open(guess)
            # What was asked for is repeated in the field for the search, and nowhere else.
            said = re.sub(r'<input id="q"[^>]*>', "", answer.text)
            found[guess] = f"{answer.headers}\n{said}"
    assert any(f"{role}namezq" in text for text in found.values())
    others = [each for each in ROLES if each != role]
    for address, text in found.items():
        told = [word for other in others for word in re.findall(rf"{other}\w*zq", text)]
        assert told == [], address
        assert f"{role}evalzq" not in text, address
        assert str(skills) not in text, address
    # Addresses of what is hidden and of what does not exist have the same answer.
    hidden, absent = (found[f"/page/skill/{name}"] for name in (f"{others[0]}namezq", f"{others[0]}tagzq"))
    assert hidden == absent
