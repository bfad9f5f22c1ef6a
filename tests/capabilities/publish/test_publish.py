"""Everybody can download what is published, and gets the bytes that the index announces."""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import os
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import anyio
import anyio.to_thread
import httpx2
import pytest

from server.capabilities.publish.publication import Archives
from server.capabilities.publish.settings import check_publish, public_roles
from server.cli.config_check.settings_check import Configuration, check_settings
from server.config.jdai import JdaiSettings
from server.config.machine import Machine, current_places
from server.hosting.verified_reader import read_whole
from server.requests import DOWNLOAD_METHOD, HTTP_METHOD, LIMIT_METHOD
from skills_core.skills.skill import Skill
from tests.conftest import MakeSkill
from tests.permissions import CAN_BE_BOUND, bound_by_permissions
from tests.server.serving import Served, serving, until
from tests.server.settings import make_settings

FOLDER = "/.well-known/agent-skills"
INDEX = f"{FOLDER}/index.json"
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
ROLES = {"public": ["open-*"], "staff": ["*"]}


@pytest.fixture
def library(make_skill: MakeSkill, skills: Path) -> Path:
    make_skill("open-one")
    folder = make_skill("open-many")
    (folder / "scripts").mkdir()
    (folder / "scripts/run.sh").write_text("#!/bin/sh\n")
    (folder / "scripts/run.sh").chmod(0o755)
    (folder / "Größe 漢字.md").write_bytes(b"\xff\x00")
    make_skill("secret-plans", description="Where the quokka lives.")
    return skills


async def entries(served: Served, index: str = INDEX) -> dict[str, Mapping[str, str]]:
    """Return the entries of an index, each with the bytes that it announces."""
    answer = await served.client.get(served.at(index))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["$schema"] == SCHEMA
    for each in found["skills"]:
        download = await served.client.get(urljoin(served.at(index), each["url"]))
        assert download.status_code == 200
        assert each["digest"] == "sha256:" + hashlib.sha256(download.content).hexdigest()
    return {each["name"]: each for each in found["skills"]}


def unpacked(raw: bytes) -> dict[str, tuple[bytes, int]]:
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as tar:
        found = [(each, tar.extractfile(each)) for each in tar.getmembers()]
        return {each.name: (file.read(), each.mode) for each, file in found if file is not None}


async def test_the_index_has_each_skill_and_the_digests_of_what_is_served(library: Path) -> None:
    async with serving(library) as served:
        found = await entries(served)
        one = await served.client.get(served.at(f"{FOLDER}/open-one/SKILL.md"))
        many = await served.client.get(served.at(f"{FOLDER}/open-many.tar.gz"))
    assert {name: (each["type"], each["url"]) for name, each in found.items()} == {
        "open-many": ("archive", "open-many.tar.gz"),
        "open-one": ("skill-md", "open-one/SKILL.md"),
        "secret-plans": ("skill-md", "secret-plans/SKILL.md"),
    }
    assert found["secret-plans"]["description"] == "Where the quokka lives."
    assert one.content == (library / "open-one/SKILL.md").read_bytes()
    assert one.headers["content-type"] == "text/markdown; charset=utf-8"
    assert many.headers["content-type"] == "application/gzip"
    assert unpacked(many.content) == {
        "SKILL.md": ((library / "open-many/SKILL.md").read_bytes(), 0o644),
        "Größe 漢字.md": (b"\xff\x00", 0o644),
        "scripts/run.sh": (b"#!/bin/sh\n", 0o644 if os.name == "nt" else 0o755),
    }


async def test_an_index_below_the_endpoint_leads_to_downloads_there(library: Path) -> None:
    async with serving(library) as served:
        assert await entries(served, f"/mcp{INDEX}") == await entries(served)


