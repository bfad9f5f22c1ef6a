"""What runs of an agent cost, and their count within bounds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.agents.agent import EXECUTOR, Agent
from server.capabilities.evals.settings import EvalSettings
from server.capabilities.evals.workspace import EvalError
from server.capabilities.runs.metering import open_meter
from server.capabilities.runs.offered import open_configured
from server.capabilities.runs.settings import RunSettings
from skills_core.runs.models import (
    ModelSpec,
    ModelUnavailableError,
    Price,
    connected,
    parse_model,
    price_of_model,
)
from skills_core.runs.spending import Bounds, Use

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_ai.models import Model

    from server.capabilities.evals.agents.agent import AgentTask
    from server.capabilities.evals.agents.cli_agent import CliAgent
    from server.capabilities.runs.metering import Meter
    from server.config.settings.model import Settings
    from skills_core.evals.agents.kind import AgentRun, Transcript

JUDGE: Final = "judge"
"""The kind of work of requests to a judge."""
REVISION: Final = "revision"
"""The kind of work of requests for a description."""


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds of evals."""
    evals = settings.section(EvalSettings)
    return Bounds(evals.max_cost, evals.max_requests, evals.max_seconds)


def named_price(price_in: float | None, price_out: float | None) -> Price | None:
    """Return the price that the flags give to tokens of the agent under test, None if they give none.

    Raises:
        EvalError: there is only one of them.
    """
    if price_in is None and price_out is None:
        return None
    if price_in is None or price_out is None:
        raise EvalError("--price-in and --price-out belong together: name both, in dollars for a million tokens")
    return Price(price_in, price_out)


def price_of_named_model(settings: Settings, name: str, provider: str = "") -> Price | None:
    """Return the price of a model by its name, None if it is unknown; `provider` is for names without one.

    The prices of the settings count first, by the name as it is written.
    """
    own = settings.section(RunSettings).prices
    if (price := own.get(name)) is not None:
        return Price(price["input"], price["output"])
    try:
        # Some agents write `provider/name`.
        written = name if "://" in name else name.replace("/", ":", 1)
        spec = ModelSpec(provider, name) if provider else parse_model(written)
    except ModelUnavailableError:
        return None
    return price_of_model(spec, own)


@asynccontextmanager
async def counted_model(settings: Settings, folder: Path, kind: str) -> AsyncGenerator[Model]:
    """Yield the configured model, each request of which counts in `folder` within the bounds of evals.

    Raises:
        EvalError: the cost has a bound, and the price of the model is unknown.
        ModelUnavailableError: the model cannot be used.
        SpendingError: there are bounds, and what is used cannot be counted.
    """
    from server.capabilities.runs.metered_model import MeteredModel

    runs, bounds = settings.section(RunSettings), bounds_of(settings)
    price = price_of_named_model(settings, runs.model or "")
    if bounds.cost is not None and price is None:
        raise EvalError(f"--max-cost needs the price of {runs.model}, which is unknown; give it in runs.prices")
    async with open_meter(folder, bounds) as meter:
        model = MeteredModel(open_configured(runs), meter, f"{kind}: {runs.model}", price)
        async with connected(model):
            yield model


@dataclass(frozen=True, slots=True)
class AgentCosts:
    """How the cost of a run is known: by what the agent reports, else by its tokens and a price.

    `price` is that of `--price-in` and `--price-out` or of the model that is named; without one it is that of the model
    which the agent says it uses.
    """

    settings: Settings
    price: Price | None = None
    provider: str = ""
    tells_cost: bool = False

    @classmethod
    def of(cls, settings: Settings, agent: CliAgent | None, price: Price | None) -> AgentCosts:
        """Return how the cost of a run is known; without an agent, our own executor performs."""
        if agent is None:
            return cls(settings, price or price_of_named_model(settings, settings.section(RunSettings).model or ""))
        provider = agent.kind.provider
        if price is None and agent.model:
            price = price_of_named_model(settings, agent.model, provider)
        return cls(settings, price, provider, agent.kind.tells_cost)

    @property
    def is_known(self) -> bool:
        """Whether the cost of a run will be known."""
        return self.tells_cost or self.price is not None

    def cost_of(self, transcript: Transcript) -> float | None:
        """Return what a run has cost in dollars, None if it is unknown.

        Input from a provider's cache counts like other input. If the agent does not tell its output apart, all tokens
        count at the higher price.
        """
        if transcript.cost_usd is not None or transcript.total_tokens is None:
            return transcript.cost_usd
        price = self.price
        if price is None and transcript.model:
            price = price_of_named_model(self.settings, transcript.model, self.provider)
        if price is None:
            return None
        total, output = transcript.total_tokens, transcript.output_tokens
        return total * price.most if output is None else price.of(total - output, output)


@dataclass(frozen=True, slots=True)
class MeteredAgent(Agent):
    """An agent each run of which is a piece of work; `purpose` says what the runs are for."""

    agent: Agent
    meter: Meter
    costs: AgentCosts
    purpose: str

    @property
    def identity(self) -> Mapping[str, str]:
        """That of the agent."""
        return self.agent.identity

    @property
    def label(self) -> str:
        """That of the agent."""
        return self.agent.label

    @property
    def installed(self) -> bool:
        """Whether skills lie in the agent's own folder."""
        return self.agent.installed

    @property
    def tells_loads(self) -> bool:
        """Whether the agent's record tells which skills it loads."""
        return self.agent.tells_loads

    def running(self, tasks: Sequence[AgentTask]) -> AbstractAsyncContextManager[None]:
        """Open what the agent needs."""
        return self.agent.running(tasks)

    async def perform(self, task: AgentTask) -> AgentRun:
        """Perform a task if the bounds leave room for it.

        Raises:
            BoundReachedError: they do not.
            SkillsError: the task cannot be prepared.
        """
        # A start of another program counts as one request, however many it makes.
        requests = None if self.identity.get("agent") == EXECUTOR else 1
        async with self.meter.piece(f"{self.purpose}: {self.label}", requests) as piece:
            run = await self.agent.perform(task)
            transcript = run.transcript
            cost = self.costs.cost_of(transcript)
            piece.used = Use(requests or transcript.requests, cost, transcript.total_tokens)
        return replace(run, transcript=replace(transcript, cost_usd=cost))
