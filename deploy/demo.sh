#!/usr/bin/env bash
# demo.sh local | kind: starts a cluster with Kueue and Cede, and runs the demo of deploy/demo.
# It leaves demo.json, demo.png and demo.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
kueue_version=$(awk '$1 == "sigs.k8s.io/kueue" {print $2}' deploy/local/go.mod)
kueue_releases=https://github.com/kubernetes-sigs/kueue/releases/download
kueue_manifests=$kueue_releases/$kueue_version/manifests.yaml

die() { echo "demo: $*" >&2; exit 1; }

local_cluster() {
    deploy/local/setup.sh cluster
    setup_s=$((SECONDS - began))
    $python -m deploy.local up
    kubeconfig=$($python -m deploy.local kubeconfig)
    kubectl=$(dirname "$(dirname "$kubeconfig")")/bin/kubectl
}

# Needs Docker, kind and kubectl. It has the same manifests, a released Kueue with our settings, and
# accelerators that exist only as a number in the capacity of the nodes.
kind_cluster() {
    local tool node
    for tool in docker kind kubectl; do
        command -v $tool >/dev/null ||
            die "$tool is missing: CLUSTER=kind needs docker, kind and kubectl on the PATH"
    done
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
    docker build -q -f deploy/Dockerfile --target controllers -t cede:dev .
    docker build -q -f deploy/Dockerfile --target training -t cede-training:dev .
    kind load docker-image --name cede cede:dev cede-training:dev
    for node in $(kubectl get nodes -l node.kubernetes.io/instance-type=local-4gpu -o name); do
        kubectl patch "$node" --subresource=status --type=merge \
            -p '{"status":{"capacity":{"nvidia.com/gpu":"4"}}}'
    done
    kubectl apply --server-side --force-conflicts -f "$kueue_manifests"
    kubectl apply --server-side --force-conflicts -f deploy/local/kueue/settings.yaml
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
