# Installing and packaging: install, uninstall, deb, wheel, and the pages that are made from --help.
LIBDIR ?= $(PREFIX)/lib
# Without what debuggers read, 3 MB instead of 100; INSTALL_FLAGS= keeps it.
INSTALL_FLAGS ?= -s
BINDIR := $(PREFIX)/bin
INCLUDEDIR := $(PREFIX)/include
DATADIR := $(PREFIX)/share
REAL_NAME := libmemomalloc.so.$(VERSION)
SONAME := libmemomalloc.so.1
MAN := build/man
# Python's start hook.
OPENING := sitecustomize.py _memomalloc_opening.py libtcmalloc-is-not-needed/README.txt

installed := $(BINDIR)/memomalloc $(LIBDIR)/$(REAL_NAME) $(LIBDIR)/$(SONAME) $(LIBDIR)/libmemomalloc.so \
             $(INCLUDEDIR)/memomalloc/memomalloc.h $(LIBDIR)/pkgconfig/memomalloc.pc \
             $(DATADIR)/man/man1/memomalloc.1 $(DATADIR)/man/man7/libmemomalloc.7 \
             $(DATADIR)/bash-completion/completions/memomalloc $(addprefix $(DATADIR)/memomalloc/opening/,$(OPENING))

# As ldconfig takes the highest version that it finds, an older or newer one that stays would come back.
remove_versions = rm -f $(DESTDIR)$(LIBDIR)/libmemomalloc.so.[0-9]*.[0-9]*.[0-9]*
no_blanks = $(if $(word 2,$(DESTDIR)$(PREFIX)$(LIBDIR)),$(error DESTDIR, PREFIX and LIBDIR may have no blank))

.PHONY: man docs wheel
man: $(MAN)/memomalloc.1 ## memomalloc.1 and libmemomalloc.7 into build/man
$(MAN)/memomalloc.1: build/memomalloc scripts/tables/gen_man.py
	$(Q)python3 scripts/tables/gen_man.py --man $(MAN)
docs: cli ## docs/commands.md from the commands' own --help
	python3 scripts/tables/gen_man.py --markdown docs/commands.md

install: all man ## into DESTDIR and PREFIX (/usr/local); LIBDIR= for a multiarch folder
	$(no_blanks)$(remove_versions)
	install $(INSTALL_FLAGS) -D -m 755 build/memomalloc $(DESTDIR)$(BINDIR)/memomalloc
	install $(INSTALL_FLAGS) -D -m 644 build/libmemomalloc.so $(DESTDIR)$(LIBDIR)/$(REAL_NAME)
	ln -sf $(REAL_NAME) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libmemomalloc.so
	install -D -m 644 include/memomalloc/memomalloc.h $(DESTDIR)$(INCLUDEDIR)/memomalloc/memomalloc.h
	install -D -m 644 $(MAN)/memomalloc.1 $(DESTDIR)$(DATADIR)/man/man1/memomalloc.1
	install -D -m 644 $(MAN)/libmemomalloc.7 $(DESTDIR)$(DATADIR)/man/man7/libmemomalloc.7
	install -D -m 644 packaging/completion/memomalloc $(DESTDIR)$(DATADIR)/bash-completion/completions/memomalloc
	for file in $(OPENING); do \
	    install -D -m 644 python/memomalloc/opening/$$file $(DESTDIR)$(DATADIR)/memomalloc/opening/$$file; done
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' packaging/memomalloc.pc.in \
	    > $(DESTDIR)$(LIBDIR)/pkgconfig/memomalloc.pc
# So that LD_PRELOAD=libmemomalloc.so.1 works at once; needs root and a folder that ld.so.conf names.
	$(if $(DESTDIR),,-@[ "$$(id -u)" != 0 ] || ldconfig)

uninstall: ## what install put there
	$(no_blanks)$(remove_versions)
	rm -f $(addprefix $(DESTDIR),$(installed))
	-rm -rf $(DESTDIR)$(DATADIR)/memomalloc/opening/__pycache__
	-rmdir $(DESTDIR)$(INCLUDEDIR)/memomalloc $(DESTDIR)$(DATADIR)/memomalloc/opening/* $(DESTDIR)$(DATADIR)/memomalloc/opening \
	    $(DESTDIR)$(DATADIR)/memomalloc
	$(if $(DESTDIR),,-@[ "$$(id -u)" != 0 ] || ldconfig)

DEB := build/deb/memomalloc-$(VERSION)
deb: ## Debian packages into build/deb, checked by lintian where it is installed
	@command -v dpkg-buildpackage dh > /dev/null || { echo "make deb: apt-get install debhelper dpkg-dev fakeroot"; exit 1; }
	rm -rf build/deb
	mkdir -p $(DEB)
	{ git ls-files --cached --others --exclude-standard 2>/dev/null || find . \( -path ./build -o -path ./dist -o -name '.?*' \) -prune -o -type f -print; } \
	    | tar -cf - --ignore-failed-read -T - | tar -xf - -C $(DEB)
	cp -r packaging/debian $(DEB)/debian
	cd $(DEB) && dpkg-buildpackage -us -uc -b
	! command -v lintian > /dev/null || lintian --allow-root --fail-on error,warning build/deb/*.changes

wheel: ## a wheel of the library, the command and the Python module into dist/
	python3 -m pip wheel --no-deps -w dist .

.PHONY: wheels test-wheels try-readme try-wheels try-deb site
wheels: ## wheels for any Linux with glibc 2.28, x86-64 and AArch64, into dist/; checked by auditwheel
	python3 scripts/packages/wheels.py build check
test-wheels: ## conformance programs, a real network and the planner on what the wheels hold
	python3 scripts/packages/wheels.py test
try-readme: ## as root: README.md's blocks in their order, in a fresh clone in bare Debian 12 and 13
	scripts/packages/try_readme.sh
try-wheels: ## as root: the wheel in bare Debian 11, 12 and 13
	scripts/packages/try_wheel.sh
try-deb: ## as root: the Debian packages, built and installed in bare Debian 12 and 13
	scripts/packages/try_deb.sh
site: ## the documents with search, for reading offline, into build/site/html; dead links are an error
	python3 scripts/site/build.py
