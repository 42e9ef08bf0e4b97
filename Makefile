# SPDX-License-Identifier: GPL-3.0-or-later
# The front door; meson does the work. Every target installs the packages it lacks (packaging/install-deps.sh).
PREFIX ?= /usr
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
DESTDIR ?=
INSTALL ?= install

programs := src/daemon/namewayd src/cli/nameway
bench_tools := tests/bench/nw-echo tests/bench/nw-bench-load
run_tools := tests/e2e/nw-upstream
version = $(shell sed -n "s/.*, version: '\([^']*\)'.*/\1/p" meson.build)

.PHONY: build test run bench install install-files deb clean

build:
	@packaging/install-deps.sh build
	@$(MAKE) --no-print-directory build/build.ninja
	ninja -C build $(programs)
	@ln -sf src/daemon/namewayd build/namewayd
	@ln -sf src/cli/nameway build/nameway

build/build.ninja:
	meson setup build --prefix=$(PREFIX) --buildtype=release -Doptimization=2 -Ddebug=true -Db_pie=true

build-test/build.ninja:
	meson setup build-test --buildtype=debugoptimized -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false

test:
	@packaging/install-deps.sh test
	@$(MAKE) --no-print-directory build-test/build.ninja
	ninja -C build-test
	@/usr/bin/python3 tests/run.py build-test

run: build
	@packaging/install-deps.sh run
	@ninja -C build $(run_tools)
	@NAMEWAY_BUILD=$(CURDIR)/build /usr/bin/python3 lab/lab.py $(if $(ONCE),--once)

# BENCH= passes options on, as BENCH=--quick or BENCH="--sizes 326k --plot docs/bench.svg"; tests/bench/bench.py --help has them.
bench: build
	@packaging/install-deps.sh bench
	@ninja -C build $(bench_tools)
	@/usr/bin/python3 tests/bench/bench.py --build build $(BENCH)

install: build
	@meson setup --reconfigure build --prefix=$(PREFIX) >build/reconfigure.log || { cat build/reconfigure.log; exit 1; }
	$(MAKE) --no-print-directory install-files
	@[ -n "$(DESTDIR)" ] || ! command -v systemd-sysusers >/dev/null || systemd-sysusers nameway.conf
	@echo "installed below $(DESTDIR)$(PREFIX); start it with: systemctl daemon-reload; systemctl enable --now nameway-guard nameway"

# The programs must be built already. An edited configuration is left alone.
install-files:
	DESTDIR="$(abspath $(DESTDIR))" meson install -C build --no-rebuild --quiet
	$(INSTALL) -d "$(DESTDIR)$(UNITDIR)" "$(DESTDIR)$(SYSUSERSDIR)" "$(DESTDIR)$(SYSCONFDIR)/nameway"
	@for unit in nameway nameway-guard; do \
		sed -e 's,/usr/sbin/,$(PREFIX)/sbin/,' -e 's,/usr/bin/,$(PREFIX)/bin/,' -e 's,/etc/nameway,$(SYSCONFDIR)/nameway,' \
			packaging/systemd/$$unit.service >"$(DESTDIR)$(UNITDIR)/$$unit.service" || exit 1; \
		chmod 644 "$(DESTDIR)$(UNITDIR)/$$unit.service"; \
	done
	$(INSTALL) -m 644 packaging/sysusers/nameway.conf "$(DESTDIR)$(SYSUSERSDIR)/nameway.conf"
	@[ -e "$(DESTDIR)$(SYSCONFDIR)/nameway/nameway.yaml" ] || $(INSTALL) -m 644 packaging/nameway.yaml "$(DESTDIR)$(SYSCONFDIR)/nameway/nameway.yaml"

# dpkg-buildpackage wants debian/ at the top and writes beside it, so it gets a copy.
deb:
	@packaging/install-deps.sh deb
	rm -rf build-deb
	mkdir -p build-deb/nameway-$(version)
	tar -cf - --exclude='./build*' --exclude=./b --exclude='./b-*' --exclude=./.git . | tar -xf - -C build-deb/nameway-$(version)
	cp -r packaging/debian build-deb/nameway-$(version)/debian
	cd build-deb/nameway-$(version) && dpkg-buildpackage -us -uc -b
	@ls build-deb/*.deb

clean:
	rm -rf build build-test build-deb