@pytest.mark.parametrize("path", [INDEX, f"{FOLDER}/open-one/SKILL.md", f"{FOLDER}/open-many.tar.gz"])
async def test_a_client_that_has_the_bytes_gets_none(library: Path, path: str) -> None:
    async with serving(library) as served:
        whole = await served.client.get(served.at(path))
        head = await served.client.head(served.at(path))
        assert (head.status_code, head.content) == (200, b"")
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
        assert whole.headers["content-length"] == str(len(whole.content))
        assert whole.headers["cache-control"] == "no-cache"
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert "transfer-encoding" not in whole.headers
        tag = whole.headers["etag"]
        for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = await served.client.get(served.at(path), headers={"If-None-Match": given})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        other = await served.client.get(served.at(path), headers={"If-None-Match": '"other"'})
        assert other.content == whole.content
        assert (await served.client.post(served.at(path))).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/index", "/none.tar.gz", "/none/SKILL.md", "/open-one.tar.gz", "/open-many/SKILL.md"),
        *("/open-many/scripts/run.sh", "/../../open-one/SKILL.md", "/..%2fskills.tar.gz", "/user-only/SKILL.md"),
        *("/a/open-one/SKILL.md", "/OPEN-ONE/SKILL.md", "/skill:%2f%2fopen-one/SKILL.md", "/%00.tar.gz"),
    ],
)
async def test_nothing_else_is_there(make_skill: MakeSkill, library: Path, path: str) -> None:
    make_skill("user-only", fields="disable-model-invocation: true")
    async with serving(library) as served:
        assert (await served.client.get(served.at(FOLDER + path))).status_code == 404
        assert "user-only" not in await entries(served)


async def test_an_edit_reaches_the_index_and_the_downloads(library: Path) -> None:
    async with serving(library) as served:
        before = await entries(served)
        (library / "open-many/scripts/run.sh").write_text("#!/bin/sh\necho\n")
        (library / "open-one/new.md").write_text("x")
        (library / "secret-plans/SKILL.md").unlink()
        await served.host.reload()
        after = await entries(served)
    assert before["open-many"]["digest"] != after["open-many"]["digest"]
    assert (before["open-one"]["type"], after["open-one"]["type"]) == ("skill-md", "archive")
    assert set(after) == {"open-one", "open-many"}


async def test_bytes_that_changed_unnoticed_are_never_served_under_the_old_digest(library: Path) -> None:
    async with serving(library) as served:
        before = await entries(served)
        tags = {name: f'"{each["digest"]}"' for name, each in before.items()}
        for path in ("open-one/SKILL.md", "open-many/scripts/run.sh"):
            (library / path).write_bytes((library / path).read_bytes() + b"\nmore\n")
        # Nothing watches: the server finds out when it is about to serve a file that was forgotten.
        one = await served.client.get(served.at(f"{FOLDER}/open-one/SKILL.md"))
        assert one.content.endswith(b"more\n")
        assert one.headers["etag"] != tags["open-one"]
        await served.host.reload()
        many = await served.client.get(served.at(f"{FOLDER}/open-many.tar.gz"))
        assert many.headers["etag"] != tags["open-many"]
        assert unpacked(many.content)["scripts/run.sh"][0].endswith(b"more\n")
        assert {f'"{each["digest"]}"' for each in (await entries(served)).values()} > {many.headers["etag"]}


async def test_a_skill_that_is_found_changed_while_the_index_is_made_is_read_again(library: Path) -> None:
    async with serving(library) as served:
        (library / "open-many/scripts/run.sh").write_text("changed before anybody asked")
        found = await entries(served)
        archive = await served.client.get(served.at(f"{FOLDER}/open-many.tar.gz"))
    assert set(found) == {"open-one", "open-many", "secret-plans"}
    assert unpacked(archive.content)["scripts/run.sh"][0] == b"changed before anybody asked"


