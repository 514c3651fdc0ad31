"""The manifests of cluster/kubernetes: valid for the operator, and their commands run for real.

The schemas are those that the operator is installed with: they come with its Python package.
"""

from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml

import sparsegp
from tests.processes import PATIENCE, ROOT, environment, free_port, make_certificate, start_python
from tests.runs import assert_same

jsonschema = pytest.importorskip("jsonschema")
FOLDER = ROOT / "cluster" / "kubernetes"
OPERATOR = find_spec("dask_kubernetes")
NAMES = ["dask-cluster.yaml", "job.yaml"]

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="an installed package has no manifests")


def resources(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def custom(name):
    [found] = [each for each in resources(name) if "dask.org" in each["apiVersion"]]
    return found


def cluster_of(resource):
    spec = resource["spec"]
    return spec["cluster"]["spec"] if "cluster" in spec else spec


def strict(schema):
    """Forbid fields that the schema does not name; Kubernetes would drop them silently."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def published(kind):
    """Return the schema of a kind of resource, as the operator registers it."""
    crds = Path(OPERATOR.origin).parent.glob("operator/deployment/helm/*/crds/*.yaml")
    [path] = [path for path in crds if path.stem == kind.lower()]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # half a million bytes
    found = yaml.load(path.read_text(), loader)
    assert found["spec"]["names"]["kind"] == kind
    [version] = found["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    for field in ("apiVersion", "kind", "metadata"):  # every resource has them
        schema["properties"].setdefault(field, {})
    return {**schema, "required": ["spec"]}


@pytest.mark.skipif(OPERATOR is None, reason="dask-kubernetes is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_manifests_fit_the_schemas_of_the_operator(name):
    resource = custom(name)
    validator = jsonschema.Draft202012Validator(published(resource["kind"]))
    validator.validate(resource)
    for place, wrong in (("replicas", "four"), ("replica", 4)):  # the check can fail
        spoilt = deepcopy(resource)
        cluster_of(spoilt)["worker"][place] = wrong
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(spoilt)


def test_manifests_fit_together():
    alone, job = map(custom, NAMES)
    cluster, name = cluster_of(job), job["metadata"]["name"]
    assert cluster_of(alone) == cluster
    assert alone["metadata"]["name"] == name
    [policy] = resources("network-policy.yaml")
    label = {"dask.org/cluster-name": name}
    assert policy["spec"]["podSelector"]["matchLabels"] == label
    [source] = policy["spec"]["ingress"][0]["from"]
    assert source["podSelector"]["matchLabels"] == label
    assert cluster["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == name
    [config] = [each for each in resources("job.yaml") if each["kind"] == "ConfigMap"]
    said = yaml.safe_load(config["data"]["cluster.yaml"])
    assert said["scheduler"] == f"tls://{name}-scheduler:8786"
    assert said["workers"] == cluster["worker"]["replicas"]
    [claim] = resources("storage.yaml")
    pods = [cluster["worker"]["spec"], job["spec"]["job"]["spec"]]
    for pod in pods:
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
def test_the_commands_of_the_job_train(tmp_path):
    """Scheduler, workers and driver as the pods run them, apart from folders, names and ports."""
    make_certificate(tmp_path / "tls")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=90)
    X = rng.standard_normal((3, 4))[y] * 3.0 + rng.standard_normal((90, 4))
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "mine.npz", X=X, y=y)
    port = str(free_port())

    def here(text):
        for there, local in {
            "/tls": f"{tmp_path}/tls",
            "/data/mine.zarr": f"{tmp_path}/data/mine.npz",
            "/data/run": f"{tmp_path}/data/run",
            "/config/": f"{tmp_path}/",
            "sparsegp-scheduler:8786": f"127.0.0.1:{port}",
            "8786": port,
            ":8787": "127.0.0.1:0",
        }.items():
            text = text.replace(there, local)
        return text

    def start(container, **more):
        names = {pair["name"]: here(pair["value"]) for pair in container.get("env", [])} | more
        words = [here(word) for word in container["args"]]
        words = [names.get(word.strip("$()"), word) for word in words]
        how = {"env": environment() | names, "stdout": log, "stderr": log}
        return start_python("-m", *words, cwd=tmp_path, **how)

    made = custom("job.yaml")
    cluster = cluster_of(made)
    [config] = [each for each in resources("job.yaml") if each["kind"] == "ConfigMap"]
    text = here(config["data"]["cluster.yaml"]).replace("workers: 4", "workers: 2")
    (tmp_path / "cluster.yaml").write_text(text)
    with (tmp_path / "log").open("w") as log:
        others = [start(cluster["scheduler"]["spec"]["containers"][0])]
        worker = cluster["worker"]["spec"]["containers"][0]
        for number in range(2):
            names = {"DASK_WORKER_NAME": f"{number}", "DASK_TEMPORARY_DIRECTORY": str(tmp_path)}
            others.append(start(worker, **names))
        job = start(made["spec"]["job"]["spec"]["containers"][0])
        try:
            assert job.wait(PATIENCE) == 0, (tmp_path / "log").read_text()
        finally:
            for process in (job, *others):
                process.kill()
                process.wait(20)
    expected = sparsegp.train(X, y, runtime="threads=1")
    assert_same(sparsegp.load(tmp_path / "data" / "run"), expected, X)
