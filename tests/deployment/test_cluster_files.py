"""The files that start clusters, against the rules of those who read them; and copies that break the rules.

What `ray up` reads is checked by Ray itself. Neither Kubernetes nor Docker is needed: the fields of their
files that matter are written down here, and others are refused.
"""

import json
import re
import shutil
import subprocess
import tomllib
from functools import cache, reduce
from operator import getitem
from pathlib import Path

import jsonschema
import pytest
import yaml
from click import ClickException
from ray.autoscaler._private.util import prepare_config, validate_config
from yamllint import linter
from yamllint.config import YamlLintConfig

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RAY_VERSION = re.search(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
ABSENT = object()


def changed(document, path, value):
    """A copy in which the value at the path is another one, or absent."""
    # Not deepcopy: it keeps what YAML aliases share, and the change would be in all places at once.
    document = json.loads(json.dumps(document))
    *parents, last = path
    place = reduce(getitem, parents, document)
    if value is ABSENT:
        del place[last]
    else:
        place[last] = value
    return document


# --- ray up ---


@cache
def ray_up():
    return yaml.safe_load((ROOT / "cluster/ray-up.yaml").read_text())


def problems_of_ray_up(config):
    found = []
    try:
        validate_config(prepare_config(json.loads(json.dumps(config))))
    except (jsonschema.ValidationError, ValueError, AssertionError) as error:
        return [f"Ray refuses it: {error}"]
    starts = {
        role: " ".join(each for each in config[f"{role}_start_ray_commands"] if "ray start" in each)
        for role in ("head", "worker")
    }
    for role, command in starts.items():
        if "RAY_AUTH_MODE=token" not in command:
            found.append(f"{role}: no token authentication")
    if "~/.ray/auth_token" not in config.get("file_mounts", {}):
        found.append("no token is handed over")
    if "--dashboard-host=127.0.0.1" not in starts["head"]:
        found.append("the dashboard is not on the loopback")
    if "TTRAY_RUNS=/checkpoints" not in starts["head"]:
        found.append("checkpoints are not on the shared mount")
    types = config["available_node_types"]
    if types[config["head_node_type"]]["resources"].get("CPU") != 0:
        found.append("rollouts on the head")
    if len({each["node_config"]["InstanceType"] for each in types.values()}) != 1:
        found.append("more than one type of machine: the bits may differ")
    if not types["worker"].get("labels"):
        found.append("no label to choose a type of CPU by")
    return found


def test_ray_accepts_the_file_of_ray_up():
    assert problems_of_ray_up(ray_up()) == []


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("max_worker",), 8, "Ray refuses it"),
        (("max_workers",), "8", "Ray refuses it"),
        (("head_node_type",), "haed", "Ray refuses it"),
        (("available_node_types", "worker", "min_workers"), 9, "Ray refuses it"),
        (("available_node_types", "worker", "resources"), ABSENT, "Ray refuses it"),
        (("available_node_types", "head", "resources", "CPU"), 4, "rollouts on the head"),
        (("available_node_types", "worker", "node_config", "InstanceType"), "m5.large", "more than one type"),
        (("available_node_types", "worker", "labels"), ABSENT, "no label to choose"),
        (("available_node_types", "worker", "labels", "cpu"), 6, "Ray refuses it"),
        (("file_mounts",), {}, "no token is handed over"),
        (("head_start_ray_commands",), ["ray start --head"], "head: no token"),
        (("head_start_ray_commands",), ["ray start --head --dashboard-host=0.0.0.0"], "not on the loopback"),
        (("worker_start_ray_commands",), ["ray start --address=$RAY_HEAD_IP:6379"], "worker: no token"),
    ],
)
def test_a_wrong_file_of_ray_up_is_refused(path, value, complaint):
    assert any(complaint in each for each in problems_of_ray_up(changed(ray_up(), path, value)))


# --- ray up, on machines of a lab ---


@cache
def ray_up_ssh():
    return yaml.safe_load((ROOT / "cluster/ray-up-ssh.yaml").read_text())


