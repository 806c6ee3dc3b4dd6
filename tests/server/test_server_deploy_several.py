"""What `deploy/` has for several servers fits its formats, the commands it starts and the metrics that there are."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import compose_spec
import kubernetes_validate
import promql_parser
import pytest
import yaml

from skillyard.cli.commands import database_commands, serve_commands
from skillyard.cli.program import add_common_options, command_parser
from skillyard.packages import PackageLimits
from skillyard.server.middleware.observability import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
COMPOSE = DEPLOY / "compose/compose.yaml"
VERSIONS = ("1.29.0", "1.34.0")
_COMMANDS = {
    "serve": serve_commands.add_serve_arguments,
    "worker": serve_commands.add_worker_arguments,
    "db": database_commands.add_db_arguments,
}
SECRETS = {"POSTGRES_PASSWORD": "a", "STORE_PASSWORD": "b"}


def options(words: list[str]) -> dict[str, Any]:
    """What a command line of skillyard means."""
    parser = command_parser(words[0])
    _COMMANDS[words[0]](parser)
    add_common_options(parser)
    return vars(parser.parse_args(words[1:]))


def resources() -> list[dict[str, Any]]:
    """Every resource of the manifests."""
    files = sorted(path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")
    return [found for path in files for found in yaml.safe_load_all(path.read_text()) if found]


def _named(resource: dict[str, Any]) -> str:
    return f"{resource['kind']}-{resource['metadata']['name']}"


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [resource for resource in resources() if resource["kind"] == kind]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("resource", resources(), ids=_named)
def test_a_manifest_fits_the_schema_of_kubernetes(resource: dict[str, Any], version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    kubernetes_validate.validate(resource, minor, strict=True)


def test_every_manifest_is_part_of_the_whole() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(path.name for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")
    assert {resource["kind"] for resource in resources()} >= {
        "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "Job",
    }  # fmt: skip


def test_the_containers_of_kubernetes_start_commands_with_longer_to_stop_than_their_grace() -> None:
    for resource in (*of_kind("Deployment"), *of_kind("Job")):
        pod = resource["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        given = options(container["args"])
        assert container["command"] == ["skillyard"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["securityContext"]["runAsUser"] == 10001  # as the image is built
        if "grace" in given:
            assert pod["terminationGracePeriodSeconds"] > given["grace"] + given.get("drain", 0)


def test_a_container_of_kubernetes_writes_only_where_something_is_mounted_and_gains_no_rights() -> None:
    (namespace,) = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for resource in (*of_kind("Deployment"), *of_kind("Job")):
        pod = resource["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        held = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == held
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted == {"home": "/var/lib/skillyard", "scratch": "/tmp"}
        assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}


def test_pods_reach_names_the_records_the_store_and_https_of_the_public_internet_only() -> None:
    allowed: dict[str, set[tuple[str, int]]] = {}
    for policy in of_kind("NetworkPolicy"):
        for rule in policy["spec"].get("egress", ()):
            assert rule["ports"], policy["metadata"]["name"]
            for to in rule["to"]:  # never to anywhere
                where = to["ipBlock"]["cidr"] if "ipBlock" in to else to["podSelector"]["matchLabels"]["k8s-app"]
                allowed.setdefault(where, set()).update((port["protocol"], port["port"]) for port in rule["ports"])
                for inside in (
                    "10.0.0.1",
                    "172.16.0.1",
                    "192.168.0.1",
                    "169.254.169.254",
                    "127.0.0.1",
                    "100.64.0.1",
                    "fd00::1",
                ):
                    assert not _within(ip_address(inside), to.get("ipBlock")), inside
    assert allowed == {
        "kube-dns": {("UDP", 53), ("TCP", 53)},
        "192.0.2.10/32": {("TCP", 5432)},
        "192.0.2.20/32": {("TCP", 443)},
        "0.0.0.0/0": {("TCP", 443)},
        "2000::/3": {("TCP", 443)},
    }


def _within(address: IPv4Address | IPv6Address, block: dict[str, Any] | None) -> bool:
    if block is None or address not in ip_network(block["cidr"]):
        return False
    return not any(address in ip_network(part) for part in block.get("except", ()))


def test_the_services_of_compose_gain_no_rights_and_ours_write_only_to_volumes() -> None:
    ours = [name for name, service in services().items() if service.get("entrypoint") == ["skillyard"]]
    assert {"server-1", "server-2", "server-3", "worker", "migrate"} <= set(ours)
    for name, service in services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if service.get("entrypoint") == ["skillyard"]:
            assert service["read_only"], name
            assert "cap_add" not in service
            written = [place.partition(":")[0] for place in service["tmpfs"]]
            written += [place.rpartition(":")[2] for place in service.get("volumes", ())]
            assert sorted(written) == ["/tmp", "/var/lib/skillyard"], name


def test_what_selects_pods_selects_those_that_there_are() -> None:
    pods = [resource["spec"]["template"]["metadata"]["labels"].items() for resource in of_kind("Deployment")]
    chosen = [service["spec"]["selector"] for service in of_kind("Service")]
    chosen += [budget["spec"]["selector"]["matchLabels"] for budget in of_kind("PodDisruptionBudget")]
    assert all(any(wanted.items() <= labels for labels in pods) for wanted in chosen)
    names = {resource["metadata"]["name"] for resource in of_kind("Deployment")}
    assert {scaler["spec"]["scaleTargetRef"]["name"] for scaler in of_kind("HorizontalPodAutoscaler")} == names
    (server,) = (resource for resource in of_kind("Deployment") if resource["metadata"]["name"] == "skillyard-server")
    for budget in of_kind("PodDisruptionBudget"):
        least = {one["metadata"]["name"]: one["spec"]["replicas"] for one in of_kind("Deployment")}[budget["metadata"]["name"]]
        assert budget["spec"]["minAvailable"] < least
    paths = {probe: server["spec"]["template"]["spec"]["containers"][0][probe]["httpGet"]["path"] for probe in _PROBES}
    assert paths == _PROBES


_PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def services() -> dict[str, Any]:
    """The services of the compose file, with anchors resolved."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def interpolated() -> dict[str, Any]:
    """The compose file with its variables replaced as compose does it, by those of `SECRETS` or by their defaults."""

    def value(found: re.Match[str]) -> str:
        return SECRETS.get(found["name"], found["default"] or "")

    text = re.sub(r"\$\{(?P<name>[A-Z_]+)(?::-(?P<default>[^}]*)|:\?[^}]*)?\}", value, COMPOSE.read_text())
    whole: dict[str, Any] = yaml.safe_load(text)
    return whole


