"""What a team deploys follows the rules for safe containers, and its configurations are valid."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.capabilities.operation.test_admin_endpoint import free_port
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
MANIFESTS = DEPLOY / "kubernetes/skillserve.yaml"
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
VALIDATE = DEPLOY / ".venv/bin/kubernetes-validate"
ADDRESSES = {f"SKILLPROXY_REPLICA_{number}": f"127.0.0.1:{number}" for number in (1, 2, 3)}


def resources(kind: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8"))
    return [each for each in documents if each["kind"] == kind]


def configured(name: str) -> str:
    """Return a file that a ConfigMap contains."""
    (text,) = [each["data"][name] for each in resources("ConfigMap") if name in each["data"]]
    return str(text)


def pods() -> Iterator[dict[str, Any]]:
    for deployment in resources("Deployment"):
        yield deployment["spec"]["template"]["spec"]


def replica() -> dict[str, Any]:
    """Return the container of the replicas in the manifests."""
    (found,) = [pod["containers"][0] for pod in pods() if pod["containers"][0]["name"] == "skillserve"]
    return dict(found)


def environment_of(where: str) -> dict[str, str]:
    """Return the variables of the replicas, without those that name files."""
    if where == "compose":
        found = compose()["services"]["skillserve-1"]["environment"]
    else:
        found = {each["name"]: each["value"] for each in replica()["env"]}
    return {name: value for name, value in found.items() if not name.endswith("_FILE")}


def proxies() -> dict[str, str]:
    """Return the configurations of the proxies."""
    return {"compose": (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8"), "chart": configured("haproxy.cfg")}


def section(text: str, heading: str) -> set[str]:
    """Return the lines of a section of a proxy's configuration, without comments and servers."""
    (found,) = re.findall(rf"^{heading}\n((?:(?:[ #].*)?\n)+)", text, re.MULTILINE)
    lines = {line.strip() for line in found.splitlines()}
    return {line for line in lines if line and not line.startswith(("#", "server"))}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text(encoding="utf-8"))
    return loaded


