#!/bin/sh
# deps.sh build|lint|bench|launch: sees to it that the Debian packages for a purpose are there.
#
# Asks the system for what is missing first, so it is quick, and works without a network, when
# everything is installed.  As root it installs the rest; otherwise it prints the command, and
# succeeds: what is missing may have been installed by other means.
set -eu

# A C and C++ compiler, hwloc, libfabric (for the network module only), and what the tests need.
build='gcc g++ make pkg-config libc6-dev binutils libhwloc-dev libfabric-dev libcmocka-dev perl util-linux'
lint='clang-format cppcheck'
launch='openmpi-bin mpich libpmix-dev munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins
    iproute2 hostname'
bench='openmpi-bin libopenmpi-dev mpich libmpich-dev libucx-dev ucx-utils'

case ${1-} in
build) wanted=$build ;;
lint) wanted="$build $lint" ;;
bench) wanted="$build $bench" ;;
launch) wanted="$build $launch" ;;
*)
    echo "usage: deps.sh build|lint|bench|launch" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: this is no Debian system; needed are (by Debian's names): $wanted" >&2
    exit 0
fi

missing=
for package in $wanted; do
    # shellcheck disable=SC2016
    status=$(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null) || status=
    case " $status" in
    *" installed "*) continue ;;
    esac
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "deps: missing packages; install them with: sudo apt-get install$missing" >&2
    exit 0
fi
echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update </dev/null
# shellcheck disable=SC2086
apt-get -qq install -y --no-install-recommends $missing </dev/null >/dev/null
