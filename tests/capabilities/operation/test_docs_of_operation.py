"""The guide names each metric and each field of a log line, and its examples use names that exist."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from server.access import Principal, PrincipalKind
from server.capabilities.operation.metrics import Metrics, ServerFigures
from server.hosting.catalog_log import ReloadFigures
from server.logs.json_logs import JsonHandler, log_request
from server.requests import Client, RequestDecision, RequestReason, RequestRecord, Use
from tests.capabilities.operation.test_json_logs import objects

GUIDE = (Path(__file__).parents[3] / "docs/guides/monitor-a-server.md").read_text(encoding="utf-8")
RECORD = RequestRecord(
    method="tools/call",
    request_id="1",
    principal=Principal("anna", PrincipalKind.TOKEN),
    client=Client("a", "1"),
    era="modern",
    address="192.0.2.1",
    target="one",
    tool="activate_skill",
    skill="one",
    digest="sha256:1",
    use=Use.ACTIVATED,
    reason=RequestReason.INPUT_REQUIRED,
    seconds=1.0,
    trace_id="1",
)


def families() -> dict[str, tuple[str, set[str], set[str]]]:
    """Return the type, the labels and the sample names of each metric of ours."""
    metrics = Metrics()
    for decision in (RequestDecision.ALLOWED, RequestDecision.DENIED):
        metrics.record(RequestRecord(method="tools/call", request_id="1", skill="one", use=Use.READ, decision=decision))
    skills = [("active", ""), ("excluded", "missing_env")]
    figures = ServerFigures(
        "1",
        skills,
        {"modern": 1},
        {"awake": 1},
        ReloadFigures(),
        running=0,
        draining=False,
        replicas_connected=True,
    )
    text = metrics.text(figures)[0].decode()
    found: dict[str, tuple[str, set[str], set[str]]] = {}
    parse: Any = text_string_to_metric_families
    for family in parse(text):
        if family.name.startswith("skillserve_") and not family.name.endswith("_created"):
            labels = {label for sample in family.samples for label in sample.labels} - {"le", "quantile"}
            found[family.name] = family.type, labels, {sample.name for sample in family.samples}
    return found


def test_the_guide_lists_each_metric_with_its_type_and_labels() -> None:
    rows = re.findall(r"^\| `(skillserve_\w+)` \| (\w+) \| (.*?) \|", GUIDE, re.MULTILINE)
    listed = {name: (kind, {*re.findall(r"`(\w+)`", labels)}) for name, kind, labels in rows}
    assert listed == {name: (kind, labels) for name, (kind, labels, _) in families().items()}


def test_the_examples_use_metrics_that_exist() -> None:
    examples = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)]
    rules = [rule["expr"] for example in examples for group in example.get("groups", ()) for rule in group["rules"]]
    samples = {name for _, _, names in families().values() for name in names}
    assert rules
    assert {name for rule in rules for name in re.findall(r"skillserve_\w+", rule)} <= samples


def test_the_guide_lists_each_field_of_a_request() -> None:
    handler, stream, logger = JsonHandler(), io.StringIO(), logging.getLogger("server.requests")
    handler.setStream(stream)
    logger.addHandler(handler)
    level, logger.level = logger.level, logging.INFO
    try:
        log_request(RECORD)
    finally:
        logger.removeHandler(handler)
        logger.level = level
    (line,) = objects(stream.getvalue())
    table = GUIDE[GUIDE.index("| Field | Meaning |") : GUIDE.index("Fields that do not apply")]
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == line.keys() - {
        *("time", "level", "logger", "message")
    }