def test_the_compose_file_fits_its_specification() -> None:
    whole = interpolated()
    reported = compose_spec.PyCompose.from_yaml(yaml.safe_dump(whole, sort_keys=False))
    assert sorted(reported.service_names()) == sorted(services())
    assert set(reported.volumes or {}) == {"home", "records", "archive", "packages", "measures"}
    whole["services"]["nginx"]["prots"] = ["80:80"]
    with pytest.raises(ValueError, match="prots"):
        compose_spec.PyCompose.from_yaml(yaml.safe_dump(whole, sort_keys=False))


def test_the_services_of_compose_start_commands_and_know_each_other() -> None:
    found = services()
    given = {name: options(service["command"]) for name, service in found.items() if service.get("entrypoint") == ["skillyard"]}
    assert sorted(given) == ["migrate", "server-1", "server-2", "server-3", "worker"]
    for name, wanted in given.items():
        if "grace" in wanted:
            period = re.fullmatch(r"(\d+)(s|m)", found[name]["stop_grace_period"])
            assert period is not None
            assert int(period[1]) * {"s": 1, "m": 60}[period[2]] > wanted["grace"] + wanted.get("drain", 0)
    for service in found.values():
        assert set(service.get("depends_on", ())) <= set(found)
    used = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE.read_text()))
    reported = set(re.findall(r"^([A-Z_]+)=", (DEPLOY / "compose/example.env").read_text(), re.M))
    assert reported <= used
    assert {name for name in used if f"${{{name}:?" in COMPOSE.read_text()} == set(SECRETS) <= reported


def test_nginx_hands_everything_to_each_server_of_the_compose_file() -> None:
    text = (DEPLOY / "compose/nginx.conf").read_text()
    assert re.findall(r"server (server-\d):8787", text) == sorted(name for name in services() if name.startswith("server"))
    most = re.search(r"client_max_body_size (\d+)m;", text)
    assert most is not None
    assert int(most[1]) << 20 > PackageLimits().archive
    for wanted in ("proxy_buffering off", "proxy_request_buffering off", "proxy_http_version 1.1", "location = /metrics"):
        assert wanted in text


@pytest.mark.parametrize("file", ["nginx.conf", "compose/nginx.conf"])
def test_nginx_says_itself_who_asks_and_the_servers_believe_it(file: str) -> None:
    said = dict(re.findall(r"proxy_set_header (\S+) (\S+);", (DEPLOY / file).read_text()))
    assert said["X-Forwarded-For"] == "$remote_addr"
    assert said["X-Forwarded-Proto"] in ("$scheme", "$was_asked_by")
    assert said["Forwarded"] == '""'


