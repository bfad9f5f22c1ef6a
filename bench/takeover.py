"""How long a run stays with nobody after its replica was killed or frozen: seconds until another one continues it.

Three replicas share Redis and PostgreSQL, which this script starts; both must be installed. A model that does not
answer holds the run. It is measured from the signal to the request by which another replica asks the model again. The
goal is five seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from mcp import Client  # noqa: E402 - the servers that tests start are used here too

from tests.capabilities.replicas.group import group  # noqa: E402
from tests.capabilities.replicas.redis_server import RedisServer, program  # noqa: E402
from tests.conftest import write_skill  # noqa: E402
from tests.core.runs.durable.postgres import PrivateCluster, programs  # noqa: E402
from tests.model_endpoint import EndpointServer, Hang, ModelEndpoint, open_endpoint_server  # noqa: E402

GOAL_SECONDS = 5.0
ROUNDS = 5


async def _call(url: str) -> None:
    # The replica never answers, so the connection fails or is cancelled.
    with contextlib.suppress(Exception):
        async with Client(url, mode="2026-07-28", cache=None) as client:
            await client.call_tool("run_skill", {"name": "stayer", "message": "now"})


async def _asked(endpoint: ModelEndpoint, times: int) -> None:
    while len(endpoint.requests) < times:  # noqa: ASYNC110 - other processes ask
        await asyncio.sleep(0.01)


async def _seconds(how: signal.Signals, redis: RedisServer, cluster: PrivateCluster, models: EndpointServer) -> float:
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder, models.endpoint() as endpoint:
        skills = Path(folder) / "skills"
        write_skill(skills, "stayer")
        endpoint.script = [Hang(then="the end")]
        settings = {
            "SKILLSERVE_TOOLS": "run_skill",
            "SKILLSERVE_MODEL": endpoint.model,
            "SKILLSERVE_RUN_STORE": cluster.new_database(),
            "XDG_STATE_HOME": str(Path(folder) / "state"),
        }
        async with group(skills, redis, settings, settings, settings) as members:
            calling = asyncio.create_task(_call(members[0].url))
            await _asked(endpoint, 1)
            # The lease was renewed at any time before.
            await asyncio.sleep(1 + time.time() % 1)
            begin = time.perf_counter()
            members[0].send(how)
            await _asked(endpoint, 2)
            seconds = time.perf_counter() - begin
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
    return seconds


async def _measure() -> bool:
    redis_program, postgres = program(), programs()
    if redis_program is None or postgres is None:
        print("this needs redis-server and PostgreSQL; on Debian and Ubuntu: apt install redis-server postgresql")
        return True
    redis, cluster = RedisServer(redis_program), PrivateCluster(postgres)
    worst = 0.0
    try:
        with open_endpoint_server() as models:
            for name, how in (("killed", signal.SIGKILL), ("frozen", signal.SIGSTOP)):
                seconds = [await _seconds(how, redis, cluster, models) for _ in range(ROUNDS)]
                worst = max(worst, *seconds)
                print(f"{name}: median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s")
    finally:
        redis.remove()
        cluster.remove()
    return worst <= GOAL_SECONDS


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(_measure()) else 1)
