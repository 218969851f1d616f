#!/usr/bin/env bash
# demo.sh local | kind: starts a cluster with Kueue and Cede, and runs the demo of deploy/demo.
# It leaves demo.json, demo.png and demo.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python

die() { echo "demo: $*" >&2; exit 1; }

local_cluster() {
    deploy/local/setup.sh cluster
    setup_s=$((SECONDS - began))
    $python -m deploy.local up
    kubeconfig=$($python -m deploy.local kubeconfig)
    kubectl=$(dirname "$(dirname "$kubeconfig")")/bin/kubectl
}

# Kueue as on the local cluster: of its Go module, which go verifies by the hash in go.sum. Makes
# its image kueue:$1, and in the folder $2 its manifests with our settings.
make_kueue() {
    local module
    GOOS=linux CGO_ENABLED=0 go -C deploy/local build -ldflags "-s -w" -o "$2/bin/kueue" \
        sigs.k8s.io/kueue/cmd/kueue
    printf '%s\n' 'FROM scratch' 'COPY kueue /manager' 'USER 65532' 'ENTRYPOINT ["/manager"]' |
        docker build -q -t "kueue:$1" -f - "$2/bin"
    module=$(go -C deploy/local list -m -f '{{.Dir}}' sigs.k8s.io/kueue)
    cp -r "$module/config" "$2/kueue"
    chmod -R u+w "$2/kueue"
    cp -r deploy/local/kueue "$2/settings"
}

# Needs Docker, kind, kubectl and Go. It has the manifests of the local cluster, and accelerators
# that exist only as a number in the capacity of the nodes. BASE is that of deploy/Dockerfile.
kind_cluster() {
    local tool node version
    for tool in docker kind kubectl go; do
        command -v $tool >/dev/null ||
            die "$tool is missing: CLUSTER=kind needs docker, kind, kubectl and go on the PATH"
    done
    [[ ${BASE:-} == *@sha256:* ]] ||
        die "CLUSTER=kind needs an image with Python 3.11, by the digest that docker pull" \
            "python:3.11-slim prints: make demo CLUSTER=kind BASE=python:3.11-slim@sha256:..."
    deploy/local/setup.sh python
    # the pods run the packages of .venv with the Python of the images
    [ -d .venv/lib/python3.11 ] ||
        die "CLUSTER=kind needs a .venv of Python 3.11: rm -r .venv; PYTHON=python3.11 make demo"
    install -d -m 1777 .venv/shared
    kubeconfig=$PWD/.venv/kind.conf
    kubectl=kubectl
    export KUBECONFIG=$kubeconfig
    kind get clusters | grep -qx cede || kind create cluster --name cede --config deploy/kind.yaml
    kind export kubeconfig --name cede
    docker build -q -f deploy/Dockerfile --build-arg BASE --target controllers -t cede:dev .
    docker build -q -f deploy/Dockerfile --build-arg BASE --target training -t cede-training:dev .
    version=$(awk '$1 == "sigs.k8s.io/kueue" {print substr($2, 2)}' deploy/local/go.mod)
    kueue=$(mktemp -d)
    trap 'rm -r "$kueue"' EXIT
    make_kueue "$version" "$kueue"
    kind load docker-image --name cede cede:dev cede-training:dev "kueue:$version"
    for node in $(kubectl get nodes -l node.kubernetes.io/instance-type=local-4gpu -o name); do
        kubectl patch "$node" --subresource=status --type=merge \
            -p '{"status":{"capacity":{"nvidia.com/gpu":"4"}}}'
    done
    kubectl apply --server-side --force-conflicts -k "$kueue/settings"
    kubectl rollout restart -n kueue-system deployment/kueue-controller-manager
    kubectl rollout status -n kueue-system deployment/kueue-controller-manager --timeout=300s
    kubectl apply --server-side --force-conflicts -k deploy/overlays/local
    kubectl rollout restart -n cede-system deployment
    kubectl wait -n cede-system deployment --all --for=condition=Available --timeout=300s
}

began=$SECONDS setup_s=0
case "${1:-local}" in
local | kind) "${1:-local}_cluster" ;;
*) die "usage: demo.sh local | kind" ;;
esac
stages="{\"setup_s\": $setup_s, \"cluster_s\": $((SECONDS - began - setup_s))}"
$python -m deploy.demo --kubeconfig "$kubeconfig" --kubectl "$kubectl" --stages "$stages"
