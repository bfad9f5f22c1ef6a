"""`/metrics`: which figures there are, within which bounds, and who may read them."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from server.access import LOCAL
from server.capabilities.login.static_tokens import TokenFile
from server.capabilities.operation.metrics import MAX_NAMES, OTHER, Metrics, ServerFigures
from server.capabilities.operation.part import Operation
from server.config.machine import tokens_file
from server.hosting.catalog_log import ReloadFigures
from server.requests import RequestDecision, RequestRecord, Use
from server.transport import sessions
from server.transport.admin_sockets import admin_socket
from server.transport.http import serve_locally
from tests.conftest import MakeSkill
from tests.server.serving import METRICS_ROLE, Served, bearer, serving, until
from tests.server.sessions import open_session
from tests.server.transport.test_event_streams import HandshakeClient

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return TokenFile(tokens_file())


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder for sockets; the paths of those must be short."""
    folder = Path(tempfile.mkdtemp()).resolve()
    yield folder
    shutil.rmtree(folder)


def samples_of(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for found in families for each in found.samples}


async def scraped(served: Served, **headers: str) -> Samples:
    answer = await served.client.get(served.at("/metrics"), headers=headers)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return samples_of(answer.text)


def figure(samples: Samples, name: str, **labels: str) -> float:
    """Return the sum of the samples that have these labels."""
    return sum(
        value for (each, found), value in samples.items() if each == name and labels.items() <= dict(found).items()
    )


def values(samples: Samples, label: str) -> set[str]:
    return {dict(found)[label] for _, found in samples if label in dict(found)}


def empty_figures() -> ServerFigures:
    return ServerFigures("1", (), {}, {}, ReloadFigures(), running=0, draining=False)


def record(**fields: Any) -> RequestRecord:
    return RequestRecord(**{"method": "tools/call", "request_id": "1", "era": "modern", **fields})


async def test_there_are_no_metrics_unless_the_settings_want_them(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills) as served:
        assert (await served.client.get(served.at("/metrics"))).status_code == 404


