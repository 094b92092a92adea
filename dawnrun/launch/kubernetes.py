"""Runs a job as an indexed Job of Kubernetes: one pod a node, which find each other through a headless Service."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dawnrun.errors import LaunchError
from dawnrun.launch.base import Job, LaunchPlan, devices_of_a_node
from dawnrun.launch.local import GRACE_S
from dawnrun.launch.order import Order
from dawnrun.recipe.launchers import Kubernetes

PORT = 29_400
"""Each job's Service has addresses of its own, so its port need not be."""
ORDER_FOLDER = "/etc/dawnrun"
MARGIN_S = 30
LONGEST_NAME = 50
"""A pod's host name is this with `-` and its index; a label holds 63 characters."""


def object_name(run: str) -> str:
    """A run's name as Kubernetes allows it: small letters, digits and `-`."""
    return re.sub(r"[^a-z0-9-]+", "-", run.lower()).strip("-")[-LONGEST_NAME:].strip("-") or "dawnrun"


def order_of(job: Job, files: Mapping[str, str]) -> Order:
    """Every pod's order. `files`: what pod 0 puts into the run directory, relative to it."""
    name = object_name(job.folder.parent.parent.name)
    rendezvous = f"{name}-{job.folder.name}"
    order = Order.of(job, rendezvous=rendezvous, address=f"{name}-0.{name}", port=PORT, grace_s=GRACE_S)
    return replace(order, files=dict(files))


def objects(job: Job, files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Service, ConfigMap and Job."""
    kubernetes = job.site.launcher.kubernetes
    assert kubernetes is not None
    name = object_name(job.folder.parent.parent.name)
    metadata = {"name": name, "namespace": str(kubernetes.namespace), "labels": {"app.kubernetes.io/name": "dawnrun"}}
    service = {
        "clusterIP": "None",
        # The pods look for each other before they count as ready.
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": name},
    }
    work = {
        "completions": job.site.machines,
        "parallelism": job.site.machines,
        "completionMode": "Indexed",
        # A pod alone cannot go on, so none is started again, evicted ones neither (no podFailurePolicy): all must be.
        "backoffLimit": 0,
        "template": {"spec": _pod(job, kubernetes, name)},
    }
    order = {"order.json": order_of(job, files).text()}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": order},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": work},
    ]


def _pod(job: Job, kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    processes = devices_of_a_node(job.site)
    limits = {"cpu": str(kubernetes.cpus) if kubernetes.cpus else None, "memory": kubernetes.memory}
    if job.site.device != "cpu":
        limits[kubernetes.gpu_resource] = str(processes)
    claims = {f"claim-{number}": item for number, item in enumerate(kubernetes.claims.items())}
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "order", "mountPath": ORDER_FOLDER}]  # noqa: S108
    mounts += [{"name": volume, "mountPath": path} for volume, (path, _) in claims.items()]
    volumes: list[dict[str, Any]] = [
        # Without it /dev/shm has 64 MB, and what needs more dies of a bus error.
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(kubernetes.shared_memory)}},
        {"name": "order", "configMap": {"name": name}},
    ]
    volumes += [
        {"name": volume, "persistentVolumeClaim": {"claimName": str(claim)}} for volume, (_, claim) in claims.items()
    ]
    container = {
        "name": "dawnrun",
        "image": str(kubernetes.image),
        "command": [kubernetes.python, "-u", "-m", "dawnrun.launch.node", "--order", f"{ORDER_FOLDER}/order.json"],
        "resources": {"limits": {key: str(value) for key, value in limits.items() if value}},
        "volumeMounts": mounts,
    }
    return {
        "subdomain": name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(GRACE_S) + MARGIN_S,
        "nodeSelector": dict(kubernetes.node_selector),
        "containers": [container],
        "volumes": volumes,
    }


def manifest(job: Job, files: Mapping[str, str]) -> str:
    """All objects as YAML; `kubectl apply -f` takes it."""
    yaml, text = YAML(), StringIO()
    yaml.default_flow_style = False
    yaml.width = 1_000_000
    yaml.explicit_start = True
    yaml.dump_all(objects(job, files), text)
    return text.getvalue()


def plan_of(job: Job, files: Mapping[str, str], path: str) -> LaunchPlan:
    """The manifest, to be written to `path`, and its application."""
    name = object_name(job.folder.parent.parent.name)
    namespace = str(job.site.launcher.kubernetes.namespace) if job.site.launcher.kubernetes else "default"
    notes = (
        f"follow with: kubectl -n {namespace} logs -f job/{name}",
        f"stop with: kubectl -n {namespace} delete job/{name}",
        "all pods must be scheduled together: without a gang scheduler those that start wait 120 s for the others",
        *(
            ("max_restarts is not used here: a Job starts single pods again, never all of them",)
            if job.site.max_restarts
            else ()
        ),
    )
    return LaunchPlan(commands=(("kubectl", "apply", "-f", path),), files={path: manifest(job, files)}, notes=notes)


def apply(plan: LaunchPlan) -> str:
    """Write the manifest and hand it to kubectl; what kubectl says. LaunchError with its own words if it refuses."""
    for name, text in plan.files.items():
        Path(name).write_text(text, encoding="utf-8")
    (command,) = plan.commands
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LaunchError(
            f"{command[0]}: {(error.strerror or str(error)).lower()}; --dry-run prints the manifest"
        ) from error
    if done.returncode:
        raise LaunchError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()
