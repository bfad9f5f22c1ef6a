"""Sets of other tools: the shapes that public ones have, in words of our own."""

from __future__ import annotations

from pathlib import Path

PROMPTFOO = """
description: Weather reports
prompts:
  - "{{request}} Answer in {{ language }}."
providers: [echo]
assertionTemplates:
  polite: {type: llm-rubric, value: The report is polite}
defaultTest:
  vars: {language: English}
  assert:
    - type: cost
      threshold: 0.5
tests:
  - description: Names the town
    vars: {request: Report on Oslo.}
    assert:
      - {type: skill-used, value: 'plugin:weather'}
      - {type: contains, value: Oslo, weight: 3}
      - {type: not-icontains, value: sorry}
      - {type: regex, value: '(?<deg>\\d+) degrees'}
      - {type: equals, value: {town: Oslo}}
      - {type: is-json}
      - {type: not-llm-rubric, value: The report guesses}
      - $ref: '#/assertionTemplates/polite'
      - type: assert-set
        assert: [{type: contains-any, value: [rain, sun]}]
      - {type: javascript, value: process.exit(1)}
      - {type: python, value: "file://grade.py"}
  - file://tests/more.yaml
"""
PROMPTFOO_MORE = """
# Further tests
- description: Each town
  vars: {request: [Report on Rome., Report on Bern.]}
  assert: [{type: contains, value: degrees}]
- vars: {request: Paint a house.}
  assert: [{type: not-skill-used, value: weather}]
- vars: {request: Book a flight.}
  assert: [{type: skill-used, value: travel}]
"""

WAZA = """
name: weather-eval
skill: weather
config: {trials_per_task: 3, executor: mock}
graders:
  - {type: text, name: no_faults, config: {regex_not_match: ["(?i)fatal error"]}}
  - {type: code, name: long, config: {assertions: ["len(output) > 10"]}}
tasks: ["tasks/*.yaml"]
"""
WAZA_TASK = """
id: oslo-001
name: Report on Oslo
inputs:
  prompt: Report on the town in town.txt.
  files: [{path: town.txt}, {path: notes/today.md, content: "Rain."}]
expected:
  output_contains: [Oslo]
  output_contains_any: [rain, sun]
  should_trigger: true
  behavior: {max_tool_calls: 5}
graders:
  - type: file
    config:
      must_exist: [report.md]
      must_not_exist: [scratch.txt]
      content_patterns: [{path: report.md, must_match: ["(?i)oslo"], must_not_match: [TODO]}]
  - {type: prompt, rubric: The report is short}
  - {type: skill_invocation, config: {required_skills: [weather]}}
"""
WAZA_OFF = "id: off\nenabled: false\ninputs: {prompt: No.}\n"
WAZA_TRIGGERS = """
skill: weather
should_trigger_prompts: [{prompt: Will it rain?, reason: weather, confidence: high}]
should_not_trigger_prompts: [{prompt: Paint a house.}]
"""

DOTNET = """
scenarios:
  - name: Report on a town
    prompt: Write report.md about Oslo.
    setup:
      files:
        - {path: data/town.txt, content: Oslo}
        - {path: data/rain.csv, source: ../../../tests/weather/fixtures/rain.csv}
    assertions:
      - {type: output_contains, value: oslo}
      - {type: output_not_matches, pattern: "I (can not|can't)"}
      - {type: file_exists, path: "**/*.md"}
      - {type: file_not_contains, path: report.md, value: TODO}
      - {type: exit_success}
    rubric: [The report names its source]
    expect_tools: [bash]
    timeout: 60
  - name: Another task
    prompt: Paint a house.
    expect_activation: false
    assertions: [{type: run_command, command: rm -rf /}]
    rubric: [Nothing is said about the weather]
"""
DOTNET_STIMULI = """
name: weather
type: capability
stimuli:
  - name: Report on a town
    prompt: Write about Oslo.
    environment:
      files:
        - &rules {src: RULES.md, dest: RULES.md}
        - {src: fixtures, dest: inputs}
    graders:
      - {type: output-contains, config: {substring: Oslo}}
      - {type: output-matches, config: {pattern: "\\\\d+ degrees"}}
      - {type: run-command, config: {command: "python -c 'print(1)'"}}
      - {type: prompt}
    rubric: [The report is short]
  - name: With the rules
    prompt: Write about Bern.
    environment: {files: [*rules]}
    graders: [{type: file-exists, config: {path: report.md}}]
"""

SKILLJACK = """
skill: weather
defaults: {expected_skill_load: weather, criteria: {output: {weight: 0.5, description: It helps}}}
tasks:
  - id: we-001
    prompt: Will it rain?
    deterministic: {expect_skill_activation: true, expect_marker: FORECAST, expect_tool_calls: [Bash]}
    golden_checklist: [A chance of rain is named]
  - id: we-fp-001
    prompt: What is a barometer?
    expected_skill_load: none
    deterministic: {expect_skill_activation: false}
"""
SKILLJACK_TASK = """---
expected_skill: weather
checks:
  contains: [FORECAST]
  not_contains: [ERROR]
assertions: ["A chance of rain is named"]
---

Will it rain?
"""

TESSL_TASK = "# Report on Oslo\n\nThe data is in `inputs/`. Write `report.md`.\n"
TESSL_CRITERIA = """{
  "context": "Whether the report has what a reader needs",
  "type": "weighted_checklist",
  "checklist": [
    {"name": "town", "description": "The report names the town", "max_score": 60},
    {"name": "guess", "description": "The report guesses", "max_score": 40, "failure_check": true}
  ]
}"""


def write(root: Path, **files: str | bytes) -> Path:
    """Write files, whose names have `__` for a slash and `_dot_` for a dot, and return the folder."""
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root
