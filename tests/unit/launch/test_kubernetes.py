"""The manifest of a run, and that Kubernetes' own schemas take it."""

import json
import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dawnrun.launch.base import Job
from dawnrun.launch.kubernetes import manifest, object_name, plan_of
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Site

GOLDEN = Path(__file__).parents[2] / "golden" / "manifest.yaml"
SITE = """
launcher:
  kubernetes: {image: 'example.org/dawnrun:1', cpus: 90, memory: 800Gi, claims: {/data: imagenet, /runs: "runs"},
    node_selector: {gpu: 'a "b" $c'}}
nodes: 16
processes_per_node: 8
device: cuda
env: {HOSTILE: "a 'b' $HOME \\n#"}
"""


def job(site: str = SITE, name: str = "Fast_ai-20260101-000000-abcd") -> Job:
    run = Path("/runs") / name
    return Job(
        folder=run / "attempts/1",
        logs=run / "logs/1",
        site=read_text(site, Site, source="site.yaml").value,
        command=("-m", "dawnrun.train", str(run), "--attempt", "1"),
    )


def parts(text: str) -> list[dict]:
    return list(YAML(typ="safe").load_all(text))


def test_the_accepted_manifest():
    """`GOLDEN=1` writes it anew."""
    text = manifest(job(), {"resolved.yaml": "name: fast\n"})
    if os.environ.get("GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_shared_memory_and_the_end():
    """C35: memory at /dev/shm, one failed pod fails the job, time for the guard before the kill."""
    service, _, work = parts(manifest(job(), {}))
    pod = work["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in pod["volumes"]
    assert work["spec"]["backoffLimit"] == 0 and pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] > 60
    assert work["spec"]["completions"] == work["spec"]["parallelism"] == 16
    assert container["resources"]["limits"] == {"cpu": "90", "memory": "800Gi", "nvidia.com/gpu": "8"}
    assert service["spec"]["publishNotReadyAddresses"] is True and service["spec"]["clusterIP"] == "None"


def test_hostile_values_come_through():
    _, config, work = parts(manifest(job(), {"recipe.yaml": "name: a\n# 'x' \"y\" $z\n"}))
    order = json.loads(config["data"]["order.json"])
    assert order["env"]["HOSTILE"] == "a 'b' $HOME \n#"
    assert order["files"]["recipe.yaml"] == "name: a\n# 'x' \"y\" $z\n"
    assert work["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": 'a "b" $c'}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Fast_ai.1", "fast-ai-1"),
        ("-a-", "a"),
        ("x" * 80, "x" * 50),
        ("___", "dawnrun"),
        ("demo-20260101-1", "demo-20260101-1"),
    ],
)
def test_names(name, expected):
    assert object_name(name) == expected


def test_pods_meet_at_the_first():
    _, config, work = parts(manifest(job(), {}))
    order = json.loads(config["data"]["order.json"])
    name = work["metadata"]["name"]
    assert order["address"] == f"{name}-0.{work['spec']['template']['spec']['subdomain']}"


def test_what_is_printed():
    text = str(plan_of(job(), {}, "/tmp/run.yaml"))
    assert "# file /tmp/run.yaml:\n---\napiVersion: v1\nkind: Service" in text
    assert text.endswith("kubectl apply -f /tmp/run.yaml\n")


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_schemas_of_kubernetes(version, device):
    """Strict: an unknown field is an error."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for part in parts(manifest(job(SITE.replace("cuda", device)), {"resolved.yaml": "x"})):
        kubernetes_validate.validate(part, version, strict=True)