async def test_requests_are_counted_by_method_tool_era_and_decision(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one", files={"a.md": b"a"})
    make_skill("two")
    async with serving(skills, metrics=True) as served:
        for _ in range(3):
            await served.call("activate_skill", name="one")
        await served.call("activate_skill", name="no-such-skill")
        await served.call("read_skill_file", skill="one", path="a.md")
        await served.ask("prompts/get", {"name": "two"})
        old = await HandshakeClient(served.client, served.url).open()
        await old.post("tools/call", {"name": "activate_skill", "arguments": {"name": "one"}})
        found = await scraped(served)
    name = "skillserve_requests_total"
    assert figure(found, name, method="tools/call", tool="activate_skill", decision="allowed", era="modern") == 3
    assert figure(found, name, method="tools/call", tool="activate_skill", era="handshake") == 1
    assert figure(found, name, tool="activate_skill", decision="invalid", reason="unknown_skill") == 1
    assert figure(found, name, method="prompts/get", tool="") == 1
    assert figure(found, "skillserve_skill_uses_total", skill="one", use="activated") == 4
    assert figure(found, "skillserve_skill_uses_total", skill="one", use="read") == 1
    assert figure(found, "skillserve_skill_uses_total", skill="two", use="activated") == 1
    assert figure(found, "skillserve_request_seconds_count", method="tools/call") == 6
    assert figure(found, "skillserve_request_seconds_bucket", method="tools/call", le="+Inf") == 6
    assert figure(found, "skillserve_request_seconds_sum", method="tools/call") > 0
    assert figure(found, "process_resident_memory_bytes") > 0
    assert figure(found, "skillserve_info") == 1


async def test_skills_are_counted_by_state_and_by_reason_and_reloads_with_their_time(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    make_skill("broken", description="''")
    make_skill("gated", fields="when:\n  requires:\n    env: [SKILLSERVE_NO_SUCH_VARIABLE]")
    async with serving(skills, metrics=True) as served:
        before = await scraped(served)
        make_skill("two")
        await served.host.reload()
        after = await scraped(served)
    assert figure(before, "skillserve_skills", state="active") == 1
    assert figure(before, "skillserve_skills", state="invalid") == 1
    # An alert can only fire on a figure that is there.
    assert figure(before, "skillserve_skills", state="shadowed") == 0
    assert figure(before, "skillserve_skills_not_served", reason="missing_env") == 1
    assert figure(before, "skillserve_reloads_total") == 0
    assert figure(after, "skillserve_skills", state="active") == 2
    assert figure(after, "skillserve_reloads_total", outcome="done") == 1
    assert figure(after, "skillserve_reload_seconds_count") == 1
    assert figure(after, "skillserve_reload_seconds_sum") > 0


async def test_a_reload_that_fails_is_counted_as_failed(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    async with serving(skills, metrics=True) as served:

        def fail(*_: object) -> None:
            raise OSError("no disk")

        monkeypatch.setattr(served.host.library, "reload", fail)
        assert await served.host.try_reload() is None
        assert figure(await scraped(served), "skillserve_reloads_total", outcome="failed") == 1


async def subscribers(served: Served) -> dict[str, float]:
    found = await scraped(served)
    return {era: figure(found, "skillserve_subscribers", era=era) for era in ("handshake", "modern")}


async def test_sessions_are_counted_by_whether_they_are_awake(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    monkeypatch.setattr(sessions, "AWAKE_SECONDS", 0.05)
    async with serving(skills, metrics=True) as served:

        async def counts(**numbers: int) -> None:
            async def are_counted() -> bool:
                found = await scraped(served)
                return {each: figure(found, "skillserve_sessions", state=each) for each in numbers} == numbers

            await until(are_counted)

        await HandshakeClient(served.client, served.url).open()
        client = await HandshakeClient(served.client, served.url).open()
        await counts(awake=0, asleep=2)
        async with client.stream():
            await counts(awake=1, asleep=1)


async def becomes_subscribed(served: Served, **numbers: int) -> None:
    async def is_subscribed() -> bool:
        return await subscribers(served) == numbers

    await until(is_subscribed)


async def test_subscribers_are_counted_by_era(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, metrics=True) as served:
        old = await HandshakeClient(served.client, served.url).open()
        async with old.stream(), open_session(served.url, "modern"), open_session(served.url, "modern"):
            await becomes_subscribed(served, handshake=1, modern=2)
        await becomes_subscribed(served, handshake=0, modern=0)
        found = await scraped(served)
        # Their requests last as long as the clients want, and would hide how long others take.
        assert "subscriptions/listen" not in values(
            {key: value for key, value in found.items() if "seconds" in key[0]}, "method"
        )
        # The request for the metrics itself is running.
        assert figure(found, "skillserve_requests_running") == 1


async def test_denials_and_refused_logins_are_counted_by_reason(
    make_skill: MakeSkill, skills: Path, file: TokenFile
) -> None:
    make_skill("one")
    token = file.add("anna", (METRICS_ROLE,), None)
    options: dict[str, Any] = {"tools": ("check_tool_call",), "danger_patterns": ("rm -rf",)}
    async with serving(skills, metrics=True, login_tokens=True, **options) as served:
        await served.call("check_tool_call", token, tool="Bash", arguments={"command": "rm -rf x"})
        await served.ask("tools/list")
        for _ in range(2):
            await served.ask("tools/list", None, "sks_0123456789ab_wrong")
        await served.client.get(served.at("/admin/status"), headers=bearer(token))
        found = await scraped(served, **bearer(token))
    assert figure(found, "skillserve_denials_total", reason="guard") == 1
    assert figure(found, "skillserve_denials_total", reason="login_missing") == 1
    assert figure(found, "skillserve_denials_total", reason="login_invalid") == 2
    assert figure(found, "skillserve_denials_total", reason="role") == 1
    assert figure(found, "skillserve_denials_total") == 5


async def test_clients_that_invent_names_make_no_labels(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, metrics=True) as served:
        old = await HandshakeClient(served.client, served.url).open()
        for number in range(150):
            name = f"invented-{number}"
            await served.ask(f"{name}/list")
            await served.ask(name, {"name": name})
            await served.call(name)
            await served.call("activate_skill", name=name)
            await served.ask("prompts/get", {"name": name})
            await served.ask("resources/read", {"uri": f"skill://{name}/SKILL.md"})
            await old.post(name)
            await old.post("tools/call", {"name": name})
        answer = await served.client.get(served.at("/metrics"))
        found = samples_of(answer.text)
    assert "invented" not in answer.text
    assert figure(found, "skillserve_requests_total", method=OTHER, reason="unknown_method") == 450
    assert figure(found, "skillserve_requests_total", reason="unknown_tool", tool="") == 300
    assert len(found) < 400


def test_only_the_first_thousand_names_are_told_apart() -> None:
    metrics = Metrics()
    for number in range(MAX_NAMES + 500):
        metrics.record(record(tool=f"tool-{number}", skill=f"skill-{number}", use=Use.RAN))
    found = samples_of(metrics.text(empty_figures())[0].decode())
    for label, name in (("tool", "skillserve_requests_total"), ("skill", "skillserve_skill_uses_total")):
        assert len(values(found, label)) == MAX_NAMES + 1
        assert figure(found, name, **{label: OTHER}) == 500


def test_a_denied_use_is_no_use_of_a_skill() -> None:
    metrics = Metrics()
    for decision in (RequestDecision.DENIED, RequestDecision.FAILED):
        metrics.record(record(skill="one", use=Use.RAN, decision=decision, principal=LOCAL))
    found = samples_of(metrics.text(empty_figures())[0].decode())
    assert figure(found, "skillserve_skill_uses_total") == 0


def test_names_of_skills_cannot_break_the_format() -> None:
    metrics = Metrics()
    names = ['a"} 1\nfake_total 7', "back\\slash", "\u2028 and \x85", "ünïcode"]
    for name in names:
        metrics.record(record(skill=name, use=Use.READ))
    readers: dict[str, Any] = {"": text_string_to_metric_families, "application/openmetrics-text": openmetrics_families}
    for accept, families in readers.items():
        text, _ = metrics.text(empty_figures(), accept)
        samples = [each for family in families(text.decode()) for each in family.samples]
        assert {each.labels["skill"] for each in samples if "skill" in each.labels} == {*names}


async def test_a_reader_that_accepts_openmetrics_gets_it(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, metrics=True) as served:
        await served.call("activate_skill", name="one")
        headers = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
        answer = await served.client.get(served.at("/metrics"), headers=headers)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families: Any = openmetrics_families
    assert "skillserve_requests" in {family.name for family in families(answer.text)}


async def test_with_a_login_metrics_require_a_role_even_from_this_machine(
    make_skill: MakeSkill, skills: Path, file: TokenFile
) -> None:
    make_skill("one")
    reader, scraper, admin = (file.add(name, (name,), None) for name in ("reader", METRICS_ROLE, "admin"))
    async with serving(skills, metrics=True, login_tokens=True) as served:
        url = served.at("/metrics")
        assert (await served.client.get(url)).status_code == 401
        assert (await served.client.get(url, headers=bearer("sks_0123456789ab_wrong"))).status_code == 401
        assert (await served.client.get(f"{url}?access_token={scraper}")).status_code == 401
        assert (await served.client.get(url, headers=bearer(reader))).status_code == 403
        assert (await served.client.get(url, headers=bearer(admin))).status_code == 200
        assert (await served.client.get(url, headers=bearer(scraper))).status_code == 200
        # Prometheus asks each replica by an address that clients do not use; a token is not what a web page has.
        headers = {**bearer(scraper), "Host": "10.1.2.3:8000"}
        assert (await served.client.get(url, headers=headers)).status_code == 200
        # The role is for metrics only.
        assert (await served.client.get(served.at("/admin/status"), headers=bearer(scraper))).status_code == 403
        assert [each.decision for each in served.found] == [RequestDecision.DENIED] * 5


async def test_where_views_differ_without_a_login_only_the_admin_token_reads_metrics(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    token = "0123456789abcdef-not-to-be-told"  # noqa: S105 - for tests
    access: dict[str, Any] = {"access_roles": {"reader": ("nothing",)}, "access_default_roles": ("reader",)}
    async with serving(skills, metrics=True, admin_token=token, **access) as served:
        assert served.host.views_differ
        assert (await served.client.get(served.at("/metrics"))).status_code == 401
        assert (await served.client.get(served.at("/metrics"), headers=bearer(token))).status_code == 200


@pytest.mark.parametrize("header", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
async def test_pages_of_other_sites_cannot_read_metrics(
    make_skill: MakeSkill, skills: Path, header: dict[str, str]
) -> None:
    make_skill("one")
    async with serving(skills, metrics=True) as served:
        assert (await served.client.get(served.at("/metrics"), headers=header)).status_code in {403, 421}


@pytest.mark.usefixtures("file")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such sockets")
async def test_metrics_are_readable_on_the_admin_socket_without_a_token(
    make_skill: MakeSkill, skills: Path, runtime: Path
) -> None:
    make_skill("one")
    async with serving(skills, metrics=True, login_tokens=True) as served:
        routes = served.host.service(Operation).local
        with admin_socket([runtime], 8000) as listener:
            assert listener is not None
            transport = httpx2.AsyncHTTPTransport(uds=listener.getsockname())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_locally, served.host, listener, routes)
                async with httpx2.AsyncClient(transport=transport, timeout=60) as client:
                    for path, text in (("/metrics", "skillserve_skills"), ("/health", "ok"), ("/ready", "ready")):
                        answer = await client.get(f"http://localhost{path}")
                        assert (answer.status_code, text in answer.text) == (200, True)
                tasks.cancel_scope.cancel()


async def test_metrics_tell_that_a_server_drains(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, metrics=True, drain_notice_seconds=3600) as served:
        assert figure(await scraped(served), "skillserve_draining") == 0
        served.running.handle_exit(signal.SIGTERM, None)
        assert figure(await scraped(served), "skillserve_draining") == 1


@pytest.mark.parametrize(("hears", "expected"), [(None, None), (False, 0), (True, 1)])
def test_a_replica_tells_whether_it_hears_of_the_others(hears: bool | None, expected: int | None) -> None:  # noqa: FBT001
    text = Metrics().text(replace(empty_figures(), replicas_connected=hears))[0].decode()
    lines = [line for line in text.splitlines() if line.startswith("skillserve_replicas_connected ")]
    assert lines == ([] if expected is None else [f"skillserve_replicas_connected {expected}.0"])
