"""A program in place of Claude Code: it loads the skill that it has and follows it, as far as FAKE lets it.

The variable FAKE is a JSON object: `version` is what `--version` prints, and `lists`, `loads` and `says` are what it
does instead of going by the skills that it finds. Each run adds a line to the file in the variable SEEN.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def show(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main() -> None:
    fake = json.loads(os.environ.get("FAKE", "{}"))
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(fake.get("version", "1.0") + "\n")
        return
    config = sys.argv[sys.argv.index("--mcp-config") + 1] if "--mcp-config" in sys.argv else ""
    texts = [path.read_text() for path in Path(".claude/skills").glob("*/SKILL.md")]
    seen = {"arguments": sys.argv[1:], "prompt": sys.argv[-1], "folder": str(Path.cwd()), "home": os.environ["HOME"]}
    seen |= {"files": sorted(path.as_posix() for path in Path().rglob("*") if path.is_file())}
    seen |= {"home_files": sorted(path.name for path in Path.home().iterdir())}
    seen |= {"servers": json.loads(Path(config).read_text())["mcpServers"] if config else {}}
    with Path(os.environ["SEEN"]).open("a") as log:
        log.write(json.dumps(seen) + "\n")
    if fake.get("sleeps"):
        subprocess.Popen(["sleep", fake["sleeps"]], start_new_session=True)
        time.sleep(600)
    if "says" in fake:
        sys.stdout.write(fake["says"] + "\n")
        return
    has_skill = bool(texts or config)
    show(type="system", subtype="init", skills=fake.get("lists", ["greeter"] if texts else []))
    loads = fake.get("loads", ["greeter"] if has_skill else [])
    tool = "mcp__skills__activate_skill" if config else "Skill"
    for number, name in enumerate(loads):
        call = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": {"skill": name, "name": name}}
        show(type="assistant", message={"id": "m1", "content": [call], "usage": {"input_tokens": 9}})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        show(type="user", message={"content": [result]})
    written = "hello, as of old" if any("of old" in text for text in texts) else "hello"
    Path("outputs/out.txt").write_text(written if loads else "good day")
    usage = {"input_tokens": 30, "output_tokens": 5}
    show(type="result", subtype="success", is_error=False, result="done", total_cost_usd=0.25, usage=usage)


main()