def problems_of_ray_up_ssh(config):
    found = []
    try:
        validate_config(prepare_config(json.loads(json.dumps(config))))
    except (jsonschema.ValidationError, ValueError, AssertionError, ClickException) as error:
        return [f"Ray refuses it: {error}"]
    starts = {
        role: " ".join(each for each in config[f"{role}_start_ray_commands"] if "ray start" in each)
        for role in ("head", "worker")
    }
    for role, command in starts.items():
        if "RAY_AUTH_MODE=token" not in command:
            found.append(f"{role}: no token authentication")
        if "--node-ip-address=$(echo $SSH_CONNECTION" not in command:
            found.append(f"{role}: may be known by another address than Ray looks for")
    if "~/.ray/auth_token" not in config.get("file_mounts", {}):
        found.append("no token is handed over")
    if "chmod 600 ~/.ray/auth_token" not in config["setup_commands"]:
        found.append("others can read the token")
    if "RAY_enable_autoscaler_v2=0" not in starts["head"]:
        found.append("only one worker is started")
    if "--dashboard-host=127.0.0.1" not in starts["head"]:
        found.append("the dashboard is not on the loopback")
    if "--num-cpus=0" not in starts["head"]:
        found.append("rollouts on the head")
    if config.get("min_workers", len(config["provider"]["worker_ips"])) == 0:
        found.append("no worker is ever started")
    return found


def test_ray_accepts_the_file_for_a_lab():
    assert problems_of_ray_up_ssh(ray_up_ssh()) == []


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("provider", "head_ip"), ABSENT, "Ray refuses it"),
        (("available_node_types",), {"head": {"node_config": {}}}, "Ray refuses it"),
        (("max_worker",), 2, "Ray refuses it"),
        (("file_mounts",), {}, "no token is handed over"),
        (("setup_commands",), [], "others can read"),
        (("min_workers",), 0, "no worker is ever started"),
        (("head_start_ray_commands",), ["ray start --head"], "only one worker"),
        (("head_start_ray_commands",), ["ray start --head --num-cpus=0"], "head: no token"),
        (("head_start_ray_commands",), ["RAY_AUTH_MODE=token ray start --head"], "rollouts on the head"),
        (("worker_start_ray_commands",), ["ray start --address=$RAY_HEAD_IP:6379"], "another address"),
    ],
)
def test_a_wrong_file_for_a_lab_is_refused(path, value, complaint):
    assert any(complaint in each for each in problems_of_ray_up_ssh(changed(ray_up_ssh(), path, value)))


# --- SLURM ---

SBATCH = (ROOT / "cluster/slurm.sbatch").read_text()


def problems_of_sbatch(text):
    found = []
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", text, re.MULTILINE))
    if "requeue" not in options or "scontrol requeue" not in text:
        found.append("ends at the time limit")
    if options.get("open-mode") != "append":
        found.append("the log of the first start is lost")
    if not re.fullmatch(r"B:TERM@\d+", options.get("signal", "")):
        found.append("is killed without a checkpoint")
    if "no-kill" not in options:
        found.append("ends when a worker's node is lost")
    if options.get("ntasks-per-node") != "1":
        found.append("more than one Ray on a node")
    if "RAY_AUTH_MODE=token" not in text or "openssl rand" not in text:
        found.append("no token")
    if re.search(r"^[^#]*\bray stop", text, re.MULTILINE):
        found.append("ends the Rays of other jobs")
    if "$SLURM_JOB_ID" not in re.search(r"--directory (\S+)", text)[1]:
        found.append("starts anew after a requeue")
    return found


def test_the_job_for_slurm_keeps_the_rules():
    assert problems_of_sbatch(SBATCH) == []


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        ("#SBATCH --requeue\n", "", "ends at the time limit"),
        ("#SBATCH --open-mode=append\n", "", "is lost"),
        ("B:TERM@180", "TERM@180", "without a checkpoint"),
        ("#SBATCH --no-kill\n", "", "a worker's node"),
        ("ntasks-per-node=1", "ntasks-per-node=2", "more than one Ray"),
        ("RAY_AUTH_MODE=token ", "", "no token"),
        ("    scancel .*\n", "    ray stop\n", "other jobs"),
        (r"runs/slurm-\$SLURM_JOB_ID|RUNS/slurm-\$SLURM_JOB_ID", "RUNS/slurm-$RANDOM", "starts anew"),
    ],
)
def test_a_wrong_job_for_slurm_is_refused(pattern, replacement, complaint):
    text, count = re.subn(pattern, replacement.replace("\\", ""), SBATCH)
    assert count == 1
    assert any(complaint in each for each in problems_of_sbatch(text))


