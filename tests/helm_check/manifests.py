"""What must be true of every rendering of the chart. Each check yields a sentence per fault."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

Manifest = Mapping[str, Any]

#: A secret by its form: a private key, a URL with a password, a bearer token, a long line of base64.
SECRET_FORM = re.compile(r"PRIVATE KEY|://[^/\s\"]*:[^/\s\"]*@|[Bb]earer [A-Za-z0-9]|sk-[A-Za-z0-9]{16}")
CONTAINER_SECURITY = {
    "runAsNonRoot": True,
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
POD_VOLUMES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}


def faults(manifests: list[Manifest]) -> list[str]:
    """Every promise that the manifests break."""
    return [
        fault
        for check in (pod_faults, probe_faults, secret_faults, audit_faults, network_faults, link_faults)
        for fault in check(manifests)
    ]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """The manifests of one kind."""
    return [each for each in manifests if each["kind"] == kind]


def component(manifests: list[Manifest], kind: str, name: str) -> Manifest | None:
    """The one manifest of a kind that belongs to a component, or None."""
    label = "app.kubernetes.io/component"
    found = [each for each in of_kind(manifests, kind) if each["metadata"]["labels"][label] == name]
    return found[0] if found else None


def pod_faults(manifests: list[Manifest]) -> Iterator[str]:
    """Restricted pod security, no token, nothing of the host."""
    for owner in of_kind(manifests, "StatefulSet"):
        name, pod = owner["metadata"]["name"], owner["spec"]["template"]["spec"]
        security = pod["securityContext"]
        if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
            yield f"{name}: the pod may run as root"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name}: a service account token is mounted"
        for field in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
            if pod.get(field):
                yield f"{name}: {field} is on"
        for volume in pod["volumes"]:
            kinds = set(volume) - {"name"}
            if not kinds <= POD_VOLUMES:
                yield f"{name}: volume {volume['name']} is of kind {sorted(kinds)}"
        for container in [*pod["initContainers"], *pod["containers"]]:
            if container.get("securityContext") != CONTAINER_SECURITY:
                yield f"{name}: container {container['name']} is not restricted"
            if "memory" not in container["resources"]["limits"]:
                yield f"{name}: container {container['name']} has no memory limit"
            for port in container.get("ports", []):
                if port["name"] != "http" or "hostPort" in port:
                    yield f"{name}: port {port} is open"


def probe_faults(manifests: list[Manifest]) -> Iterator[str]:
    """Three probes on each program, and an end that leaves time for the drain."""
    for owner in of_kind(manifests, "StatefulSet"):
        name, pod = owner["metadata"]["name"], owner["spec"]["template"]["spec"]
        for container in pod["containers"]:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe not in container:
                    yield f"{name}: container {container['name']} has no {probe}"
    gateway = component(manifests, "StatefulSet", "gateway")
    if gateway is None:
        yield "no gateway"
        return
    program = gateway["spec"]["template"]["spec"]["containers"][0]
    if program["livenessProbe"]["httpGet"]["path"] != "/live":
        yield "the gateway's liveness is not /live"
    if program["readinessProbe"]["httpGet"]["path"] != "/ready":
        yield "the gateway's readiness is not /ready"
    node = component(manifests, "StatefulSet", "private-node")
    if node is not None:
        probe = node["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
        if probe["periodSeconds"] * probe["failureThreshold"] < 300:
            yield "the private node has less than five minutes to start"


def secret_faults(manifests: list[Manifest]) -> Iterator[str]:
    """No Secret is made, and no ConfigMap, argument or variable holds one."""
    for secret in of_kind(manifests, "Secret"):
        yield f"Secret {secret['metadata']['name']} is made by the chart"
    for manifest in manifests:
        if SECRET_FORM.search(str(manifest)):
            yield f"{manifest['kind']} {manifest['metadata']['name']} holds what looks like a secret"
    for owner in of_kind(manifests, "StatefulSet"):
        pod = owner["spec"]["template"]["spec"]
        for container in [*pod["initContainers"], *pod["containers"]]:
            if "envFrom" in container or "secretKeyRef" in str(container.get("env", "")):
                yield f"{owner['metadata']['name']}: a secret is an environment variable"


def audit_faults(manifests: list[Manifest]) -> Iterator[str]:
    """Two replicas never share an audit volume, and no volume goes with the release."""
    gateway = component(manifests, "StatefulSet", "gateway")
    if gateway is None:
        return
    spec = gateway["spec"]
    templates = {each["metadata"]["name"]: each["spec"] for each in spec["volumeClaimTemplates"]}
    program = spec["template"]["spec"]["containers"][0]
    mounts = {each["mountPath"]: each["name"] for each in program["volumeMounts"]}
    claim = templates.get(mounts.get("/var/lib/tidegate/audit", ""))
    if claim is None:
        yield "the audit folder is not on a volume of the replica's own"
    elif claim["accessModes"] not in (["ReadWriteOncePod"], ["ReadWriteOnce"]):
        yield f"the audit volume may be shared: {claim['accessModes']}"
    if set(spec["persistentVolumeClaimRetentionPolicy"].values()) != {"Retain"}:
        yield "audit volumes may be removed"
    if "@POD_NAME@" not in settings_text(manifests):
        yield "the origin of the audit log does not depend on the pod"


def network_faults(manifests: list[Manifest]) -> Iterator[str]:
    """Closed by default; every opening names its peers and its ports."""
    policies = [each["spec"] for each in of_kind(manifests, "NetworkPolicy")]
    for owner in of_kind(manifests, "StatefulSet"):
        labels = owner["spec"]["template"]["metadata"]["labels"].items()
        chosen = [each for each in policies if each["podSelector"]["matchLabels"].items() <= labels]
        closed = [each for each in chosen if not each.get("ingress") and not each.get("egress")]
        if not any(set(each["policyTypes"]) == {"Ingress", "Egress"} for each in closed):
            yield f"{owner['metadata']['name']}: no policy closes it by default"
        if owner["metadata"]["labels"]["app.kubernetes.io/component"] == "private-node":
            yield from _node_faults(chosen)
    for spec in policies:
        if set(spec["policyTypes"]) != {"Ingress", "Egress"}:
            yield "a policy leaves a direction out"
        for side, field in (("ingress", "from"), ("egress", "to")):
            for rule in spec.get(side) or []:
                yield from _rule_faults(rule, side, field)


def _rule_faults(rule: Mapping[str, Any], side: str, field: str) -> Iterator[str]:
    if not rule.get(field) or not rule.get("ports"):
        yield f"an {side} rule is open: {dict(rule)}"  # an empty list means everyone
    for peer in rule.get(field) or []:
        block = peer.get("ipBlock")
        if block is not None and ipaddress.ip_network(block["cidr"]).prefixlen < 8:
            yield f"an {side} rule opens {block['cidr']}"
        selectors = [peer[name] for name in ("podSelector", "namespaceSelector") if name in peer]
        if block is None and not any(each.get("matchLabels") for each in selectors):
            yield f"an {side} rule selects everything: {peer}"


def _node_faults(chosen: list[Mapping[str, Any]]) -> Iterator[str]:
    for spec in chosen:
        if spec.get("egress"):
            yield "the private node has a way out"
        for rule in spec.get("ingress") or []:
            for peer in rule["from"]:
                labels = peer.get("podSelector", {}).get("matchLabels", {})
                if labels.get("app.kubernetes.io/component") != "gateway" or len(peer) != 1:
                    yield f"the private node takes calls from {peer}"


def link_faults(manifests: list[Manifest]) -> Iterator[str]:
    """Every selector meets the pods that it means, and every mount has its volume."""
    pods = [each["spec"]["template"] for each in of_kind(manifests, "StatefulSet")]
    for service in of_kind(manifests, "Service"):
        wanted = service["spec"]["selector"].items()
        if sum(wanted <= each["metadata"]["labels"].items() for each in pods) != 1:
            yield f"Service {service['metadata']['name']} does not select one kind of pod"
    names = {each["metadata"]["name"] for each in of_kind(manifests, "Service")}
    for owner in of_kind(manifests, "StatefulSet"):
        spec = owner["spec"]
        if spec["serviceName"] not in names:
            yield f"{owner['metadata']['name']}: its Service {spec['serviceName']} is not made"
        pod = spec["template"]["spec"]
        volumes = {each["name"] for each in pod["volumes"]}
        volumes |= {each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", [])}
        for container in [*pod["initContainers"], *pod["containers"]]:
            missing = {each["name"] for each in container["volumeMounts"]} - volumes
            if missing:
                yield f"{owner['metadata']['name']}: volumes {sorted(missing)} are missing"


def settings_text(manifests: list[Manifest]) -> str:
    """The gateway's settings as the ConfigMap holds them."""
    (found,) = [each for each in of_kind(manifests, "ConfigMap") if "settings.toml" in each["data"]]
    text: str = found["data"]["settings.toml"]
    return text