async def test_every_answer_fits_its_digest_while_the_files_are_being_rewritten(library: Path) -> None:
    path, done = library / "open-many/scripts/run.sh", threading.Event()

    def rewrite() -> None:
        for number in itertools.count():
            path.write_bytes(b"#!/bin/sh\n" + b"%d\n" % number * 5000)
            if done.is_set():
                return

    async with serving(library) as served, anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, rewrite)
        seen = set()
        for _ in range(30):
            answers = [await served.client.get(served.at(each)) for each in (INDEX, f"{FOLDER}/open-many.tar.gz")]
            seen |= {each.status_code for each in answers}
            for each in (each for each in answers if each.status_code == 200):
                assert each.headers["etag"] == f'"sha256:{hashlib.sha256(each.content).hexdigest()}"'
        done.set()
        await until(lambda: settled(served))
    assert seen <= {200, 404, 503}


async def settled(served: Served) -> bool:
    """Tell whether the files have come to rest, and the answers are those of a quiet server."""
    await served.host.reload()
    return set(await entries(served)) == {"open-one", "open-many", "secret-plans"}


async def test_requests_that_come_together_make_an_archive_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(skill: Skill) -> dict[str, bytes] | Path:
        made.append(skill.name)
        return read_whole(skill)

    monkeypatch.setattr("server.capabilities.publish.publication.read_whole", counted)
    async with serving(library) as served:
        answers = []

        async def ask(path: str) -> None:
            answers.append((await served.client.get(served.at(path))).status_code)

        async with anyio.create_task_group() as tasks:
            for path in [INDEX, f"{FOLDER}/open-many.tar.gz", f"/mcp{FOLDER}/open-many.tar.gz"] * 10:
                tasks.start_soon(ask, path)
    assert answers == [200] * 30
    assert made == ["open-many"]


def test_archives_that_were_not_asked_for_long_are_forgotten() -> None:
    archives = Archives(100)
    for name in "abc":
        archives.keep(name, bytes(40))
        archives.get("a")
    assert [archives.get(name) is not None for name in "abc"] == [True, False, True]
    archives.keep("large", bytes(1000))
    assert archives.get("large") is None
    archives.keep("a", bytes(100))
    assert archives.get("a") is not None


async def test_a_forgotten_archive_is_made_again_with_the_same_bytes(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Archives.__init__, "__defaults__", (0,))
    async with serving(library) as served:
        assert set(await entries(served)) == {"open-one", "open-many", "secret-plans"}
        assert set(await entries(served)) == {"open-one", "open-many", "secret-plans"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permission")
async def test_a_file_that_becomes_executable_changes_the_archive_and_its_digest_together(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Archives.__init__, "__defaults__", (0,))
    async with serving(library) as served:
        before = await entries(served)
        (library / "open-many/scripts/run.sh").chmod(0o644)
        # Nothing watches, and no content has changed.
        archive = await served.client.get(served.at(f"{FOLDER}/open-many.tar.gz"))
        after = await entries(served)
    assert f'"{after["open-many"]["digest"]}"' == archive.headers["etag"]
    assert before["open-many"]["digest"] != after["open-many"]["digest"]


@pytest.mark.parametrize("path", [INDEX, f"{FOLDER}/open-one/SKILL.md", f"{FOLDER}/open-many.tar.gz"])
async def test_pages_of_others_read_nothing(library: Path, path: str) -> None:
    async with serving(library, allowed_origins=("https://app.example.com",)) as served:
        rebound = await served.client.get(served.at(path), headers={"Host": "evil.example.com"})
        foreign = await served.client.get(served.at(path), headers={"Origin": "https://evil.example.com"})
        own = await served.client.get(served.at(path), headers={"Origin": "https://app.example.com"})
    assert [each.status_code for each in (rebound, foreign, own)] == [421, 403, 200]
    assert "access-control-allow-origin" not in {*rebound.headers, *foreign.headers}
    assert own.headers["access-control-allow-origin"] == "https://app.example.com"
    assert [each.reason for each in served.found if each.method == HTTP_METHOD] == ["foreign_host", "foreign_origin"]


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({}, set()),
        ({"host": "::1"}, set()),
        ({"host": "192.0.2.1"}, None),
        ({"host": "192.0.2.1", "insecure": True}, None),
        ({"allowed_hosts": ("skills.example.com",)}, None),
        ({"host": "192.0.2.1", "publish": "on"}, set()),
        ({"publish": "off"}, None),
        ({"login_tokens": True}, None),
        ({"login_tokens": True, "publish": "on"}, None),
        ({"login_tokens": True, "publish": "on", "publish_roles": ("public",)}, None),
        ({"login_tokens": True, "access_roles": ROLES, "access_default_roles": ("staff",)}, None),
        ({"login_tokens": True, "access_roles": ROLES, "publish_roles": ("public",)}, {"public"}),
        ({"login_tokens": True, "access_roles": ROLES, "publish_roles": ("other",)}, None),
        ({"access_roles": ROLES}, set()),
        ({"access_roles": ROLES, "access_default_roles": ("staff",)}, {"staff"}),
        ({"access_roles": ROLES, "access_default_roles": ("staff",), "publish_roles": ("public",)}, {"public"}),
    ],
)
def test_what_is_public(options: dict[str, Any], roles: set[str] | None) -> None:
    assert public_roles(make_settings(**options)) == roles