# --- Kubernetes ---

TEXT, BOOLEAN = {"type": "string", "minLength": 1}, {"type": "boolean"}
COUNT, PORT = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1, "maximum": 65535}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 47}
QUANTITY = {"type": "string", "pattern": "^[0-9]+(m|Ki|Mi|Gi|Ti)?$"}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def one_of(*values):
    return {"enum": list(values)}


def many(items):
    return {"type": "array", "items": items, "minItems": 1}


def fields(required="", **properties):
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


AMOUNTS = fields("cpu memory", cpu=QUANTITY, memory=QUANTITY)
RESOURCES = fields("requests limits", requests=AMOUNTS, limits=AMOUNTS)
CONTAINER_SECURITY = fields(
    "allowPrivilegeEscalation capabilities",
    allowPrivilegeEscalation=BOOLEAN,
    capabilities=fields("drop", drop=many(TEXT), add=many(TEXT)),
    readOnlyRootFilesystem=BOOLEAN,
)
CONTAINER = fields(
    "name image resources securityContext",
    name=NAME,
    image=TEXT,
    imagePullPolicy=one_of("Always", "IfNotPresent", "Never"),
    command=many(TEXT),
    args=many(TEXT),
    ports=many(fields("containerPort", name=NAME, containerPort=PORT, protocol=one_of("TCP", "UDP"))),
    env=many(
        fields(
            "name",
            name=TEXT,
            value={"type": "string"},
            valueFrom=fields("secretKeyRef", secretKeyRef=fields("name key", name=NAME, key=TEXT)),
        )
    ),
    resources=RESOURCES,
    securityContext=CONTAINER_SECURITY,
    volumeMounts=many(fields("name mountPath", name=NAME, mountPath=TEXT, readOnly=BOOLEAN)),
)
POD_TEMPLATE = fields(
    "metadata spec",
    metadata=fields("labels", labels=TEXTS, annotations=TEXTS),
    spec=fields(
        "containers securityContext",
        automountServiceAccountToken=BOOLEAN,
        containers=many(CONTAINER),
        imagePullSecrets=many(fields("name", name=NAME)),
        nodeSelector=TEXTS,
        securityContext=fields(
            "runAsNonRoot",
            runAsNonRoot=BOOLEAN,
            runAsUser=COUNT,
            runAsGroup=COUNT,
            fsGroup=COUNT,
            fsGroupChangePolicy=one_of("OnRootMismatch", "Always"),
            seccompProfile=fields("type", type=one_of("RuntimeDefault", "Unconfined", "Localhost")),
        ),
        serviceAccountName=NAME,
        terminationGracePeriodSeconds=COUNT,
        volumes=many(
            fields(
                "name",
                name=NAME,
                persistentVolumeClaim=fields("claimName", claimName=NAME, readOnly=BOOLEAN),
                emptyDir={"type": "object"},
            )
        ),
    ),
)
RAY_CLUSTER_SPEC = fields(
    "rayVersion headGroupSpec workerGroupSpecs authOptions",
    rayVersion=TEXT,
    authOptions=fields("mode", mode=one_of("token", "disabled"), secretName=NAME, enableK8sTokenAuth=BOOLEAN),
    enableInTreeAutoscaling=BOOLEAN,
    autoscalerOptions=fields(
        version=one_of("v1", "v2"),
        idleTimeoutSeconds=COUNT,
        upscalingMode=one_of("Default", "Aggressive", "Conservative"),
        resources=RESOURCES,
        securityContext=CONTAINER_SECURITY,
    ),
    headGroupSpec=fields(
        "rayStartParams template",
        serviceType=one_of("ClusterIP", "NodePort", "LoadBalancer"),
        enableIngress=BOOLEAN,
        rayStartParams=TEXTS,
        labels=TEXTS,
        resources=TEXTS,
        template=POD_TEMPLATE,
    ),
    workerGroupSpecs=many(
        fields(
            "groupName minReplicas maxReplicas rayStartParams template",
            groupName=NAME,
            replicas=COUNT,
            minReplicas=COUNT,
            maxReplicas=COUNT,
            idleTimeoutSeconds=COUNT,
            labels=TEXTS,
            rayStartParams=TEXTS,
            resources=TEXTS,
            template=POD_TEMPLATE,
        )
    ),
)
SELECTOR = fields("matchLabels", matchLabels=TEXTS)
PEER = fields(
    podSelector=SELECTOR,
    namespaceSelector=SELECTOR,
    ipBlock=fields("cidr", cidr=TEXT, **{"except": many(TEXT)}),
)
POLICY_PORTS = many(fields("protocol port", protocol=one_of("TCP", "UDP"), port=PORT, endPort=PORT))


