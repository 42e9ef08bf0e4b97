#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Installs the Debian packages that a make target needs and this machine lacks:  install-deps.sh build|test|run|bench|deb
# Nothing is asked of the network when nothing is missing.
set -eu

build="gcc libc6-dev meson ninja-build pkg-config libuv1-dev libyaml-dev libjansson-dev libmnl-dev libnftnl-dev libnetfilter-conntrack-dev liburcu-dev
	libxxhash-dev libidn2-dev libcap-ng-dev libseccomp-dev libknot-dev libcmocka-dev"
case "${1:-}" in
build) wanted="$build" ;;
test) wanted="$build libpcre2-dev python3 python3-dnspython python3-yaml nftables iproute2 iputils-ping conntrack bind9-dnsutils knot-dnsutils dnsmasq-base mandoc" ;;
run) wanted="$build python3 python3-dnspython nftables iproute2 bind9-dnsutils" ;;
# Programs to measure beside: their services must not start, nor be there after the next boot.
bench) wanted="$build python3 nftables iproute2 dnsmasq-base unbound dnsdist"; services="unbound.service dnsdist.service" ;;
deb) wanted="$build build-essential dpkg-dev debhelper fakeroot" ;;
*) echo "usage: install-deps.sh build|test|run|bench|deb" >&2; exit 2 ;;
esac

missing=
services=${services:-}
for package in $wanted; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "nameway: these packages are missing and need root to be installed:$missing" >&2
		echo "nameway: as root, run: apt-get install --no-install-recommends$missing" >&2
		exit 1
	fi
	as_root="sudo"
fi
echo "nameway: installing$missing"
$as_root apt-get update -qq
policy=/usr/sbin/policy-rc.d
if [ -n "$services" ] && [ ! -e "$policy" ]; then
	trap '$as_root rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
	$as_root chmod 755 "$policy"
fi
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
# What was there before keeps its service as it was.
for service in $services; do
	case " $missing " in
	*" ${service%.service} "*) ! command -v systemctl >/dev/null || $as_root systemctl disable "$service" 2>/dev/null || true ;;
	esac
done
