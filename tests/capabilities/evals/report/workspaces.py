"""Workspaces on disk, as the commands and as skill-creator write them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
    '<svg onload="window.hacked=1"></svg></textarea></title></style>-->]]>'
    "\x00\x1b[31m\u202egnp.exe\u2066 \"quoted\" 'too'"
)
"""What a hostile output holds to break out of a page."""


def png(width: int = 40, height: int = 30) -> bytes:
    """Return a small image."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(
        b"\0" + b"".join(bytes((x * 6 % 256, y * 8 % 256, 160)) for x in range(width)) for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write(path: Path, value: object) -> None:
    """Write a file: bytes and text as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, bytes):
        path.write_bytes(value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def grading(*passed: bool, texts: list[str] | None = None, field: str = "assertion_results") -> dict[str, Any]:
    """Return a `grading.json` with one assertion for each grade."""
    names = texts or [f"assertion {number}" for number in range(1, len(passed) + 1)]
    results = [
        {"text": text, "passed": grade, "evidence": f"evidence of {text}"}
        for text, grade in zip(names, passed, strict=True)
    ]
    rate = sum(passed) / len(passed) if passed else None
    summary = {"passed": sum(passed), "failed": len(passed) - sum(passed), "total": len(passed), "pass_rate": rate}
    return {field: results, "summary": summary}


def write_run(folder: Path, grades: dict[str, Any] | None, **more: Any) -> None:
    """Write a run: `outcome`, `timing`, `outputs` and `transcript` are optional."""
    (folder / "outputs").mkdir(parents=True, exist_ok=True)
    if grades is not None:
        write(folder / "grading.json", grades)
    write(folder / "timing.json", more.get("timing", {"total_tokens": 3800, "duration_ms": 45_000}))
    if "outcome" in more:
        write(folder / "outcome.json", more["outcome"])
    for name, content in more.get("outputs", {}).items():
        write(folder / "outputs" / name, content)
    if "transcript" in more:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in more["transcript"]]
        write(folder / "transcript.jsonl", "\n".join(lines) + "\n")


def write_case(iteration: Path, name: str, prompt: str = "Make a chart.", **more: Any) -> Path:
    """Write the metadata of a case, and return its folder."""
    folder = iteration / f"eval-{name}"
    metadata = {"eval_id": name, "eval_name": name, "prompt": prompt, "expected_output": "A chart.", **more}
    write(folder / "eval_metadata.json", metadata)
    return folder


def write_iteration(
    iteration: Path,
    cases: Mapping[str, tuple[tuple[bool, ...], tuple[bool, ...]]],
    *,
    complete: bool = True,
    **more: Any,
) -> Path:
    """Write an iteration with the grades of each case with the skill and without it."""
    for name, (ours, theirs) in cases.items():
        folder = write_case(iteration, name)
        write_run(folder / "with_skill", grading(*ours), outputs={"answer.txt": f"An answer to {name}.\n"})
        write_run(folder / "without_skill", grading(*theirs), timing={"total_tokens": 2100, "duration_ms": 32_000})
    write(iteration / "config.json", {"runs": 1})
    if complete:
        write(iteration / "benchmark.json", {"metadata": {"skill_name": "csv-analyzer", "model": "model-1"}, **more})
    return iteration


def query(text: str, *, should: bool, triggers: int, runs: int = 3, errors: int = 0, **more: Any) -> dict[str, Any]:
    """Return the result of a query."""
    rate = triggers / runs if runs else None
    passed = None if rate is None else (rate > 0.5) == should
    found = {"query": text, "should_trigger": should, "runs": runs, "triggers": triggers, "errors": errors, "denied": 0}
    return {**found, "trigger_rate": rate, "pass": passed, **more}


def write_triggers(folder: Path, results: list[dict[str, Any]], **more: Any) -> Path:
    """Write the results of trigger queries."""
    write(
        folder / "results.json", {"skill_name": "csv-analyzer", "description": "Reads CSV.", "results": results, **more}
    )
    return folder


def hostile_workspace(root: Path) -> Path:
    """Write a workspace in which every text and every file tries to break the page."""
    iteration = root / "iteration-1"
    folder = write_case(iteration, "hostile", prompt=HOSTILE, eval_name=HOSTILE, expected_output=HOSTILE)
    texts = [HOSTILE, "plain"]
    outputs: dict[str, object] = {
        "page.html": f"<!DOCTYPE html><body>{HOSTILE}",
        "line.txt": "x" * 3_000_000,
        "bytes.txt": b"text \xff\xfe with stray bytes\n",
        "nul.txt": "a\x00b",
        "bidi.txt": "user\u202etxt.exe\u202c \u2066x\u2069 \U000e0041",
        "image.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="window.hacked=1">'
        '<script>window.hacked = 1</script><image href="http://127.0.0.1:9/x.png"/></svg>',
        "fake.png": f"\x89PNG{HOSTILE}",
        "real.png": png(),
        "binary.bin": bytes(range(256)) * 8,
        "sub/<b>name</b>.txt": "nested",
    }
    transcript = [HOSTILE, {"type": HOSTILE, "text": HOSTILE}, "{" * 10_000, *({"n": n} for n in range(500))]
    write_run(folder / "with_skill", grading(True, False, texts=texts), outputs=outputs, transcript=transcript)
    error = {"status": "error", "error": HOSTILE, "exit_code": 1}
    write_run(folder / "without_skill", None, outcome=error, outputs={"page.html": HOSTILE})
    secret = root.parent / "secret.txt"
    secret.write_text("the secret outside of the workspace")
    (folder / "with_skill/outputs/link.txt").symlink_to(secret)
    (folder / "with_skill/outputs/folder").symlink_to(root.parent, target_is_directory=True)
    write(folder / "comparison.json", {"winner": HOSTILE, "reasoning": HOSTILE, "rubric": [{"criterion": HOSTILE}]})
    benchmark = {
        "metadata": {"skill_name": HOSTILE, "model": HOSTILE, "timestamp": HOSTILE},
        "notes": [HOSTILE],
        "effect": {"verdict": "better", "reason": HOSTILE},
    }
    write(iteration / "benchmark.json", benchmark)
    write(iteration / "feedback.json", {"eval-hostile": HOSTILE})
    write(iteration / "eval-broken/with_skill/grading.json", "{not json")
    write(iteration / "eval-deep/with_skill/grading.json", "[" * 100_000)
    rounds = [{"number": n, "description": f"{HOSTILE} {n}", "train": 0.5, "note": HOSTILE} for n in (1, 2)]
    write_triggers(root / "triggers-1", [query(HOSTILE, should=True, triggers=1, error=HOSTILE)], rounds=rounds)
    return root


def full_workspace(root: Path) -> Path:
    """Write a workspace with all that a report can show."""
    names = ("top-months-chart", "clean-missing-emails", "merge-two-files", "currency-symbols", "empty-file")
    texts = ["The output includes a bar chart image file", "The chart shows exactly 3 months", "Both axes are labeled"]
    for number, scale in ((1, 1), (2, 2), (3, 3)):
        iteration = root / f"iteration-{number}"
        for place, name in enumerate(names):
            folder = write_case(
                iteration, name, f"I have a CSV in data/{name}.csv. Can you chart it?", assertions=texts
            )
            for run in (1, 2, 3):
                ours = (True, place < scale + 1 or run == 1, scale + run > 2)
                seconds = 45_000 if (place, run) != (1, 3) else 190_000
                write_run(
                    folder / f"with_skill/run-{run}",
                    grading(*ours, texts=texts),
                    timing={"total_tokens": 3800 + 90 * run, "duration_ms": seconds, "total_cost_usd": 0.031},
                    outputs={"report.md": f"# Report {run}\n\nMarch, July and November.\n", "chart.png": png(160, 90)},
                    transcript=[
                        {"type": "system", "subtype": "init", "skills": ["csv-analyzer"]},
                        {
                            "type": "assistant",
                            "message": {
                                "content": [
                                    {"type": "text", "text": "I load the skill first.\nThen I read the file."},
                                    {"type": "tool_use", "name": "Skill", "input": {"skill": "csv-analyzer"}},
                                ]
                            },
                        },
                        *({"type": "assistant", "text": f"step {step}"} for step in range(200)),
                        {"type": "result", "total_cost_usd": 0.031},
                    ],
                )
                error = {"outcome": {"status": "timeout", "error": "no answer after 300 s", "exit_code": None}}
                fails = place == 4 and run == 3 and number == 3
                write_run(
                    folder / f"without_skill/run-{run}",
                    None if fails else grading(place > 2, False, False, texts=texts),
                    timing={"total_tokens": 2100 + 40 * run, "duration_ms": 32_000},
                    outputs={
                        "report.md": "No chart, but a table:\n\n| month | amount |\n",
                        "data.xlsx": b"PK\x03\x04" * 99,
                    },
                    **(error if fails else {}),
                )
        write(
            iteration / "benchmark.json",
            {
                "metadata": {"skill_name": "csv-analyzer", "model": "model-1", "runs_per_configuration": 3},
                "notes": ["Case empty-file: the baseline timed out once."],
            },
        )
        write(
            iteration / "feedback.json",
            {"eval-top-months-chart": "Months are in alphabetical order.", "eval-empty-file": ""},
        )
    comparison = {
        "winner": "A",
        "reasoning": "A has a chart with labels; B has a table alone.",
        "rubric": [{"criterion": "correctness", "A": 5, "B": 3}, {"criterion": "form", "A": 4, "B": 4}],
    }
    write(root / "iteration-3/eval-top-months-chart/comparison.json", comparison)
    queries = [
        query(
            "sales.csv has a column of dates, plot revenue by month", should=True, triggers=3, outcomes=["loaded"] * 3
        ),
        query("can u clean customers.csv, some emails are missing", should=True, triggers=1, split="validation"),
        query("what is a CSV file?", should=False, triggers=0, split="train"),
        query("convert this PDF to text", should=False, triggers=2, split="train", errors=1),
    ]
    rounds = [
        {
            "number": number,
            "description": text,
            "train": {"passed": train, "total": 12, "pass_rate": train / 12},
            "validation": {"passed": valid, "total": 8, "pass_rate": valid / 8},
        }
        for number, text, train, valid in (
            (0, "Helps with CSV files.", 6, 4),
            (1, "Analyses CSV files: charts and totals. Use when the user has a CSV file.", 9, 6),
            (2, "Analyses and cleans CSV files. Use when the user names a .csv file or a column.", 11, 7),
            (3, "Analyses and cleans CSV and PDF files. Use whenever a file is named.", 12, 5),
        )
    ]
    write_triggers(root / "triggers-1", queries, rounds=rounds, best_round=2)
    return root


def creator_workspace(root: Path) -> Path:
    """Write a workspace as skill-creator does: `expectations`, `run-K`, deltas as text, reviews, a loop's history."""
    iteration = root / "iteration-1"
    for number in (0, 1):
        folder = iteration / f"eval-{number}"
        for arm, passes in (("new_skill", True), ("old_skill", number == 1)):
            run = folder / arm / "run-1"
            write(run / "eval_metadata.json", {"eval_id": number, "eval_name": f"Ocean {number}", "prompt": "Paint."})
            grades = grading(passes, True, field="expectations")
            grades["execution_metrics"] = {"total_tool_calls": 15, "output_chars": 12450}
            grades["user_notes_summary"] = {"uncertainties": ["Used 2023 data"]}
            write(run / "grading.json", grades)
            write(run / "timing.json", {"total_tokens": 84852, "total_duration_seconds": 23.3})
            write(run / "outputs/transcript.md", "## Eval Prompt\n\nPaint.\n")
            write(run / "outputs/painting.txt", "blue")
    summary = {
        "new_skill": {"pass_rate": {"mean": 1.0, "stddev": 0.0}},
        "old_skill": {"pass_rate": {"mean": 0.75, "stddev": 0.35}},
        "delta": {"pass_rate": "+0.25", "time_seconds": "+0.0", "tokens": "+0"},
    }
    write(iteration / "benchmark.json", {"metadata": {"skill_name": "painter"}, "run_summary": summary, "runs": []})
    reviews = [
        {"run_id": "eval-0-new_skill-run-1", "feedback": "too blue", "timestamp": "2026-01-15T10:30:00Z"},
        {"run_id": "eval-1-new_skill-run-1", "feedback": "", "timestamp": "2026-01-15T10:30:00Z"},
    ]
    write(iteration / "feedback.json", {"reviews": reviews, "status": "complete"})
    results = [query("paint the sea", should=True, triggers=2), query("sea level?", should=False, triggers=2)]
    history = [
        {
            "iteration": number,
            "description": text,
            "train_passed": number,
            "train_total": 2,
            "train_results": results,
            "test_passed": 1,
            "test_total": 2,
            "test_results": results[:1],
        }
        for number, text in ((1, "Paints."), (2, "Paints seas."))
    ]
    loop = {"exit_reason": "all_passed (iteration 2)", "best_description": "Paints seas.", "best_test_score": "1/2"}
    write(root / "2026-01-15_103000/results.json", {**loop, "history": history})
    return root
