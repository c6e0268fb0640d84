"""Ways to break the chart's promises, each a change to the manifests. The checks must see every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.helm_check.manifests import Manifest, component, of_kind


def _pod(manifests: list[Manifest], name: str) -> Any:
    owner = component(manifests, "StatefulSet", name)
    return owner["spec"]["template"]["spec"] if owner else {}


def _program(manifests: list[Manifest], name: str) -> Any:
    return _pod(manifests, name)["containers"][0]


def _policy(manifests: list[Manifest], end: str) -> Any:
    (found,) = [
        each for each in of_kind(manifests, "NetworkPolicy") if each["metadata"]["name"].endswith(end)
    ]
    return found["spec"]


def _secret_in_settings(manifests: list[Manifest]) -> None:
    (found,) = [each for each in of_kind(manifests, "ConfigMap") if "settings.toml" in each["data"]]
    found["data"]["settings.toml"] += 'redis_url = "redis://user:word@host:6379"\n'


def _claims(manifests: list[Manifest]) -> Any:
    owner = component(manifests, "StatefulSet", "gateway")
    return owner["spec"] if owner else {}


def _fixed_origin(manifests: list[Manifest]) -> None:
    (found,) = [each for each in of_kind(manifests, "ConfigMap") if "settings.toml" in each["data"]]
    found["data"]["settings.toml"] = found["data"]["settings.toml"].replace("@POD_NAME@", "pod")


BREAKS: dict[str, Callable[[list[Manifest]], object]] = {
    "a container may write its root": lambda all_: _program(all_, "gateway")["securityContext"].update(
        readOnlyRootFilesystem=False
    ),
    "a container keeps a capability": lambda all_: _program(all_, "private-node")["securityContext"].pop(
        "capabilities"
    ),
    "an init container is privileged": lambda all_: _pod(all_, "private-node")["initContainers"][0][
        "securityContext"
    ].update(privileged=True),
    "a pod may be root": lambda all_: _pod(all_, "gateway")["securityContext"].pop("runAsNonRoot"),
    "a token is mounted": lambda all_: _pod(all_, "gateway").pop("automountServiceAccountToken"),
    "the host's network": lambda all_: _pod(all_, "private-node").update(hostNetwork=True),
    "a folder of the host": lambda all_: _pod(all_, "gateway")["volumes"].append(
        {"name": "host", "hostPath": {"path": "/"}}
    ),
    "a metrics port of the node": lambda all_: _program(all_, "private-node")["ports"].append(
        {"name": "metrics", "containerPort": 9090}
    ),
    "no liveness": lambda all_: _program(all_, "private-node").pop("livenessProbe"),
    "readiness of another path": lambda all_: _program(all_, "gateway")["readinessProbe"]["httpGet"].update(
        path="/live"
    ),
    "a short start of the node": lambda all_: _program(all_, "private-node")["startupProbe"].update(
        failureThreshold=2
    ),
    "a Secret is made": lambda all_: all_.append(
        {"kind": "Secret", "metadata": {"name": "made", "labels": {}}, "data": {"a": "YQ=="}}
    ),
    "a secret in the settings": _secret_in_settings,
    "a secret in a variable": lambda all_: _program(all_, "gateway").update(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    ),
    "a shared audit volume": lambda all_: _claims(all_)["volumeClaimTemplates"][0]["spec"].update(
        accessModes=["ReadWriteMany"]
    ),
    "an audit folder without a claim": lambda all_: _claims(all_).update(volumeClaimTemplates=[]),
    "audit volumes go with the release": lambda all_: _claims(all_)[
        "persistentVolumeClaimRetentionPolicy"
    ].update(whenDeleted="Delete"),
    "one origin for all": _fixed_origin,
    "no default deny": lambda all_: _policy(all_, "-default-deny").update(
        podSelector={"matchLabels": {"app.kubernetes.io/name": "another"}}
    ),
    "a way out of the node": lambda all_: _policy(all_, "-node").update(
        egress=[{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 443}]}]
    ),
    "another caller of the node": lambda all_: _policy(all_, "-node")["ingress"][0]["from"].append(
        {"podSelector": {"matchLabels": {"app": "another"}}}
    ),
    "egress to everywhere": lambda all_: _policy(all_, "tg-tidegate")["egress"].append(
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 443}]}
    ),
    "egress without a peer": lambda all_: _policy(all_, "tg-tidegate")["egress"].append(
        {"ports": [{"port": 443}]}
    ),
    "egress to every namespace": lambda all_: _policy(all_, "tg-tidegate")["egress"].append(
        {"to": [{"namespaceSelector": {}}], "ports": [{"port": 443}]}
    ),
    "a direction left out": lambda all_: _policy(all_, "-node").update(policyTypes=["Ingress"]),
    "a Service without pods": lambda all_: of_kind(all_, "Service")[0]["spec"].update(selector={"app": "x"}),
    "a mount without a volume": lambda all_: _program(all_, "gateway")["volumeMounts"].append(
        {"name": "missing", "mountPath": "/missing"}
    ),
}