def kind(version, name, spec):
    metadata = fields("name", name=NAME, namespace=NAME, labels=TEXTS, annotations=TEXTS)
    return fields(
        "apiVersion kind metadata spec",
        apiVersion={"const": version},
        kind={"const": name},
        metadata=metadata,
        spec=spec,
    )


KINDS = {  # ray.io/v1 as of KubeRay 1.6
    "RayCluster": kind("ray.io/v1", "RayCluster", RAY_CLUSTER_SPEC),
    "RayJob": kind(
        "ray.io/v1",
        "RayJob",
        fields(
            "entrypoint rayClusterSpec",  # an own cluster: `clusterSelector` allows no retries
            entrypoint=TEXT,
            submissionMode=one_of("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"),
            backoffLimit=COUNT,
            activeDeadlineSeconds=COUNT,
            shutdownAfterJobFinishes=BOOLEAN,
            ttlSecondsAfterFinished=COUNT,
            rayClusterSpec=RAY_CLUSTER_SPEC,
        ),
    ),
    "PersistentVolumeClaim": kind(
        "v1",
        "PersistentVolumeClaim",
        fields(
            "accessModes resources",
            accessModes=many(one_of("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")),
            storageClassName=NAME,
            resources=fields("requests", requests=fields("storage", storage=QUANTITY)),
        ),
    ),
    "NetworkPolicy": kind(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        fields(
            "podSelector policyTypes ingress egress",
            podSelector=SELECTOR,
            policyTypes=many(one_of("Ingress", "Egress")),
            ingress=many(fields("from", **{"from": many(PEER), "ports": POLICY_PORTS})),
            egress=many(fields(to=many(PEER), ports=POLICY_PORTS)),
        ),
    ),
}