def test_servers_behind_another_machine_believe_what_it_says_of_who_asks() -> None:
    found = services()
    for name in ("server-1", "server-2", "server-3"):
        assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} == _proxies(found[name]["command"])
        assert "ports" not in found[name]
    deployed = next(one for one in yaml.safe_load_all((KUBERNETES / "server.yaml").read_text()) if one["kind"] == "Deployment")
    (server,) = deployed["spec"]["template"]["spec"]["containers"]
    assert "10.0.0.0/8" in _proxies(server["args"])


def _proxies(command: list[str]) -> set[str]:
    return {value for option, value in itertools.pairwise(command) if option == "--trusted-proxy"}


@pytest.mark.parametrize("file", ["nginx.conf", "compose/nginx.conf"])
def test_nginx_takes_its_configuration(file: str, tmp_path: Path) -> None:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "nginx is not installed; `make system` installs it"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    text = (DEPLOY / file).read_text()
    text = re.sub(r"listen (\[::\]:)?\d+", lambda found: f"listen {found[1] or '127.0.0.1:'}{port}", text)
    text = re.sub(r"server server-\d", "server 127.0.0.1", text)
    if "http2 on;" in text and _version(program) < (1, 25):
        text = text.replace("    http2 on;\n", "").replace(" ssl;", " ssl http2;")
    if "ssl_certificate" in text:
        _certificate(tmp_path)
        text = re.sub(r"/etc/ssl/skills\.example\.org", str(tmp_path), text)
    folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    whole = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {folders} {text} }}"
    (tmp_path / "whole.conf").write_text(whole)
    done = subprocess.run(
        [program, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "whole.conf")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def _version(program: str) -> tuple[int, ...]:
    reported = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=60).stderr
    found = re.search(r"nginx/([\d.]+)", reported)
    assert found is not None
    return tuple(map(int, found[1].split(".")))


def _certificate(folder: Path) -> None:
    """One of our own, for a moment."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "skills.example.org")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    (folder / "fullchain.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    how = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(key.private_bytes(*how))


def exported() -> set[str]:
    """The names of all metrics that a server tells, with what a histogram adds."""
    found = set()
    for metric in Metrics().registry.collect():
        found |= {metric.name} if metric.type == "gauge" else {f"{metric.name}_total"}
        found |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")} if metric.type == "histogram" else set()
    return found


def asked_of(expression: str) -> Iterator[str]:
    """The names of the metrics in an expression; what is no PromQL raises."""

    def look(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            names.append(node.name)
        for part in ("expr", "lhs", "rhs", "param", "vector_selector"):
            if (inner := getattr(node, part, None)) is not None:
                look(inner)
        arguments = getattr(node, "args", None) or ()
        for inner in arguments:
            look(inner)

    names: list[str] = []
    look(promql_parser.parse(expression))
    yield from names


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_there_are(rule: dict[str, Any]) -> None:
    names = set(asked_of(rule["expr"]))
    assert names
    assert names <= exported() | {"up"}
    assert {"summary", "description"} <= set(rule["annotations"])
    assert rule["labels"]["severity"] in ("page", "ticket")


def test_the_dashboard_is_the_one_that_is_drawn_and_asks_for_metrics_that_there_are() -> None:
    shape = json.loads((DEPLOY / "grafana/skillyard.json").read_text())
    specification = importlib.util.spec_from_file_location("draw_dashboard", ROOT / "scripts/draw_dashboard.py")
    assert specification is not None
    assert specification.loader is not None
    drawing = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(drawing)
    assert shape == drawing.dashboard(), "run scripts/draw_dashboard.py"
    for panel in shape["panels"]:
        for target in panel["targets"]:
            assert set(asked_of(target["expr"])) <= exported() | {"up"}


def test_every_metric_is_on_the_dashboard() -> None:
    drawn = (DEPLOY / "grafana/skillyard.json").read_text()
    names = [metric.name for metric in Metrics().registry.collect()]
    assert len(names) >= 6
    assert [name for name in names if name not in drawn] == []


def test_prometheus_asks_each_server_and_reads_the_rules() -> None:
    whole = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    (job,) = whole["scrape_configs"]
    asked = [target.partition(":")[0] for target in job["static_configs"][0]["targets"]]
    assert asked == sorted(name for name in services() if name.startswith("server"))
    assert job["job_name"] == "skillyard"  # what the alerts call it
    assert [Path(file).name for file in whole["rule_files"]] == ["alerts.yml"]
