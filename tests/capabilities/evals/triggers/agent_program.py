"""An agent for tests: it prints what Claude Code prints, and goes by the description of the skill that it finds.

Its one argument is the query. The file RULES (a variable) says what it does: on each line a key and a word.
`loads` are words of queries for which it loads the skill; `needs` are words of queries for which it does so only if the
description has them too; other keys make it fail.
"""

# Hundreds of these run, and each of json and pathlib takes as long to import as all the rest.
# ruff: noqa: PTH109, PTH110, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import sys
import time

SKILLS = ".claude/skills"

CALL = '{"type": "tool_use", "id": "t", "name": "Skill", "input": {"skill": "tides"}}'
CALLS = f'{{"type": "assistant", "message": {{"id": "1", "content": [{CALL}], "usage": {{"input_tokens": 50}}}}}}'
LAUNCHED = """{"type": "user", "message": {"content": [\
{"type": "tool_result", "tool_use_id": "t", "is_error": false, "content": "Launching skill: tides"}]}}"""
DENIED = """{"type": "user", "message": {"content": [\
{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "Launching skill: tides"}]},\
"tool_result_meta": [{"id": "t", "permission_decision": {"decision": "reject"}}]}"""
SAYS = '{"type": "assistant", "message": {"id": "2", "content": [{"type": "text", "text": "done"}]}}'
ENDS = """{"type": "result", "subtype": "success", "is_error": false, "result": "done", \
"usage": {"output_tokens": 10}}"""


def show(event: str) -> None:
    sys.stdout.write(f"{event}\n")
    sys.stdout.flush()


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_rules() -> dict[str, list[str]]:
    rules: dict[str, list[str]] = {}
    for line in read(os.environ["RULES"]).splitlines():
        key, _, word = line.partition(" ")
        rules.setdefault(key, []).append(word)
    return rules


def main() -> None:
    query, rules = sys.argv[1], read_rules()
    calls = os.path.join(os.path.dirname(os.environ["RULES"]), "calls")
    with open(calls, "a", encoding="utf-8") as log:
        seen = {"query": query, "home": os.environ["HOME"], "folder": os.getcwd(), "pid": os.getpid()}
        seen |= {"skills": sorted(name for name in os.listdir(SKILLS) if os.path.exists(f"{SKILLS}/{name}/SKILL.md"))}
        seen |= {"files": sorted(f"{folder}/{name}" for folder, _, names in os.walk(".claude") for name in names)}
        log.write(f"{seen!r}\n")
    if any(word in query for word in rules.get("crashes", ())):
        sys.stderr.write("no quota is left\n")
        sys.exit(3)
    if any(word in query for word in rules.get("hangs", ())):
        import signal  # noqa: PLC0415 - hundreds of runs need neither
        import subprocess  # noqa: PLC0415

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", *rules["sleep"]])
        time.sleep(600)
    description = read(f"{SKILLS}/tides/SKILL.md").split("---")[1]
    if any(word in description for word in rules.get("breaks", ())):
        sys.stderr.write("no quota is left\n")
        sys.exit(3)
    wants = query.startswith("Use the skill") or any(word in query for word in rules.get("loads", ()))
    wants = wants or any(word in query and word in description for word in rules.get("needs", ()))
    denied = any(word in query for word in rules.get("denied", ()))
    if wants or denied:
        show(CALLS)
        show(DENIED if denied else LAUNCHED)
        if rules.get("works_on") and not denied:
            time.sleep(600)
    show(SAYS)
    show(ENDS)


main()
