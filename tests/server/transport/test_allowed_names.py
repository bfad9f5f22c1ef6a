"""Names that no header can match are told from those that one can."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from server.transport.listening import host_fault, name_faults, origin_fault
from tests.conftest import MakeSkill
from tests.server.server_processes import served_by_process
from tests.server.settings import make_settings

HOSTS = {
    "skills.example.com": None,
    "skills.example.com:8443": None,
    "skills.example.com:*": None,
    "[::1]": None,
    "[::1]:8000": None,
    "10.0.0.1": None,
    "https://skills.example.com": "without https://",
    "*.example.com": "name each host",
    "*": "name each host",
    "a b": "expected a host name",
    "": "expected a host name",
    "skills.example.com/": "expected a host name",
    "skills.example.com:http": "expected a host name",
    "Skills.example.com": "small letters",
    "::1": "in brackets",
}
ORIGINS = {
    "https://skills.example.com": None,
    "http://localhost:*": None,
    "http://localhost:3000": None,
    "null": None,
    "vscode-webview://0abc": None,
    "chrome-extension://abc": None,
    "skills.example.com": "expected a scheme",
    "https://skills.example.com/": "without a path",
    "https://skills.example.com:443": "leave out :443",
    "http://skills.example.com:80": "leave out :80",
    "https://*.example.com": "name each host",
    "HTTPS://skills.example.com": "small letters",
    "https://a b": "expected a host",
    "*": "expected a scheme",
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_that_no_request_sends_has_a_reason(name: str) -> None:
    expected = HOSTS[name]
    fault = host_fault(name)
    assert fault is None if expected is None else expected in (fault or "")


@pytest.mark.parametrize("name", ORIGINS)
def test_an_origin_that_no_browser_sends_has_a_reason(name: str) -> None:
    expected = ORIGINS[name]
    fault = origin_fault(name)
    assert fault is None if expected is None else expected in (fault or "")


def test_each_faulty_entry_is_named_with_its_number() -> None:
    settings = make_settings(allowed_hosts=("x", "a b"), allowed_origins=("x", "https://x"))
    found = [(key, number) for key, number, _ in name_faults(settings.http)]
    assert found == [("allowed_hosts", 1), ("allowed_origins", 0)]


async def test_a_server_refuses_hosts_that_only_seem_to_match_and_its_log_names_them(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    names = "https://skills.example.com,*.example.com"
    async with served_by_process(skills, SKILLSERVE_ALLOWED_HOSTS=names) as served:
        await served.logs("http.allowed_hosts: *.example.com: no request matches it")
        async with httpx2.AsyncClient(timeout=60) as http:
            for host in ("skills.example.com", "a.example.com"):
                headers = {"Host": host, "Accept": "application/json", "Content-Type": "application/json"}
                assert (await http.post(served.url, json={}, headers=headers)).status_code == 421
