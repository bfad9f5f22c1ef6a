"""How the server performs skills itself: the model, the limits, the record and the tools of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct, field

from server.capabilities.replicas.settings import ReplicaSettings
from server.config.settings.section import Section
from server.config.values import InvalidValueError, NonEmpty, PositiveInt, SecretStr, check_paths
from skills_core.runs.tools import WorkspaceTool

if TYPE_CHECKING:
    from server.config.settings.model import Settings

_LEASE = 15
_REPLICA_LEASE = 3

RUN_SKILL: Final = "run_skill"
RUN_WORKFLOW: Final = "run_workflow"


class RunSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of skills and workflows by a model; without a model there are none."""

    model: NonEmpty | None = None
    """The model that performs skills: `anthropic:NAME`, `openai:NAME`, `http(s)://HOST/v1#NAME` for a server with the
    API of OpenAI, or `client` for the model of the connected client."""
    model_key: SecretStr | None = None
    """API key of a model that is named by its URL. If a variable or a flag names a model at another address, it is not
    sent there. Keys of providers are read from the providers' own variables."""
    turns: Annotated[int, Meta(ge=1, le=1000)] = 25
    """Number of model responses after which a run is ended. Raise it for skills with many steps."""
    tokens: PositiveInt = 500_000
    """Number of tokens, input and output together, after which a run is ended. Reduce it to bound the cost of a run."""
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Prices of models in dollars for a million tokens, by the name of the model, as in
    `"http://127.0.0.1:4000/v1#big" = { input = 3.0, output = 15.0 }`. Without it, those that the library `genai-prices`
    knows count."""
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 900
    """Seconds after which a run is ended. They count from its start in a worker, while the machine is awake."""
    resume_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 600
    """A server that starts continues runs that were interrupted at most this many seconds ago; older ones wait for
    `skillserve runs resume`. With 0 a server continues none."""
    lease_seconds: Annotated[int, Meta(ge=3, le=3600)] | None = None
    """With PostgreSQL: seconds without a sign of life of this process after which another process takes over its runs.
    Raise it if machines pause for longer. By default 15, and 3 for replicas (`[replicas]`), where another process is
    always there to continue."""
    at_once: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Number of runs that this process performs at a time; further runs wait."""
    store: SecretStr | None = None
    """Where runs are recorded: a SQLite file, or `postgresql://…` to share runs among machines. In a file of settings a
    path is relative to that file. By default it is a file in the user's state folder."""
    workflows: tuple[str, ...] = ()
    """Workflows that clients may run, by file or folder. In a file of settings a path is relative to that file."""
    tools: tuple[WorkspaceTool, ...] = ()
    """Tools for the workspace that runs may use. They need `workspace`."""
    workspace: NonEmpty | None = None
    """The folder that these tools can read and change."""
    mcp_servers: NonEmpty | None = None
    """A JSON file with `mcpServers`, as MCP clients have it; runs may use the tools of these servers. In a file of
    settings a path is relative to that file."""

    def __post_init__(self) -> None:
        store = None if self.store is None else self.store.get_secret_value()
        for name, price in self.prices.items():
            if price.keys() != {"input", "output"} or not all(0 <= each < math.inf for each in price.values()):
                raise InvalidValueError("expected { input = …, output = … }, both 0 or more", ("prices", name))
        check_paths(store=store, workspace=self.workspace, mcp_servers=self.mcp_servers)

    def __hash__(self) -> int:
        # Tables are not hashable.
        return hash((self.model, self.workspace, self.tools))


def lease_seconds(settings: Settings) -> int:
    """Return the seconds without a sign of life after which another process takes over the runs of this one."""
    by_default = _REPLICA_LEASE if settings.section(ReplicaSettings).enabled else _LEASE
    return settings.section(RunSettings).lease_seconds or by_default


SECTION: Final = Section(
    name="runs",
    kind=RunSettings,
    prefix="run_",
    options={
        "at_once": "runs_at_once",
        "mcp_servers": "mcp_servers",
        "model": "model",
        "model_key": "model_key",
        "workflows": "workflows",
        "workspace": "workspace",
    },
    flags={"run_tools": "--run-tool", "workflows": "--workflow"},
    file_only=frozenset({"prices"}),
    secrets=frozenset({"model_key", "store"}),
    keys_of_models={"model": "model_key"},
)
