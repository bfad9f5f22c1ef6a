"""The chart refuses values that it cannot render, and none of the others opens more than the defaults do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.test_deploy import DEPLOY

HELM = DEPLOY / ".venv/bin/helm"
CHART = DEPLOY / "helm/skillserve"
DIGEST = f"sha256:{'0' * 64}"

pytestmark = [
    pytest.mark.skipif(not HELM.exists(), reason="`make manifests-check` installs helm"),
    pytest.mark.slow,
]

Place = tuple[str, ...]


class RefusedError(Exception):
    """The chart renders nothing for these values."""


def rendered(values: dict[str, Any], release: str = "skillserve") -> list[dict[str, Any]]:
    """Render the chart with values of an operator, as from a file."""
    command = [str(HELM), "template", release, str(CHART), "--namespace", "skillserve", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RefusedError(done.stderr)
    return list(yaml.safe_load_all(done.stdout))


def attempted(values: dict[str, Any]) -> tuple[list[dict[str, Any]] | None, str]:
    """Return the documents, or None and why the chart refuses the values."""
    try:
        return rendered(values), ""
    except RefusedError as error:
        return None, str(error)


def nested(path: Place, value: object) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each scalar of a document with its path."""
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, name))
    else:
        yield path, value


def settable(values: dict[str, Any], path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield each value of the chart, and those that contain others."""
    for name, value in values.items():
        yield (*path, name), value
        if isinstance(value, dict):
            yield from settable(value, (*path, name))


VALUES = dict(settable(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))))
NOTHING = [(path, None) for path in VALUES] + [
    (path, type(value)())
    for path, value in VALUES.items()
    # The value of a label, of which the keys have a slash, may be empty.
    if value and isinstance(value, str | list) and "/" not in path[-1]
]


def named(case: object) -> str | None:
    return ".".join(case) if isinstance(case, tuple) else repr(case)


def opened(documents: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    """Return what the network policies admit: the policy, the direction, the peer and the port."""
    return {
        (policy["metadata"]["name"], direction, json.dumps(peer), json.dumps(port))
        for policy in documents
        if policy["kind"] == "NetworkPolicy"
        for direction, peers in (("ingress", "from"), ("egress", "to"))
        for rule in policy["spec"][direction]
        # As Kubernetes reads it: a rule without peers or without ports is one for all of them.
        for peer in rule.get(peers) or ["every peer"]
        for port in rule.get("ports") or ["every port"]
    }


@pytest.fixture(scope="module")
def defaults() -> list[dict[str, Any]]:
    return rendered({})


@pytest.mark.parametrize(("path", "nothing"), NOTHING, ids=named)
def test_a_value_that_is_null_or_empty_opens_nothing_and_leaves_no_field_empty(
    path: Place, nothing: object, defaults: list[dict[str, Any]]
) -> None:
    documents, refusal = attempted(nested(path, nothing))
    if documents is None:
        is_refused_by_template = "state.existingClaim is empty" in refusal
        assert is_refused_by_template or "values don't meet the specifications of the schema" in refusal
        assert any(name in refusal for name in path[-2:])
    else:
        assert opened(documents) <= opened(defaults)
        assert [field for field, value in leaves(documents) if value is None or value == ""] == []


def test_a_proxy_that_nobody_may_reach_has_no_rule_that_admits_somebody() -> None:
    documents = rendered(
        {"networkPolicy": {"ingressNamespace": None, "monitoringNamespace": None, "egressPorts": None}}
    )
    policies = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "NetworkPolicy"}
    assert policies["skillserve-proxy"]["ingress"] == []
    (rule,) = policies["skillserve-replicas"]["ingress"]
    assert [list(peer) for peer in rule["from"]] == [["podSelector"]]
    (names,) = policies["skillserve-replicas"]["egress"]
    assert {port["port"] for port in names["ports"]} == {53}


@pytest.mark.parametrize(
    "peer", [None, {}, {"namespaceSelector": None}, {"namespaceSelector": {"matchLabels": None}}, {"namespace": {}}]
)
@pytest.mark.parametrize("name", ["ingressFrom", "egressTo"])
def test_a_peer_that_names_nobody_is_refused(name: str, peer: object) -> None:
    with pytest.raises(RefusedError, match=f"networkPolicy.{name}"):
        rendered({"networkPolicy": {name: [peer]}})


@pytest.mark.parametrize("path", [path for path, value in VALUES.items() if isinstance(value, str)], ids=named)
@pytest.mark.parametrize("text", ["no", "123"])
def test_a_text_stays_a_text(path: Place, text: str, defaults: list[dict[str, Any]]) -> None:
    documents, refusal = attempted(nested(path, text))
    if documents is None:
        assert path[-1] in {"digest", "pullPolicy"}
        assert path[-1] in refusal
    else:
        others = [{field: value for field, value in leaves(each) if not isinstance(value, str)} for each in documents]
        expected = [{field: value for field, value in leaves(each) if not isinstance(value, str)} for each in defaults]
        assert [each.items() <= known.items() for each, known in zip(others, expected, strict=True)] == [
            True for _ in expected
        ]


def test_the_name_of_a_release_stays_a_text() -> None:
    names = {value for field, value in leaves(rendered({}, "no")) if field[-1] in {"name", "serviceAccountName"}}
    assert "no" in names
    assert {type(name) for name in names} == {str}


@pytest.mark.parametrize("image", ["skillserve", "haproxy"])
def test_a_digest_precedes_the_tag(image: str) -> None:
    named_by = {"digest": DIGEST}
    documents = rendered({"image": named_by} if image == "skillserve" else {"proxy": {"image": named_by}})
    images = [value for field, value in leaves(documents) if field[-1] == "image"]
    assert [value for value in images if value.startswith(image)] == [f"{image}@{DIGEST}"]


@pytest.mark.parametrize(
    ("settings", "seconds", "refused"),
    [
        ("[operation]\ndrain_seconds = 60", 60, True),
        ("[operation]\ndrain_seconds = 60", 61, False),
        ("operation = {drain_notice_seconds = 2, drain_seconds = 1_000.5}", 1000, True),
        ('operation."drain_seconds"=60 # drain_seconds = 5', 40, True),
        ("[operation]\n# drain_seconds = 60\ndrain_notice_seconds = 90", 40, False),
        ("[http]", 5, True),
        ("[http]", 6, False),
    ],
)
def test_replicas_have_time_to_drain(settings: str, seconds: int, *, refused: bool) -> None:
    values = {"settings": settings, "terminationGracePeriodSeconds": seconds}
    if refused:
        with pytest.raises(RefusedError, match="terminationGracePeriodSeconds is"):
            rendered(values)
    else:
        assert rendered(values)


@pytest.mark.parametrize(
    "state", [{"existingClaim": ""}, {"existingClaim": None}, {"existingClaim": "", "ephemeral": False}]
)
def test_the_audit_log_is_never_lost_with_a_pod_in_silence(state: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="audit log and the static tokens of a replica would end with its pod"):
        rendered({"state": state})


def state_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]
    (volume,) = [volume for pod in pods for volume in pod["volumes"] if volume["name"] == "state"]
    assert isinstance(volume, dict)
    return volume


def test_whoever_accepts_the_loss_of_the_audit_log_is_warned_of_it(tmp_path: Path) -> None:
    assert state_of(rendered({}))["persistentVolumeClaim"] == {"claimName": "state"}
    ephemeral = {"state": {"existingClaim": "", "ephemeral": True}}
    assert "emptyDir" in state_of(rendered(ephemeral))
    assert "WARNING" not in notes({}, tmp_path)
    assert "LOST WITH ITS POD" in notes(ephemeral, tmp_path)
    assert "forge the addresses" in notes({"networkPolicy": {"enabled": False}}, tmp_path)


def notes(values: dict[str, Any], folder: Path) -> str:
    """Return what Helm prints after an installation; `helm template` itself leaves it out."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    (chart / "templates/NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates/notes.yaml").write_text(
        'notes: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}', encoding="utf-8"
    )
    command = [str(HELM), "template", "skillserve", str(chart), "--show-only", "templates/notes.yaml", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    return str(yaml.safe_load(done.stdout)["notes"])


def test_the_guide_names_a_claim_for_the_audit_log() -> None:
    guide = (DEPLOY.parent / "docs/guides/team.md").read_text(encoding="utf-8")
    (values,) = re.findall(r"^```yaml\n(image:.*?)^```", guide, re.MULTILINE | re.DOTALL)
    documents = rendered(yaml.safe_load(values))
    assert "persistentVolumeClaim" in state_of(documents)


def test_large_numbers_stay_whole() -> None:
    documents = rendered({"terminationGracePeriodSeconds": 3_000_000})
    assert "hold obsolete 3000000s" in str(documents)
    assert 3_000_000 in [value for _, value in leaves(documents)]
