#!/usr/bin/env bash
# setup.sh python | browser | cluster | machine: installs what the tests and the demo need here.
#   python   .venv with the locked packages: enough for lint and test-fast
#   browser  also Chromium, in which the page of `cede dashboard` is tested; it asks as for cluster
#   cluster  also the Debian packages of the local cluster. It asks once; with YES=1 or CI=true it
#            installs them without asking.
#   machine  also those that make a virtual machine and run it, for `make test-machine`
# It changes nothing if it finds that something else is missing, and prints what.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/cede"

die() { echo "setup: $*" >&2; exit 1; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3; do
        if [ -n "$candidate" ] &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    die "Python 3.11 or newer is missing: apt-get install python3 python3-venv"
}

# standard input: lines of a command and its package
missing_commands() {
    local command package
    while read -r command package; do
        command -v "$command" >/dev/null || echo "$package"
    done | sort -u
}

missing_packages() {
    missing_commands <<END
containerd containerd
runc runc
nft nftables
buildah buildah
debootstrap debootstrap
ip iproute2
nsenter util-linux
sysctl procps
END
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
    [ -x /usr/lib/cni/ptp ] || [ -x /opt/cni/bin/ptp ] || echo containernetworking-plugins
    "$python" -c 'import ensurepip' 2>/dev/null || echo python3-venv
}

missing_for_machine() {
    missing_packages
    missing_commands <<END
qemu-system-x86_64 qemu-system-x86
mkfs.ext4 e2fsprogs
ssh openssh-client
END
}

missing_browser() {
    local command
    for command in chromium chromium-browser google-chrome; do
        command -v "$command" >/dev/null && return
    done
    echo chromium
}

check_cluster() {
    local version
    [ "$(id -u)" = 0 ] ||
        die "not root: the cluster needs namespaces, mounts and interfaces;" \
            "run as root, or in a virtual machine"
    command -v go >/dev/null ||
        die "Go 1.26 or newer is missing: the programs of the cluster are compiled with it;" \
            "install it from go.dev/dl"
    version=$(go env GOVERSION)
    printf '%s\n' go1.26 "${version%% *}" | sort -VC ||
        die "Go is ${version#go}, 1.26 or newer is needed: install it from go.dev/dl"
    "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
        die "Python 3.11 is needed, because the pods run that of Debian 12:" \
            "apt-get install python3 python3-venv, or set PYTHON=/path/to/python3.11"
}

# $1: the function that prints what is missing
install_packages() {
    local packages answer
    packages=$("$1" | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    command -v apt-get >/dev/null || die "missing: $packages(there is no apt-get to install them)"
    if [ "${YES:-}" != 1 ] && [ "${CI:-}" != true ]; then
        [ -t 0 ] || die "missing: $packages(YES=1 installs them without asking)"
        read -r -p "apt-get install $packages? [y/N] " answer
        [ "$answer" = y ] || die "nothing was installed; missing: $packages"
    fi
    echo "setup: apt-get install $packages" >&2
    {
        apt-get update -q &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
    } >"$cache/apt.log" 2>&1 || die "apt-get failed: $(tail -n 3 "$cache/apt.log")"
}

make_environment() {
    local stamp uv
    stamp=$(sha256sum deploy/locks/dev.txt pyproject.toml deploy/local/setup.sh |
        sha256sum | cut -c1-16)
    uv=$cache/uv/bin/uv
    [ "$(cat .venv/cede-stamp 2>/dev/null)" = "$stamp" ] && return
    "$python" -c 'import ensurepip' 2>/dev/null ||
        die "python3-venv is missing: apt-get install python3-venv"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    if [ ! -x "$uv" ]; then
        "$python" -m venv "$cache/uv"
        "$cache/uv/bin/pip" install -q --disable-pip-version-check --require-hashes \
            -r deploy/locks/tools.txt
    fi
    "$uv" pip install -q --python .venv/bin/python --require-hashes \
        -r deploy/locks/dev.txt -r deploy/locks/build.txt
    "$uv" pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e .
    # All packages as bytecode: pods mount this torch and may not write, so each rank would compile.
    # uv would compile only what the same call installs. Some files fail: templates, later Python.
    .venv/bin/python -m compileall -qq -j 0 .venv/lib/python3.*/site-packages || true
    echo "$stamp" >.venv/cede-stamp
}

python=$(find_python)
mkdir -p "$cache"
case "${1:-}" in
python) ;;
browser) install_packages missing_browser ;;
cluster) check_cluster; install_packages missing_packages ;;
machine) check_cluster; install_packages missing_for_machine ;;
*) die "usage: setup.sh python | browser | cluster | machine" ;;
esac
began=$SECONDS
make_environment
elapsed=$((SECONDS - began))
[ $elapsed -lt 2 ] || echo "setup: Python environment created in $elapsed s" >&2