def test_no_container_of_the_manifests_has_rights_that_it_does_not_need() -> None:
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def test_a_replica_is_alive_before_it_is_ready_and_has_time_to_drain() -> None:
    pod = next(pod for pod in pods() if pod["containers"] == [replica()])
    probes = {name: pod["containers"][0][f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness")}
    assert probes == {"liveness": "/health", "readiness": "/ready"}
    assert "drain_seconds = 20" in configured("skillserve.toml")
    assert pod["terminationGracePeriodSeconds"] > 20


def test_every_pod_has_a_network_policy_for_both_directions() -> None:
    policies = resources("NetworkPolicy")
    assert all(policy["spec"]["policyTypes"] == ["Ingress", "Egress"] for policy in policies)
    selected = [policy["spec"]["podSelector"]["matchLabels"] for policy in policies]
    for deployment in resources("Deployment"):
        assert deployment["spec"]["template"]["metadata"]["labels"] in selected


def test_no_server_of_the_deployments_starts_without_a_login() -> None:
    commands = [pod["containers"][0]["args"] for pod in pods()]
    commands += [service["command"] for service in compose()["services"].values() if "command" in service]
    assert [command for command in commands if "--insecure" in command] == []


def test_all_that_replicas_are_told_is_where_the_check_of_the_configuration_sees_it() -> None:
    services = compose()["services"]
    assert replica()["args"] == services["skillserve-1"]["command"] == ["serve", "/skills"]
    for name in ("environment", "volumes", "secrets"):
        assert services["config-check"][name] == services["skillserve-1"][name]


def test_no_service_of_the_compose_file_has_rights_that_it_does_not_need() -> None:
    for service in compose()["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {"mem_limit", "pids_limit"} <= service.keys()


def test_only_the_proxy_can_be_reached_and_only_replicas_reach_others() -> None:
    services, networks = compose()["services"], compose()["networks"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    open_networks = {name for name, network in networks.items() if not network.get("internal")}
    assert open_networks == {"public", "out"}
    members = {name: {each for each in services if name in services[each]["networks"]} for name in networks}
    replicas = {name for name, service in services.items() if "serve" in service.get("command", ())}
    assert members == {
        "public": {"proxy"},
        "front": {"proxy", *replicas},
        "data": {"redis", "postgres", "config-check", *replicas},
        "out": replicas,
    }


def test_the_proxy_knows_the_addresses_of_the_replicas_and_they_trust_it_alone() -> None:
    services = compose()["services"]
    addresses = {
        name: service["networks"]["front"]["ipv4_address"]
        for name, service in services.items()
        if "front" in service["networks"]
    }
    proxy = addresses.pop("proxy")
    environment = services["proxy"]["environment"]
    known = {value for name, value in environment.items() if name.startswith("SKILLPROXY_REPLICA_")}
    assert known == {f"{address}:8000" for address in addresses.values()}
    settings = tomllib.loads((DEPLOY / "compose/skillserve.toml").read_text(encoding="utf-8"))
    assert settings["http"]["trusted_proxies"] == [proxy]
    assert settings["operation"]["drain_seconds"] < int(services["skillserve-1"]["stop_grace_period"].rstrip("s"))


def test_replicas_of_the_chart_trust_the_proxy_alone() -> None:
    (trusted,) = [each["value"] for each in replica()["env"] if each["name"] == "SKILLSERVE_TRUSTED_PROXIES"]
    assert "trusted_proxies" not in configured("skillserve.toml")
    (service,) = [each for each in resources("Service") if f"dns:{each['metadata']['name']}" == trusted]
    assert service["spec"]["clusterIP"] == "None"
    selected = [
        each["metadata"]["name"]
        for each in resources("Deployment")
        if service["spec"]["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert selected == ["skillserve-proxy"]


def test_one_service_builds_the_image_of_all_replicas() -> None:
    assert [name for name, service in compose()["services"].items() if "build" in service] == ["skillserve-1"]


def test_secrets_come_from_files() -> None:
    services, secrets = compose()["services"], compose()["secrets"]
    assert all(each["file"].startswith("./secrets/") for each in secrets.values())
    for service in services.values():
        values = [*service.get("environment", {}).values()]
        assert [value for value in values if "://" in value and "@" in value] == []
        assert set(service.get("secrets", [])) <= secrets.keys()


@pytest.mark.parametrize("where", ["compose", "chart"])
def test_the_settings_have_no_fault_and_would_have_one_without_the_login(where: str, tmp_path: Path) -> None:
    if where == "compose":
        text = (DEPLOY / "compose/skillserve.toml").read_text(encoding="utf-8")
    else:
        text = configured("skillserve.toml")
    # The file is in the container; a server does not start without it.
    secret = tmp_path / "replicas-secret"
    secret.write_text("0123456789abcdef" * 2, encoding="utf-8")
    text, replaced = re.subn(r'secret_file = ".*"', lambda _: f"secret_file = '{secret.as_posix()}'", text)
    assert replaced == 1
    url = tmp_path / "redis-url"
    url.write_text("redis://redis:6379\n", encoding="utf-8")
    variables = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    variables |= {"SKILLSERVE_REPLICAS_REDIS_URL_FILE": str(url)} if where == "chart" else {}
    (tmp_path / "skillserve").mkdir()

    def check(text: str) -> tuple[int, str]:
        (tmp_path / "skillserve/skillserve.toml").write_text(text, encoding="utf-8")
        done = run("config", "check", **variables, **environment_of(where))
        return done.returncode, done.stdout + done.stderr

    code, output = check(text)
    assert code == 0, output
    assert "0 errors" in output
    code, output = check(re.sub(r"^\[login\]\n(?:[^\[].*\n|\n)*", "", text, flags=re.MULTILINE))
    assert code == 1, output
    assert "0.0.0.0 can be reached from other machines" in output


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine")
def test_the_secrets_are_made_once_and_only_their_owner_reaches_them(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "compose/make-secrets.sh", tmp_path)
    folder = tmp_path / "secrets"

    def made() -> dict[str, str]:
        done = subprocess.run([script], check=True, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.stderr == b""
        return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}

    first = made()
    assert first.keys() == compose()["secrets"].keys()
    assert len(first["replicas_secret"].strip()) == 64
    assert first["postgres_password"].strip() in first["run_store"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert made() == first


@pytest.mark.skipif(HAPROXY is None or shutil.which("openssl") is None, reason="there is no haproxy on this machine")
def test_the_configurations_of_the_proxies_are_valid(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "compose/make-secrets.sh", tmp_path)
    subprocess.run([script], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    tls = (DEPLOY / "compose/haproxy-tls.cfg").read_text(encoding="utf-8")
    (tmp_path / "tls.cfg").write_text(tls.replace("/run/secrets", str(tmp_path / "secrets")), encoding="utf-8")
    (tmp_path / "chart.cfg").write_text(proxies()["chart"], encoding="utf-8")
    for files in ([DEPLOY / "haproxy.cfg", tmp_path / "tls.cfg"], [tmp_path / "chart.cfg"]):
        command = [str(HAPROXY), "-c", *(word for file in files for word in ("-f", str(file)))]
        environment = {**os.environ, **ADDRESSES, "SKILLPROXY_BIND": "127.0.0.1:8080", "POD_NAMESPACE": "team"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


FORWARDED = {
    (): "127.0.0.1",
    ("192.0.2.7",): "192.0.2.7",
    ("10.0.0.1, 192.0.2.7",): "192.0.2.7",
    ("10.0.0.1", "192.0.2.7"): "192.0.2.7",
    ("10.0.0.1, nonsense",): "127.0.0.1",
}


@pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy on this machine")
@pytest.mark.parametrize(("given", "passed_on"), FORWARDED.items())
def test_the_proxy_of_the_chart_passes_on_the_address_that_the_ingress_names_alone(
    given: tuple[str, ...], passed_on: str, tmp_path: Path
) -> None:
    text = proxies()["chart"]
    rules = re.findall(r"^ +http-request (?:set-src|del-header).*$", text, re.MULTILINE)
    port, target = free_port(), socket.create_server(("127.0.0.1", 0))
    target.settimeout(30)
    lines = ["defaults", *sorted(section(text, "defaults")), "frontend mcp", f"bind 127.0.0.1:{port}", *rules]
    lines += ["default_backend replicas", "backend replicas", f"server replica 127.0.0.1:{target.getsockname()[1]}", ""]
    (tmp_path / "haproxy.cfg").write_text("\n".join(lines), encoding="utf-8")
    with target, subprocess.Popen([str(HAPROXY), "-db", "-f", str(tmp_path / "haproxy.cfg")]) as proxy:
        try:
            with connected(port) as client:
                headers = "".join(f"X-Forwarded-For: {value}\r\n" for value in given)
                client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
                with target.accept()[0] as replica_side:
                    request = replica_side.recv(10_000).decode()
        finally:
            proxy.terminate()
    assert re.findall(r"^x-forwarded-for: (.*)\r$", request, re.MULTILINE | re.IGNORECASE) == [passed_on]


def connected(port: int) -> socket.socket:
    """Connect as soon as somebody listens."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_both_proxies_treat_requests_alike() -> None:
    for heading in ("defaults", "backend replicas"):
        compose_rules, chart_rules = (section(text, heading) for text in proxies().values())
        assert compose_rules == chart_rules


@pytest.mark.parametrize("where", ["compose", "chart"])
def test_no_proxy_holds_notifications_back(where: str) -> None:
    text = proxies()[where]
    assert "option http-no-delay" in section(text, "defaults")
    assert "no option http-no-delay" not in text


def test_no_variable_of_the_proxy_looks_like_a_setting_of_the_server() -> None:
    files = [DEPLOY / "haproxy.cfg", DEPLOY / "compose/haproxy-tls.cfg", DEPLOY / "compose/compose.yaml"]
    named = {name for file in files for name in re.findall(r"\$\{(\w+)", file.read_text(encoding="utf-8"))}
    named |= compose()["services"]["proxy"]["environment"].keys()
    assert "SKILLPROXY_BIND" in named
    assert [name for name in named if name.startswith("SKILLSERVE_")] == []


@pytest.mark.skipif(not VALIDATE.exists(), reason="`make manifests-check` installs the schemas of Kubernetes")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("readOnlyRootFilesystem", "readOnlyRootFileSystem"),
        ("replicas: 3", "replicas: three"),
        ("containerPort: 8000", "containerPort: many"),
    ],
)
def test_a_wrong_manifest_breaks_its_schema(right: str, wrong: str, tmp_path: Path) -> None:
    text = MANIFESTS.read_text(encoding="utf-8")
    assert right in text
    copy = tmp_path / "wrong.yaml"
    copy.write_text(text.replace(right, wrong), encoding="utf-8")
    codes = [
        subprocess.run([VALIDATE, "--strict", "--quiet", file], capture_output=True, check=False).returncode
        for file in (MANIFESTS, copy)
    ]
    assert codes[0] == 0
    assert codes[1] != 0