@pytest.mark.parametrize("options", [{}, {"publish": "on"}, {"publish": "on", "publish_roles": ("public",)}])
async def test_behind_a_login_nothing_is_there_by_default(
    library: Path, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(library, login_tokens=True, **options) as served:
        for path in (INDEX, f"/mcp{INDEX}", f"{FOLDER}/open-one/SKILL.md", f"{FOLDER}/open-many.tar.gz"):
            assert (await served.client.get(served.at(path))).status_code == 404
    assert ("nothing is published" in caplog.text) == ("publish" in options)


async def test_the_public_roles_show_their_skills_without_a_login_and_no_others(library: Path) -> None:
    options: dict[str, Any] = {"login_tokens": True, "access_roles": ROLES, "publish_roles": ("public",)}
    async with serving(library, **options) as served:
        assert set(await entries(served)) == {"open-one", "open-many"}
        hidden = await served.client.get(served.at(f"{FOLDER}/secret-plans/SKILL.md"))
        absent = await served.client.get(served.at(f"{FOLDER}/nothing/SKILL.md"))
        assert (hidden.status_code, hidden.content, {**hidden.headers, "date": ""}) == (
            absent.status_code,
            absent.content,
            {**absent.headers, "date": ""},
        )
        assert (await served.ask("tools/list")).status_code == 401


async def test_each_profile_publishes_the_skills_of_its_roles(library: Path) -> None:
    access: dict[str, Any] = {
        "access_roles": {"open": ["open-*"], "plans": ["secret-*"], "other": ["*"]},
        "access_default_roles": ("open", "plans"),
        "access_profiles": {"narrow": ["plans"], "empty": [], "wide": ["other", "open"]},
    }
    async with serving(library, **access) as served:
        found = {
            base: set(await entries(served, base + INDEX)) for base in ("", "/mcp/narrow", "/mcp/empty", "/mcp/wide")
        }
        leak = await served.client.get(served.at(f"/mcp/narrow{FOLDER}/open-one/SKILL.md"))
        assert leak.status_code == 404
        assert (await served.client.get(served.at(f"/mcp/unknown{INDEX}"))).status_code == 404
    assert found == {
        "": {"open-one", "open-many", "secret-plans"},
        "/mcp/narrow": {"secret-plans"},
        "/mcp/empty": set(),
        "/mcp/wide": {"open-one", "open-many"},
    }


async def test_without_a_login_an_address_is_limited_where_clients_are(library: Path) -> None:
    options: dict[str, Any] = {"login_tokens": True, "access_roles": ROLES, "publish_roles": ("public",)}
    async with serving(library, **options, limits_requests_per_second=0.01, limits_burst=2) as served:
        answers = [await served.client.get(served.at(INDEX)) for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert 90 <= int(answers[-1].headers["retry-after"]) <= 100
        assert [each.reason for each in served.found if each.method == LIMIT_METHOD] == ["limit"]


async def test_downloads_are_recorded_and_looks_are_not(library: Path) -> None:
    async with serving(library) as served:
        answer = await served.client.get(served.at(f"{FOLDER}/open-many.tar.gz"))
        await served.client.get(served.at(INDEX))
        await served.client.head(served.at(f"{FOLDER}/open-many.tar.gz"))
        await served.client.get(
            served.at(f"{FOLDER}/open-many.tar.gz"), headers={"If-None-Match": answer.headers["etag"]}
        )
        (record,) = served.found
        digest = next(each.digest for each in served.host.everything.active if each.name == "open-many")
    assert (record.method, record.skill, record.target) == (DOWNLOAD_METHOD, "open-many", f"{FOLDER}/open-many.tar.gz")
    assert (record.digest, record.decision, record.use) == (digest, "allowed", "read")


async def test_what_is_left_out_is_logged_once_for_each_change(
    library: Path, make_skill: MakeSkill, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    make_skill("Not Fit")
    async with serving(library) as served:
        for _ in range(2):
            assert "Not Fit" not in await entries(served)
            (library / "open-one/SKILL.md").write_bytes((library / "open-one/SKILL.md").read_bytes() + b"x\n")
            await served.host.reload()
        make_skill("Also Not")
        await served.host.reload()
        await entries(served)
    logged = [each for each in caplog.messages if "not published" in each]
    assert logged == [
        "1 skill is not published: Not Fit (not_listed)",
        "2 skills are not published: Also Not (not_listed), Not Fit (not_listed)",
    ]


@pytest.mark.skipif(not CAN_BE_BOUND, reason="needs a file that may not be read")
async def test_a_skill_that_may_not_be_read_any_more_is_left_out(library: Path) -> None:
    with bound_by_permissions():
        async with serving(library) as served:
            (library / "open-many/scripts/run.sh").chmod(0)
            assert "open-many" not in await entries(served)
            assert (await served.client.get(served.at(f"{FOLDER}/open-many.tar.gz"))).status_code == 404


async def test_a_skill_that_became_one_for_users_alone_is_not_served_before_that_is_noticed(
    library: Path, make_skill: MakeSkill
) -> None:
    async with serving(library) as served:
        assert "open-one" in await entries(served)
        make_skill("open-one", fields="disable-model-invocation: true")
        make_skill("open-many", fields="disable-model-invocation: true")
        for path in ("open-one/SKILL.md", "open-many.tar.gz"):
            answer = await served.client.get(served.at(f"{FOLDER}/{path}"))
            assert b"disable-model-invocation" not in answer.content
        await served.host.reload()
        assert set(await entries(served)) == {"secret-plans"}


def findings(tmp_path: Path, **variables: str) -> list[tuple[str, str | None, str]]:
    checked = check_settings(tmp_path, variables, JdaiSettings())
    configuration = Configuration(checked, Machine(current_places()), variables)
    return [(str(each.level), each.key, each.message) for each in check_publish(configuration)]


def test_the_check_of_the_configuration_names_roles_that_are_unknown_and_a_login_that_keeps_all_skills(
    tmp_path: Path,
) -> None:
    assert findings(tmp_path) == []
    (found,) = findings(tmp_path, SKILLSERVE_PUBLISH_ROLES="x")
    assert "expected a role of access.roles, which has: none" in found[2]
    (found,) = findings(tmp_path, SKILLSERVE_PUBLISH="on", SKILLSERVE_LOGIN_TOKENS="true")
    assert found[2] == "clients have to log in, so nothing is published"


async def test_an_empty_server_publishes_an_empty_index(skills: Path) -> None:
    skills.mkdir(exist_ok=True)
    async with serving(skills) as served:
        answer: httpx2.Response = await served.client.get(served.at(INDEX))
    assert answer.json() == {"$schema": SCHEMA, "skills": []}
