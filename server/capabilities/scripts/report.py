"""The report on a script's run, the same for the tool and the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import one_line, without_lone_surrogates
from skills_core.scripts.process import ProcessEnding, exit_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.scripts.isolation import IsolationKind
    from skills_core.scripts.runner import ScriptResult
    from skills_core.skills.skill import Skill


_ENDINGS = {
    ProcessEnding.TIMED_OUT: "took too long and was ended",
    ProcessEnding.TOO_MUCH_OUTPUT: "wrote more than is allowed and was ended",
}


@dataclass(frozen=True, slots=True)
class ScriptReport:
    """A script's run: which script, how it ended, and its output as text."""

    skill: str
    path: str
    digest: str
    ending: ProcessEnding
    exit_code: int | None
    isolation: IsolationKind
    note: str
    stdout: str
    stderr: str

    @property
    def succeeded(self) -> bool:
        """Whether the script exited with code 0."""
        return self.exit_code == 0

    @property
    def summary(self) -> str:
        """How the script ended, as a sentence without a full stop."""
        script = f"{one_line(self.path)} of the skill {one_line(self.skill)}"
        if self.ending is ProcessEnding.NOT_STARTED:
            return f"{script} could not be started: {self.note}"
        how = _ENDINGS.get(self.ending, exit_text(self.exit_code))
        return f"{script} {how}{f' ({self.note})' if self.note else ''}"

    @property
    def facts(self) -> dict[str, Any]:
        """Everything but the output, for JSON."""
        return {
            "skill": self.skill,
            "path": self.path,
            "digest": self.digest,
            "ending": self.ending.value,
            "exit_code": self.exit_code,
            "isolation": self.isolation.value,
            "note": self.note or None,
        }


def report_of(
    skill: Skill, path: str, isolation: IsolationKind, result: ScriptResult, hide: Callable[[str], str] = str
) -> ScriptReport:
    """Return the report; bytes that are not UTF-8 become U+FFFD, and `hide` removes secrets from the output."""
    finished = result.finished
    return ScriptReport(
        skill=skill.key,
        path=path,
        digest=skill.content.files[path].digest,
        ending=finished.ending,
        exit_code=finished.exit_code,
        isolation=isolation,
        note=without_lone_surrogates(finished.fault or result.note),
        stdout=hide(finished.stdout.decode("utf-8", errors="replace")),
        stderr=hide(finished.stderr.decode("utf-8", errors="replace")),
    )