@cache
def manifests():
    """All objects of the manifests, by kind and name."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": each
        for path in sorted((ROOT / "cluster").glob("kuberay-*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
    }


def amount(quantity):
    number, unit = re.fullmatch("([0-9]+)(.*)", quantity).groups()
    return int(number) * {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}[unit]


def problems_of_resources(resources):
    return [
        f"requests more {each} than its limit"
        for each in ("cpu", "memory")
        if amount(resources["requests"][each]) > amount(resources["limits"][each])
    ]


def problems_of_pod(pod, claims):
    found = []
    if not pod["securityContext"]["runAsNonRoot"] or pod["securityContext"].get("runAsUser") == 0:
        found.append("may run as root")
    volumes = {each["name"]: each for each in pod.get("volumes", [])}
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume and volume["persistentVolumeClaim"]["claimName"] not in claims:
            found.append(f"volume {volume['name']}: no such claim")
    for container in pod["containers"]:
        found += problems_of_resources(container["resources"])
        if container["securityContext"]["allowPrivilegeEscalation"]:
            found.append("may gain privileges")
        if not container["image"].endswith(f"/ttray:{PROJECT['version']}"):
            found.append(f"image {container['image']} is not of this version")
        environment = {each["name"]: each.get("value") for each in container.get("env", [])}
        mounts = {each["mountPath"]: each["name"] for each in container.get("volumeMounts", [])}
        if "RAY_AUTH_TOKEN" in environment:
            found.append("the token is KubeRay's to hand over")
        if environment.get("TTRAY_RUNS") not in mounts:
            found.append("TTRAY_RUNS is on no volume")
        found += [f"mounts {name}, which is no volume" for name in mounts.values() if name not in volumes]
    return found


def problems_of_cluster(spec, claims):
    found = []
    if spec["rayVersion"] != RAY_VERSION:
        found.append(f"Ray {spec['rayVersion']}, but constraints.txt has {RAY_VERSION}")
    if spec["authOptions"]["mode"] != "token" or "secretName" not in spec["authOptions"]:
        found.append("no token from a Secret")
    head = spec["headGroupSpec"]
    if head.get("serviceType") != "ClusterIP" or head.get("enableIngress"):
        found.append("the dashboard is reachable from outside")
    if head["rayStartParams"].get("num-cpus") != "0":
        found.append("rollouts on the head")
    if not spec.get("enableInTreeAutoscaling"):
        found.append("does not grow")
    found += problems_of_resources(spec["autoscalerOptions"]["resources"])
    for group in (head, *spec["workerGroupSpecs"]):
        found += problems_of_pod(group["template"]["spec"], claims)
    for group in spec["workerGroupSpecs"]:
        if not group["minReplicas"] <= group.get("replicas", 0) <= group["maxReplicas"]:
            found.append("replicas are not between their bounds")
    return found


def matches(selector, labels):
    return selector["matchLabels"].items() <= labels.items()


def problems_of_policies(policies, spec):
    found = []
    head, workers = spec["headGroupSpec"], spec["workerGroupSpecs"]
    ports = {
        each["name"]: each["containerPort"] for each in head["template"]["spec"]["containers"][0]["ports"]
    }
    # KubeRay adds the type of the node to the labels of a template.
    pods = [{**head["template"]["metadata"]["labels"], "ray.io/node-type": "head"}] + [
        {**each["template"]["metadata"]["labels"], "ray.io/node-type": "worker"} for each in workers
    ]
    for labels in pods:
        here = [each["spec"] for each in policies if matches(each["spec"]["podSelector"], labels)]
        kinds = {each for policy in here for each in policy["policyTypes"]}
        if kinds != {"Ingress", "Egress"}:
            found.append(f"{labels}: not isolated")
        peers = [peer for policy in here for rule in policy["egress"] for peer in rule.get("to", [])]
        if {"matchLabels": {"k8s-app": "kube-dns"}} not in [peer.get("podSelector") for peer in peers]:
            found.append(f"{labels}: cannot find the head by its name")
        for each in pods:
            if not any(
                set(peer) == {"podSelector"} and matches(peer["podSelector"], each) and "ports" not in rule
                for policy in here
                for rule in policy["ingress"]
                for peer in rule["from"]
            ):
                found.append(f"{labels}: not reached by {each}")
    for rule in (rule for policy in policies for rule in policy["spec"]["ingress"]):
        for peer in rule["from"]:
            if "ipBlock" in peer or "podSelector" not in peer:
                found.append(f"lets in {peer}, which may be anybody")
            elif not any(matches(peer["podSelector"], each) for each in pods) and [
                each["port"] for each in rule.get("ports", [])
            ] != [ports["dashboard"]]:
                found.append(f"lets {peer} reach more than the dashboard")
    return found


def problems_of_manifests(objects):
    found = [
        f"{name}: {error.json_path}: {error.message}"
        for name, each in objects.items()
        for error in jsonschema.Draft202012Validator(KINDS[each["kind"]]).iter_errors(each)
    ]
    if found:
        return found
    claims = {name.partition("/")[2] for name in objects if name.startswith("PersistentVolumeClaim/")}
    policies = [each for each in objects.values() if each["kind"] == "NetworkPolicy"]
    cluster, job = objects["RayCluster/ttray"]["spec"], objects["RayJob/ttray-dam"]["spec"]
    for spec in (cluster, job["rayClusterSpec"]):
        found += problems_of_cluster(spec, claims)
        found += problems_of_policies(policies, spec)
    if job["rayClusterSpec"] != cluster:
        found.append("the clusters of RayCluster and RayJob differ")
    if "ReadWriteMany" not in objects["PersistentVolumeClaim/ttray-checkpoints"]["spec"]["accessModes"]:
        found.append("one node keeps the volume to itself")
    if " --directory /checkpoints/" not in job["entrypoint"] or job.get("backoffLimit", 0) < 1:
        found.append("the job does not go on where it stopped")
    return found


def test_the_manifests_keep_the_rules():
    assert problems_of_manifests(manifests()) == []


CLUSTER = ("RayCluster/ttray", "spec")
HEAD = (*CLUSTER, "headGroupSpec")
HEAD_POD = (*HEAD, "template", "spec")
WORKERS = ("RayJob/ttray-dam", "spec", "rayClusterSpec", "workerGroupSpecs", 0)
WORKER = (*WORKERS, "template", "spec", "containers", 0)
POLICY, HEAD_POLICY = ("NetworkPolicy/ttray", "spec"), ("NetworkPolicy/ttray-head", "spec")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ((*CLUSTER, "enableAutoscaling"), True, "'enableAutoscaling' was unexpected"),
        (("RayCluster/ttray", "apiVersion"), "ray.io/v1alpha1", "'ray.io/v1' was expected"),
        ((*CLUSTER, "rayVersion"), "2.59.0", "constraints.txt has"),
        ((*CLUSTER, "authOptions"), ABSENT, "'authOptions' is a required property"),
        ((*CLUSTER, "authOptions", "mode"), "disabled", "no token from a Secret"),
        ((*CLUSTER, "authOptions", "secretName"), ABSENT, "no token from a Secret"),
        ((*CLUSTER, "enableInTreeAutoscaling"), False, "does not grow"),
        ((*HEAD, "serviceType"), "LoadBalancer", "reachable from outside"),
        ((*HEAD, "serviceType"), "NodePort", "reachable from outside"),
        ((*HEAD, "rayStartParams"), {}, "rollouts on the head"),
        ((*HEAD, "rayStartParams", "num-cpus"), 0, "is not of type 'string'"),
        ((*HEAD_POD, "securityContext", "runAsNonRoot"), False, "may run as root"),
        ((*HEAD_POD, "securityContext", "runAsUser"), 0, "may run as root"),
        ((*HEAD_POD, "volumes", 0, "persistentVolumeClaim", "claimName"), "other", "no such claim"),
        ((*WORKERS, "maxReplica"), 8, "'maxReplica' was unexpected"),
        ((*WORKERS, "minReplicas"), "0", "is not of type 'integer'"),
        ((*WORKERS, "replicas"), 9, "not between their bounds"),
        ((*WORKERS, "maxReplicas"), 4, "differ"),
        ((*WORKER, "resource"), {}, "'resource' was unexpected"),
        ((*WORKER, "resources", "limits"), ABSENT, "'limits' is a required property"),
        ((*WORKER, "resources", "limits", "memory"), ABSENT, "'memory' is a required property"),
        ((*WORKER, "resources", "requests", "cpu"), "4100m", "requests more cpu"),
        ((*WORKER, "resources", "limits", "cpu"), 4, "is not of type 'string'"),
        ((*WORKER, "securityContext", "allowPrivilegeEscalation"), True, "may gain privileges"),
        ((*WORKER, "volumeMounts", 0, "name"), "checkpoint", "which is no volume"),
        ((*WORKER, "volumeMounts", 0, "mountPath"), "/elsewhere", "TTRAY_RUNS is on no volume"),
        ((*WORKER, "env", 0), {"name": "RAY_AUTH_TOKEN", "value": "secret"}, "KubeRay's to hand over"),
        ((*WORKER, "image"), "registry.example/ttray:latest", "not of this version"),
        (("RayJob/ttray-dam", "spec", "backoffLimit"), ABSENT, "does not go on"),
        (("RayJob/ttray-dam", "spec", "clusterSelector"), {}, "'clusterSelector' was unexpected"),
        (("PersistentVolumeClaim/ttray-checkpoints", "spec", "accessModes"), ["ReadWriteOnce"], "to itself"),
        ((*POLICY, "podSelector", "matchLabels"), {"app": "other"}, "not isolated"),
        ((*POLICY, "policyTypes"), ["Ingres"], "'Ingres' is not one of"),
        ((*POLICY, "ingress", 0, "from"), ABSENT, "'from' is a required property"),
        ((*POLICY, "ingress", 0, "from"), [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "may be anybody"),
        ((*POLICY, "egress", 1), ABSENT, "cannot find the head"),
        ((*HEAD_POLICY, "ingress", 0, "ports"), ABSENT, "more than the dashboard"),
        ((*HEAD_POLICY, "ingress", 0, "ports", 0, "port"), 6379, "more than the dashboard"),
        ((*HEAD, "template", "metadata", "labels"), {"app": "other"}, "not isolated"),
    ],
)
def test_a_wrong_manifest_is_refused(path, value, complaint):
    assert any(complaint in each for each in problems_of_manifests(changed(manifests(), path, value)))


# --- Docker ---


@cache
def compose():
    return yaml.safe_load((ROOT / "docker/compose.yaml").read_text())


def problems_of_compose(document):
    found = []
    services = document["services"]
    if set(services) != {"head", "worker"} or services["worker"].get("deploy") != {"replicas": 2}:
        found.append("not a head and two workers")
    for name, service in services.items():
        environment = service.get("environment", {})
        if environment.get("RAY_AUTH_MODE") != "token":
            found.append(f"{name}: no token authentication")
        if not environment.get("RAY_AUTH_TOKEN", "").startswith("${RAY_AUTH_TOKEN:?"):
            found.append(f"{name}: starts without a token from outside")
        if service["image"] != f"ttray:{PROJECT['version']}":
            found.append(f"{name}: image {service['image']} is not of this version")
        if service.get("healthcheck", {}).get("test", ["NONE"])[0] != "CMD":
            found.append(f"{name}: no health check")
        if service.get("restart") not in ("always", "unless-stopped", "on-failure"):
            found.append(f"{name}: stays down")
        if "checkpoints:/checkpoints" not in service.get("volumes", []):
            found.append(f"{name}: no checkpoints")
        if service.get("privileged") or service.get("network_mode") == "host":
            found.append(f"{name}: not confined")
        store = int(re.search("--object-store-memory=([0-9]+)", " ".join(service["command"]))[1])
        if int(service.get("shm_size", "0gb").removesuffix("gb")) * 2**30 < store:
            found.append(f"{name}: the object store does not fit into /dev/shm")
        found += [
            f"{name}: publishes {port} beyond the loopback"
            for port in service.get("ports", [])
            if not str(port).startswith("127.0.0.1:")
        ]
        waits = service.get("depends_on", {}).get("head", {}).get("condition")
        if name != "head" and waits != "service_healthy":
            found.append(f"{name}: does not wait for the head")
    if "checkpoints" not in (document.get("volumes") or {}):
        found.append("checkpoints are on no named volume")
    return found


def test_compose_keeps_the_rules():
    assert problems_of_compose(compose()) == []


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("services", "worker"), ABSENT, "not a head and two workers"),
        (("services", "worker", "deploy", "replicas"), 1, "not a head and two workers"),
        (("services", "head", "ports"), ["8265:8265"], "beyond the loopback"),
        (("services", "head", "ports"), ["0.0.0.0:8265:8265"], "beyond the loopback"),
        (("services", "worker", "ports"), [6379], "beyond the loopback"),
        (("services", "head", "environment", "RAY_AUTH_TOKEN"), "${RAY_AUTH_TOKEN:-abc}", "without a token"),
        (("services", "head", "environment", "RAY_AUTH_MODE"), ABSENT, "no token authentication"),
        (("services", "worker", "healthcheck"), ABSENT, "no health check"),
        (("services", "worker", "depends_on"), {"head": {"condition": "service_started"}}, "does not wait"),
        (("services", "worker", "restart"), "no", "stays down"),
        (("services", "worker", "shm_size"), ABSENT, "does not fit"),
        (("services", "worker", "privileged"), True, "not confined"),
        (("services", "head", "volumes"), ABSENT, "no checkpoints"),
        (("volumes",), ABSENT, "no named volume"),
    ],
)
def test_a_wrong_compose_file_is_refused(path, value, complaint):
    assert any(complaint in each for each in problems_of_compose(changed(compose(), path, value)))


def dockerfile():
    return (ROOT / "docker/Dockerfile").read_text()


def stages_of(text):
    """The instructions of each stage, as pairs of a keyword and the rest, with the default base."""
    base = re.search(r"^ARG BASE=(.*)$", text, re.MULTILINE)
    if base:
        text = text.replace(base[0], "").replace("${BASE}", base[1])
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    stages = []
    for line in re.sub(r"\\\n", " ", lines).splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "FROM":
            stages.append([])
        if keyword:
            stages[-1].append((keyword, re.sub(" +", " ", rest).strip()))
    return stages


def install_command(text):
    """What puts the wheel into the image: the one command of the last stage that names it."""
    (command,) = [rest for keyword, rest in stages_of(text)[-1] if keyword == "RUN" and ".whl" in rest]
    return command


def problems_of_dockerfile(text):
    found = []
    stages = stages_of(text)
    final = stages[-1]
    if len(stages) < 2:
        found.append("the tools of the build stay in the image")
    for stage in stages:
        if not re.fullmatch(r"python:3\.11\.[0-9]+-slim-[a-z]+( AS [a-z]+)?", stage[0][1]):
            found.append(f"base {stage[0][1]} is not pinned")
    users = [rest for keyword, rest in final if keyword == "USER"]
    if not users or users[-1] in ("root", "0"):
        found.append("runs as root")
    if [rest for keyword, rest in final if keyword == "HEALTHCHECK"] in ([], ["NONE"]):
        found.append("no health check")
    if any(keyword == "ENTRYPOINT" for keyword, _ in final):
        found.append("the entrypoint is in the way of `ray start`")
    for keyword, rest in (each for stage in stages for each in stage):
        if keyword in ("ARG", "ENV") and re.search("(TOKEN|SECRET|PASSWORD)[A-Z_]*=[^ ]", rest):
            found.append("a secret in the image")
        if keyword == "COPY" and not rest.startswith("--from="):
            context = (ROOT / ".dockerignore").read_text().splitlines()
            found += [f"{each} is not sent" for each in rest.split()[:-1] if f"!{each}" not in context]
    return found


def test_the_dockerfile_keeps_the_rules():
    assert problems_of_dockerfile(dockerfile()) == []


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        ("USER ttray", "USER root", "runs as root"),
        ("USER ttray\n", "", "runs as root"),
        (r"BASE=python:3\.11\.\d+-slim-bookworm\n", "BASE=python:3.11-slim\n", "not pinned"),
        (r"HEALTHCHECK(.|\n)*?CMD.*\n", "", "no health check"),
        (r"CMD \[\"ttray.*", 'ENTRYPOINT ["ttray"]', "in the way"),
        ("RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN=abc", "a secret"),
        ("COPY ttray ttray", "COPY tests tests", "tests is not sent"),
    ],
)
def test_a_wrong_dockerfile_is_refused(pattern, replacement, complaint):
    text, count = re.subn(pattern, replacement, dockerfile())
    assert count == 1
    assert any(complaint in each for each in problems_of_dockerfile(text))


def test_the_image_is_installed_by_the_command_of_the_page():
    page = (ROOT / "docs/get-started.md").read_text()
    # There the exact versions are a choice; here they are not.
    option = "--constraint constraints.txt "
    assert option in install_command(dockerfile())
    assert f"`{install_command(dockerfile()).replace(option, '')}`" in page


# --- YAML ---

LINT = YamlLintConfig("{extends: default, rules: {line-length: {max: 110}, document-start: disable}}")
FILES = sorted([*ROOT.glob("cluster/*.y*ml"), *ROOT.glob("docker/*.y*ml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_yaml_is_well_written(path):
    assert [str(each) for each in linter.run(path.read_text(), LINT, str(path))] == []


SCRIPTS = sorted([*ROOT.glob("cluster/*.s*"), *ROOT.glob("docker/*.sh")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_well_written(path):
    subprocess.run(["bash", "-n", path], check=True, timeout=20)
    if shutil.which("shellcheck") is None:
        pytest.skip("the command `shellcheck` is not installed")
    found = subprocess.run(
        ["shellcheck", "--severity=warning", path], capture_output=True, text=True, timeout=60
    )
    assert found.stdout == ""


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [1,2 ]\n", "a: 1 \n", "a:\n\tb: 1\n", "a: yes\n"])
def test_yaml_that_is_badly_written_is_found(text):
    assert list(linter.run(text, LINT))
