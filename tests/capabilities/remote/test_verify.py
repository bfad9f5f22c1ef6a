"""Our own servers' skills verify, in both eras."""

from __future__ import annotations

from pathlib import Path

from server.capabilities.remote.client import connect
from server.capabilities.remote.skills import RemoteSkill, list_skills, verify_files
from server.wire.address import Address
from tests.capabilities.remote.helpers import MIB, faults, tree, varied, verified
from tests.conftest import MakeSkill
from tests.server.sessions import Era, http_server


async def test_our_own_skills_verify_in_both_eras(skills: Path, make_skill: MakeSkill, era: Era) -> None:
    varied(make_skill)
    mode = "legacy" if era == "handshake" else "auto"
    async with http_server(skills) as url, connect(Address.parse(url), mode=mode) as server:
        assert (server.protocol == "2026-07-28") == (era == "modern")
        assert server.directory_read == (era == "modern")
        checked = [await verify_files(server, skill) for skill in await list_skills(server)]
    assert [skill.diagnostics for skill in checked] == [()] * 6
    assert sorted(skill.name for skill in checked) == ["inner", "odd", "outer", "plain", "refunds", "refunds"]
    for skill in checked:
        assert skill.entry is not None
        assert dict(skill.contents) == tree(skills / skill.entry.path)


async def test_a_skill_of_the_maximum_size_verifies(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill("large", files={f"{number}.txt": b"" for number in range(508)})
    # JSON spells each of these characters with two bytes, six, or as base64.
    (folder / "lines.txt").write_bytes(b"\n" * (5 * MIB))
    (folder / "control.txt").write_bytes(b"\x01" * (5 * MIB))
    size = 6 * MIB - (folder / "SKILL.md").stat().st_size
    (folder / "bytes.bin").write_bytes(bytes(size))
    async with http_server(skills) as url:
        outcome = await verified(url)
    assert faults(outcome) == set()
    (skill,) = outcome.results
    assert isinstance(skill, RemoteSkill)
    assert skill.entry is not None
    assert (len(skill.entry.files), skill.entry.size) == (512, 16 * MIB)


async def test_an_edit_during_verification_is_no_fault(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill("one", files={"a.md": b"before"})
    async with http_server(skills) as url, connect(Address.parse(url)) as server:
        (skill,) = await list_skills(server)
        (folder / "a.md").write_bytes(b"after!!")
        checked = await verify_files(server, skill)
    assert checked.valid
    assert checked.contents["a.md"] == b"after!!"
