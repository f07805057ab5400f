#!/bin/bash
# Builds the image, runs the cluster of compose.yaml, trains on it, and compares the result with that of this
# machine. Needs no Docker: buildah, podman (with runc and catatonit) and podman-compose; as root. All that it makes
# is in one directory, which goes at the end.
#
#     docker/try.sh                                       (from the root of the repository, with .venv set up)
#
# BASE           another base image, e.g. one made by debootstrap; one that begins with / is the root of a file system
# BUILD_OPTIONS  for `buildah build`, e.g. --volume and --env for a package index of one's own
set -euo pipefail

VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
BIN=$PWD/.venv/bin
ITERATIONS=5
RUN=(--preset dam --iterations "$ITERATIONS")
WORK=$(mktemp -d -p "${TMPDIR:-/var/tmp}" ttray-try-XXXXXX)

# A storage of its own; no systemd is needed.
cat > "$WORK/storage.conf" <<END
[storage]
driver = "${STORAGE_DRIVER:-overlay}"
graphroot = "$WORK/storage"
runroot = "$WORK/state"
END
cat > "$WORK/containers.conf" <<END
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
END
export CONTAINERS_STORAGE_CONF=$WORK/storage.conf CONTAINERS_CONF=$WORK/containers.conf
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker  # the other format has no health checks
RAY_AUTH_TOKEN=$(openssl rand -hex 32)
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token
unset RAY_ADDRESS STORAGE_DRIVER
compose() {
    podman-compose --file docker/compose.yaml "$@" > "$WORK/compose.log" 2>&1 || { cat "$WORK/compose.log"; return 1; }
}
healthy() {
    for _ in {1..90}; do
        podman healthcheck run "$1" > /dev/null 2>&1 && return
        sleep 2
    done
    podman logs "$1"
    return 1
}
clean() {
    compose down --volumes || true
    podman system reset --force > /dev/null 2>&1 || true
    rm -rf "$WORK"
}
trap clean EXIT

echo "== the image"
BASE_OPTION=()
case ${BASE:-} in
    "") ;;
    /*) BASE_OPTION=(--build-arg BASE=localhost/base); tar -C "$BASE" -c . | podman import --quiet - localhost/base > /dev/null ;;
    *) BASE_OPTION=(--build-arg "BASE=$BASE") ;;
esac
# shellcheck disable=SC2086
buildah build --quiet --layers=false "${BASE_OPTION[@]}" ${BUILD_OPTIONS:-} \
    --file docker/Dockerfile --tag "ttray:$VERSION" . > "$WORK/build.log" 2>&1 || { tail -40 "$WORK/build.log"; exit 1; }
podman image inspect --format '{{.Size}}' "ttray:$VERSION" | awk '{printf "%.2f GB\n", $1 / 1e9}'
podman run --rm --no-healthcheck --network none "ttray:$VERSION" ttray --version

echo "== the cluster"
compose up --detach head
healthy ttray_head_1
compose up --detach --scale worker=2 worker  # podman-compose starts one replica of a service that is named
for worker in 1 2; do healthy "ttray_worker_$worker"; done
podman ps --format '{{.Names}} {{.Status}} {{.Ports}}'

echo "== without the token"
env --unset RAY_AUTH_TOKEN RAY_AUTH_MODE=disabled "$BIN/ttray" submit -- plan --preset dam 2>&1 | tail -1 || true

echo "== the job"
"$BIN/ttray" submit -- train "${RUN[@]}" --env-runners 4 --directory /checkpoints/try
podman cp ttray_head_1:/checkpoints/try "$WORK/cluster"

echo "== the same here"
env --unset RAY_AUTH_TOKEN --unset RAY_AUTH_MODE "$BIN/ttray" train "${RUN[@]}" --env-runners 0 \
    --directory "$WORK/here" > "$WORK/here.log" 2>&1 || { cat "$WORK/here.log"; exit 1; }
"$BIN/python" - "$WORK" "$ITERATIONS" <<'END'
import sys
from pathlib import Path

from ttray.runs.curves import RESULTS, read_csv

here, cluster = (
    [{key: row[key] for key in RESULTS} for row in read_csv(Path(sys.argv[1], name, "metrics.csv"))]
    for name in ("here", "cluster")
)
assert len(here) == int(sys.argv[2])
for row in cluster:
    print(f"iteration {row['iteration']:.0f}: return {row['discounted_return']}, bound {row['bound_after']}")
weights = [
    Path(sys.argv[1], name, "checkpoints", f"{len(here):06d}", "policy.safetensors").read_bytes()
    for name in ("here", "cluster")
]
same = repr(here) == repr(cluster) and weights[0] == weights[1]  # NaN included
print("every result and every weight has the same bits" if same else f"OTHER RESULTS here: {here}")
sys.exit(not same)
END
