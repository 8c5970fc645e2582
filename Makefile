# libpami: everything is built from here.  `make help` lists the targets and variables.
#
# Works alone on a fresh checkout.  ./configure is optional: it writes config.mk, which only sets
# variables that this file has defaults for.  Sources are found by wildcard: a new .c file in src/,
# tools/, examples/, bench/ or test/<kind>/ needs no change here.  A program is one file NAME.c, or
# all the files of a directory NAME/, or both.

MAJOR   := 0
VERSION := 0.1.0

# ---- settings -----------------------------------------------------------------------------------

-include config.mk

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
OBJCOPY      ?= objcopy
NM           ?= nm
PKG_CONFIG   ?= pkg-config
CLANG_FORMAT ?= clang-format
CPPCHECK     ?= cppcheck
INSTALL      ?= install
PROVE        ?= prove

CFLAGS ?= -O3 -g

prefix       ?= /usr/local
exec_prefix  ?= $(prefix)
bindir       ?= $(exec_prefix)/bin
libdir       ?= $(exec_prefix)/lib
includedir   ?= $(prefix)/include
datarootdir  ?= $(prefix)/share
mandir       ?= $(datarootdir)/man
docdir       ?= $(datarootdir)/doc/libpami
pkgconfigdir ?= $(libdir)/pkgconfig

comma := ,
# A sanitizer's products live apart, so that switching does not rebuild everything.
BUILD ?= build$(if $(SANITIZE),/sanitize-$(subst $(comma),-,$(SANITIZE)))
# make takes what is before a blank and what is behind it for two names.
$(if $(word 2,$(BUILD)),$(error BUILD is '$(BUILD)': names with blanks cannot be built to))

ifneq ($(V),1)
.SILENT:
say = printf '  %-7s %s\n' '$(1)' '$(2)';
endif

# ---- flags --------------------------------------------------------------------------------------

HWLOC_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags hwloc 2>/dev/null)
HWLOC_LIBS   ?= $(shell $(PKG_CONFIG) --libs hwloc 2>/dev/null)
HWLOC_CFLAGS := $(HWLOC_CFLAGS)
HWLOC_LIBS   := $(HWLOC_LIBS)
# Without libfabric there is no network module; everything else is built.
FABRIC_CFLAGS ?= $(shell $(PKG_CONFIG) --cflags libfabric 2>/dev/null)
FABRIC_LIBS   ?= $(shell $(PKG_CONFIG) --libs libfabric 2>/dev/null)
FABRIC_CFLAGS := $(FABRIC_CFLAGS)
FABRIC_LIBS   := $(FABRIC_LIBS)
# Nor are there unit tests without cmocka.
CMOCKA_LIBS ?= $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)
CMOCKA_LIBS := $(CMOCKA_LIBS)
need_hwloc    = $(if $(HWLOC_LIBS),,$(error hwloc is missing (asked $(PKG_CONFIG)); try `make deps`))

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
            -Wwrite-strings -Wvla
ifeq ($(DEVELOPER),1)
WARNINGS += -Werror
endif

base_cflags  := -std=gnu11 -D_GNU_SOURCE -fvisibility=hidden -pthread \
                -DPAMI_VERSION_TEXT='"$(VERSION)"' -Iinclude -Isrc
base_ldflags := -pthread -Wl,--as-needed
ifneq ($(SANITIZE),)
base_cflags  += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
base_ldflags += -fsanitize=$(SANITIZE)
# By these names gcc says so itself, clang does not.
base_cflags  += $(if $(findstring address,$(SANITIZE)),-D__SANITIZE_ADDRESS__=1) \
                $(if $(findstring thread,$(SANITIZE)),-D__SANITIZE_THREAD__=1)
else
# With clang only programs have the sanitizer's run-time.
no_undefined := -Wl,-z,defs
endif
# What programs do wrong is reported (src/context/misuse.h); sanitizer builds always do so.
ifneq ($(DEBUG)$(SANITIZE),)
base_cflags  += -DPAMI_MISUSE_CHECKS
endif

# Everything is position independent, so that one set of objects serves both libraries: also where
# CFLAGS have -fPIE.
compile = $(CC) $(base_cflags) $(WARNINGS) $(HWLOC_CFLAGS) $(CPPFLAGS) $(CFLAGS) -fPIC -MMD -MP
link    = $(CC) $(base_ldflags) $(CFLAGS) $(LDFLAGS)
LIBS    = $(HWLOC_LIBS) -lm -ldl -lrt

# ---- files --------------------------------------------------------------------------------------

# Names of the programs in a directory, and the sources of one.
programs   = $(sort $(basename $(wildcard $(1)/*.c)) $(patsubst %/,%,$(dir $(wildcard $(1)/*/*.c))))
sources_of = $(wildcard $(1).c $(1)/*.c)
objects_of = $(patsubst %.c,$(BUILD)/obj/%.o,$(call sources_of,$(1)))

# Devices with a library behind them that programs shall not pay for: pami-NAME.so, opened at need.
module_names   := ofi
# What a module has of the library in itself; the rest it gets through src/device/module.h.
module_shares  := src/util/hash.c src/util/clock.c src/util/race.c src/device/network.c
module_sources  = $(wildcard src/device/$(1)/*.c) $(module_shares)

lib_sources := $(sort $(filter-out $(foreach n,$(module_names),$(wildcard src/device/$(n)/*.c)),\
                   $(wildcard src/*/*.c src/*/*/*.c)))
lib_objects := $(lib_sources:%.c=$(BUILD)/obj/%.o)

tool_names     := $(notdir $(call programs,tools))
example_names  := $(call programs,examples)
# Programs that measure libfabric itself are the only ones linked with it.
fabric_names   := bench/limit_ofi
bench_names    := $(filter-out bench/peer $(if $(FABRIC_LIBS),,$(fabric_names)),\
                      $(call programs,bench))
# Not programs: shared objects that stand in for other libraries in tests.
stand_ins      := $(filter-out $(if $(FABRIC_LIBS),,%_fabric.so),\
                      $(patsubst %.c,$(BUILD)/%.so,$(wildcard test/lib/*.c)))
test_kinds     := $(filter-out lib,$(notdir $(patsubst %/,%,$(wildcard test/*/))))
# Tests of what is missing, or with what is missing, cannot be built. The explorer, which takes the
# place of a sanitizer, has none beside it.
missing_names  := $(if $(FABRIC_LIBS),,test/fuzz/ofi_%) \
                  $(if $(and $(CMOCKA_LIBS),$(if $(SANITIZE),,yes)),,test/unit/explore) \
                  $(if $(CMOCKA_LIBS),,\
                      $(shell grep -rlw cmocka_run_group_tests test/unit | sed -E 's|^(test/unit/[^/.]*).*|\1|'))
test_names     := $(filter-out $(missing_names),\
                      $(foreach kind,$(test_kinds),$(call programs,test/$(kind))))
shell_tests    := $(sort $(wildcard test/*/*.sh))
peer_sources   := $(wildcard bench/peer/*.c)

tools    := $(addprefix $(BUILD)/bin/,$(tool_names))
examples := $(addprefix $(BUILD)/,$(example_names))
benches  := $(addprefix $(BUILD)/,$(bench_names))
tests    := $(addprefix $(BUILD)/,$(test_names))

# Programs that look inside are linked with all internal symbols, the others with the shared library.
inside_names := $(filter test/unit/% test/fuzz/% test/fault/phases,$(test_names))
public_names := $(filter-out $(inside_names),$(test_names)) $(example_names) $(bench_names)

soname  := libpami.so.$(MAJOR)
shared  := $(BUILD)/lib/libpami.so.$(VERSION)
links   := $(BUILD)/lib/$(soname) $(BUILD)/lib/libpami.so
static  := $(BUILD)/lib/libpami.a
private := $(BUILD)/lib/libpami-private.a
pc      := $(BUILD)/lib/pkgconfig/pami.pc
modules := $(if $(FABRIC_LIBS),$(module_names:%=$(BUILD)/lib/pami-%.so))

headers     := $(wildcard include/*.h)
sub_headers := $(wildcard include/pami/*.h)
man_pages   := $(wildcard doc/man/*.[1-9])
man_kinds   := $(sort $(subst .,,$(suffix $(man_pages))))
# Installed as they lie here, because they name one another.
doc_files   := $(wildcard README.md CONTRIBUTING.md LICENSE doc/*.md bench/*.md \
                 examples/*.* examples/*/*.*)
doc_dirs    := $(sort $(patsubst %/,%,$(dir $(doc_files))))
all_c       := $(sort $(wildcard $(foreach d,src/*/ src/*/*/ include/ include/pami/ tools/ tools/*/ \
                 examples/ examples/*/ test/ test/*/ test/*/*/ bench/ bench/*/,$(d)*.c $(d)*.h)))

# ---- build --------------------------------------------------------------------------------------

.PHONY: all lib tools examples tests benches peers
all: lib tools examples tests benches ## build everything (the default)
lib: $(shared) $(links) $(static) $(modules) $(pc) ## build the libraries only
	$(if $(FABRIC_LIBS),,$(call say,SKIP,pami-ofi.so: libfabric is missing; try `make deps`))
tools: $(tools) ## build the tools
examples: $(examples) ## build the examples
tests: $(tests) $(stand_ins) ## build the tests
	$(if $(CMOCKA_LIBS),,$(call say,SKIP,test/unit: cmocka is missing; try `make deps`))
benches: $(benches) ## build the benchmarks

# Objects depend on the commands that make them: other flags, or another compiler, rebuild.
commands := $(strip $(compile) | $(link) | $(LIBS) | $(FABRIC_CFLAGS) $(FABRIC_LIBS))
$(BUILD)/commands: always
	$(need_hwloc)
	mkdir -p $(@D)
	printf '%s\n' '$(subst ','\'',$(commands))' | cmp -s - $@ || \
	    printf '%s\n' '$(subst ','\'',$(commands))' >$@
.PHONY: always

# The library's own sources do without the functions of banned.h.
$(BUILD)/obj/src/%.o: extra := -include src/util/banned.h
# Installing elsewhere than the build was told to compiles nothing anew.
$(BUILD)/obj/src/device/module.o: extra = -include src/util/banned.h -DPAMI_LIBDIR='"$(libdir)"'
$(BUILD)/obj/test/%.o: extra := -Itest
$(BUILD)/obj/test/fuzz/ofi_%.o: extra += $(FABRIC_CFLAGS)
$(BUILD)/obj/%.o: %.c $(BUILD)/commands
	$(call say,CC,$<) mkdir -p $(@D) && $(compile) $(extra) -c -o $@ $<

# Never unloaded: threads, the launcher and the end of the process rely on it (dlopen, dlclose).
$(shared): $(lib_objects) libpami.map
	$(call say,LD,$@) mkdir -p $(@D) && $(link) -shared -Wl,-soname,$(soname) \
	    -Wl,--version-script=libpami.map $(no_undefined) -Wl,-z,nodelete -o $@ $(lib_objects) $(LIBS)

# The entry is all that a module shows.
$(BUILD)/obj/src/device/ofi/%.o: extra += $(FABRIC_CFLAGS)
$(BUILD)/lib/pami-ofi.so: $(patsubst %.c,$(BUILD)/obj/%.o,$(call module_sources,ofi))
	$(call say,LD,$@) mkdir -p $(@D) && $(link) -shared $(no_undefined) -o $@ $^ $(FABRIC_LIBS) $(LIBS)

$(links): $(shared)
	ln -sf libpami.so.$(VERSION) $@

# The module for programs that look inside, but for its door to the library, which they have.
$(BUILD)/lib/pami-ofi-private.a: $(patsubst %.c,$(BUILD)/obj/%.o,\
        $(filter-out src/device/ofi/host.c,$(wildcard src/device/ofi/*.c)))
	$(call say,AR,$@) mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $^

# One relocatable object whose hidden symbols are local: nothing of ours can clash with a user's.
# Link-time optimisation ends here, as what it would leave to programs has names for all symbols.
# gcc has to be told; clang does so by itself, and does not know the option.
end_lto := $(if $(findstring -flto,$(CFLAGS)),$(CFLAGS) $(shell o=-flinker-output=nolto-rel; \
               $(CC) $$o -x c -E /dev/null >/dev/null 2>&1 && echo $$o))
$(BUILD)/obj/libpami.o: $(lib_objects)
	$(call say,LD,$@) $(CC) -r -nostdlib $(end_lto) -o $@.tmp $(lib_objects) && \
	    $(OBJCOPY) --localize-hidden $@.tmp && mv $@.tmp $@

$(static): $(BUILD)/obj/libpami.o
$(private): $(lib_objects)
$(static) $(private):
	$(call say,AR,$@) mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $^

# What programs with libpami.a in them need of hwloc: its package, where that is what we use.
hwloc_given   = $(filter-out $(shell $(PKG_CONFIG) --libs hwloc 2>/dev/null),$(HWLOC_LIBS))
hwloc_package = $(if $(hwloc_given),,hwloc)

# fill_pc PREFIX,LIBDIR,INCLUDEDIR,FILE
fill_pc = sed -e 's|@prefix@|$(1)|' -e 's|@libdir@|$(2)|' -e 's|@includedir@|$(strip $(3))|' \
          -e 's|@version@|$(VERSION)|' -e 's|@hwloc_package@|$(hwloc_package)|' \
          -e 's|@hwloc_libs@|$(if $(hwloc_given),$(HWLOC_LIBS) )|' pami.pc.in >"$(4)"

# Whatever a build looks for in programs is not looked for here.
$(BUILD)/test/lib/%.so: test/lib/%.c test/lib/fabric.h $(BUILD)/commands
	$(call say,LD,$@) mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -fvisibility=hidden \
	    -shared -pthread $(WARNINGS) $(FABRIC_CFLAGS) $(CPPFLAGS) $(CFLAGS) -fPIC $(LDFLAGS) \
	    -o $@ $< -ldl

# For use from the build tree, wherever that has been moved to; `make install` writes another one.
pc_here = $(filter 2,$(shell grep -cFxs -e 'prefix=$(abspath $(BUILD))' \
              -e 'includedir=$(abspath include)' $(pc)))
$(pc): pami.pc.in $(BUILD)/commands $(if $(pc_here),,always)
	mkdir -p $(@D)
	$(call fill_pc,$(abspath $(BUILD)),$(abspath $(BUILD)/lib),$(abspath include),$@)

# What test/unit/explore explores: these sources, and its scenarios, with a call for each access to
# memory, as for the thread sanitizer. What they call to wait, to allocate or of the system is its own.
explored := $(wildcard $(addprefix src/,workqueue/*.c util/hash.c coll/shared/*.c \
                context/advance.c context/completion.c context/lock.c context/post.c context/share.c \
                context/wait.c client/async.c client/async_sleep.c p2p/memregion.c \
                $(addprefix servers/,choose.c fence.c lane.c plain.c request.c server.c servers.c \
                    split.c) \
                $(addprefix device/shm/,chunk.c chunk_write.c inbox.c joint.c lanes.c life.c path.c \
                    port.c receive.c sleep.c watch.c)))
explore_flags := -fsanitize=thread -fno-lto $(addprefix -fno-builtin-,memcpy memmove memset)
explore_parts := $(addprefix test/unit/explore/,engine.c explore.c hooks.c memory.c \
                     notes.c races.c)
scenarios     := $(filter-out $(explore_parts),$(wildcard test/unit/explore/*.c))
explore_wraps := aligned_alloc calloc free malloc memcpy memmove memset realloc sched_yield syscall \
                 pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock yield_again \
                 clock_now clock_now_ns clock_ticks_per_us clock_ticks_slow client_of_context \
                 registry_find shm_copy_memory PAMI_Fence_all PAMI_Put PAMIX_Context_async_disable

$(scenarios:%.c=$(BUILD)/obj/%.o): extra += $(explore_flags)
$(BUILD)/obj/explored/%.o: %.c $(BUILD)/commands
	$(call say,CC,$<) mkdir -p $(@D) && \
	    $(compile) -include src/util/banned.h $(explore_flags) -c -o $@ $<
$(BUILD)/test/unit/explore: override LDFLAGS += $(explore_wraps:%=-Wl,--wrap=%)
beside_test/unit/explore := $(explored:%.c=$(BUILD)/obj/explored/%.o)

# inside_program FILE,NAME,LIBRARIES: linked with every internal symbol.
define inside_program
$(1): $(call objects_of,$(2)) $(beside_$(2)) $(private)
	$$(call say,LINK,$$@) mkdir -p $$(@D) && $$(link) -o $$@ $$^ $(3) $$(LIBS)
endef

# public_program FILE,NAME,WAY: linked with the shared library, found from beside the program.
define public_program
$(1): $(call objects_of,$(2)) $(shared) $(links)
	$$(call say,LINK,$$@) mkdir -p $$(@D) && $$(link) -o $$@ $$(filter %.o,$$^) \
	    -L$(BUILD)/lib -lpami -Wl,-rpath,'$$$$ORIGIN/$(3)lib' $$(LIBS)
endef

$(fabric_names:%=$(BUILD)/obj/%.o): extra += $(FABRIC_CFLAGS)
$(fabric_names:%=$(BUILD)/%): LIBS += $(FABRIC_LIBS)

empty :=
space := $(empty) $(empty)
# One ../ for each directory above a name.
up = $(subst $(space),,$(patsubst %,../,$(subst /, ,$(patsubst %/,%,$(dir $(1))))))

$(foreach n,$(tool_names),$(eval $(call inside_program,$(BUILD)/bin/$(n),tools/$(n),)))
$(foreach n,$(inside_names),$(eval $(call inside_program,$(BUILD)/$(n),$(n),\
    $(if $(filter test/unit/%,$(n)),$(CMOCKA_LIBS))$(if $(filter test/fuzz/ofi_%,$(n)),$(private)))))
# Programs that look inside a module, which looks inside the library.
inside_ofi := $(if $(FABRIC_LIBS),$(patsubst %,$(BUILD)/%,$(filter test/fuzz/ofi_%,$(inside_names))))
$(inside_ofi): $(BUILD)/lib/pami-ofi-private.a
$(foreach n,$(public_names),$(eval $(call public_program,$(BUILD)/$(n),$(n),$(call up,$(n)))))

# Benchmarks of other libraries, where these are installed: bench/peer/mpi_NAME.c becomes
# mpi_NAME.openmpi and mpi_NAME.mpich, bench/peer/ucx_NAME.c becomes ucx_NAME.
peer_names := $(notdir $(basename $(peer_sources)))
mpi_peers   = $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m)),\
                  $(patsubst %,$(BUILD)/bench/peer/%.$(m),$(filter mpi_%,$(peer_names)))))
ucx_peers   = $(if $(shell $(PKG_CONFIG) --exists ucx && echo yes),\
                  $(patsubst %,$(BUILD)/bench/peer/%,$(filter ucx_%,$(peer_names))))
peer_flags  = -std=gnu11 -D_GNU_SOURCE -pthread $(WARNINGS) $(CPPFLAGS) $(CFLAGS) -Ibench -Isrc
ifneq ($(filter peers bench,$(MAKECMDGOALS)),)
peers: $(mpi_peers) $(ucx_peers) ## build those of other libraries, where these are installed
endif

$(BUILD)/bench/peer/%.openmpi: bench/peer/%.c $(wildcard bench/*.h bench/peer/*.h)
	$(call say,MPICC,$@) mkdir -p $(@D) && mpicc.openmpi $(peer_flags) -o $@ $< -lm
$(BUILD)/bench/peer/%.mpich: bench/peer/%.c $(wildcard bench/*.h bench/peer/*.h)
	$(call say,MPICC,$@) mkdir -p $(@D) && mpicc.mpich $(peer_flags) -o $@ $< -lm
$(BUILD)/bench/peer/ucx_%: bench/peer/ucx_%.c $(wildcard bench/*.h bench/peer/*.h)
	$(call say,CC,$@) mkdir -p $(@D) && $(CC) $(peer_flags) -o $@ $< \
	    $$($(PKG_CONFIG) --cflags --libs ucx) -lm

.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---- test, measure, show ------------------------------------------------------------------------

#: KIND=unit,api,...  the kinds of tests that `make check` runs (default: all but hosts, which takes an
#:                    hour)
#: TEST=FILE...       only these tests, e.g. TEST=test/api/put.c
#: JOBS=N             test programs at a time (default 1, as tests look at the clock)
#: TEST_FACTOR=F      multiplies time limits (default 1, with a sanitizer 5)
KIND ?= unit,build,launch,api,sim,fault,fuzz,net
JOBS ?= 1
TEST_FACTOR ?= $(if $(SANITIZE),5,1)

test_files := $(sort $(foreach n,$(test_names),$(firstword $(wildcard $(n).c) \
                  $(wildcard $(n)/$(notdir $(n)).c) $(n).c)) $(shell_tests))
selected    = $(or $(TEST),$(foreach k,$(subst $(comma), ,$(KIND)),$(filter test/$(k)/%,$(test_files))))
no_tests    = $(filter-out $(test_files),$(selected))

# For tests that are named their programs will do, but scripts may run any.
ifeq ($(if $(TEST),$(filter-out %.c,$(TEST)),none),)
needed := lib tools $(foreach n,$(test_names),\
              $(if $(filter $(n).c $(n)/$(notdir $(n)).c,$(TEST)),$(BUILD)/$(n)))
else
needed := all
endif

# Why tests have failed, a line each: shown at the end, which may be all that somebody sees.
reasons = $(abspath $(BUILD))/test/reasons

# A recipe that says $(MAKE) itself would be run under `make -n`, too.
this_make = $(MAKE)

# ThreadSanitizer does not get along with much address-space randomisation.
steady := $(if $(findstring thread,$(SANITIZE)),\
              $(shell setarch -R true 2>/dev/null && echo setarch -R))

.PHONY: check run-check bench bench-deps launch-deps demo
check: deps ## build and run the tests (see KIND, TEST, JOBS)
	$(if $(word 2,$(CURDIR)),$(error tests do not run in '$(CURDIR)': its name has blanks))
	$(if $(no_tests),$(error there is no test $(no_tests)))
	$(if $(strip $(selected)),,$(error no test is selected))
	+$(MAKE) --no-print-directory run-check

run-check: $(needed)
	rm -f '$(reasons)'
	TEST_REASONS='$(reasons)' BUILD='$(abspath $(BUILD))' \
	    CC='$(CC)' CXX='$(CXX)' NM='$(NM)' PKG_CONFIG='$(PKG_CONFIG)' \
	    MAKE='$(this_make)' SANITIZE='$(SANITIZE)' TEST_FACTOR='$(TEST_FACTOR)' \
	    $(steady) $(PROVE) -j $(JOBS) --exec test/tap $(selected) || { \
	    [ ! -s '$(reasons)' ] || { echo 'Why:'; tail -c 800 '$(reasons)'; }; false; }

bench: all peers ## build and run the benchmarks
	BUILD='$(abspath $(BUILD))' bench/run

bench-deps: ## install the libraries that benchmarks compare with
	scripts/deps.sh bench

launch-deps: ## install the launchers that test/launch knows
	scripts/deps.sh launch

demo: deps ## build and run the main example
	+$(MAKE) --no-print-directory lib tools examples
	BUILD='$(abspath $(BUILD))' scripts/demo.sh

# ---- install ------------------------------------------------------------------------------------

#: prefix=DIR, bindir, libdir, includedir, mandir, docdir, pkgconfigdir, DESTDIR: where to install
.PHONY: install install-files no-blanks uninstall
install: lib tools ## install below $(DESTDIR)$(prefix)
	+$(MAKE) --no-print-directory install-files

# Installs what is there and builds nothing.
install-files: no-blanks
	$(call say,INSTALL,$(DESTDIR)$(prefix))
	$(INSTALL) -d $(foreach d,$(bindir) $(libdir) $(pkgconfigdir) $(includedir)/pami \
	    $(man_kinds:%=$(mandir)/man%) $(doc_dirs:%=$(docdir)/%),"$(DESTDIR)$(d)")
	$(INSTALL) -m 644 $(headers) "$(DESTDIR)$(includedir)"
	$(INSTALL) -m 644 $(sub_headers) "$(DESTDIR)$(includedir)/pami"
	$(INSTALL) -m 755 $(shared) "$(DESTDIR)$(libdir)"
	ln -sf libpami.so.$(VERSION) "$(DESTDIR)$(libdir)/$(soname)"
	ln -sf $(soname) "$(DESTDIR)$(libdir)/libpami.so"
	$(INSTALL) -m 644 $(static) "$(DESTDIR)$(libdir)"
	$(if $(modules),$(INSTALL) -m 755 $(modules) "$(DESTDIR)$(libdir)")
	$(call fill_pc,$(prefix),$(libdir:$(prefix)/%=$${prefix}/%),\
	    $(includedir:$(prefix)/%=$${prefix}/%),$(DESTDIR)$(pkgconfigdir)/pami.pc)
	chmod 644 "$(DESTDIR)$(pkgconfigdir)/pami.pc"
	$(if $(tools),$(INSTALL) -m 755 $(tools) "$(DESTDIR)$(bindir)")
	$(foreach k,$(man_kinds),$(INSTALL) -m 644 $(filter %.$(k),$(man_pages)) \
	    "$(DESTDIR)$(mandir)/man$(k)" &&) true
	$(foreach d,$(doc_dirs),$(INSTALL) -m 644 $(foreach f,$(doc_files),\
	    $(if $(filter $(d)/,$(dir $(f))),$(f))) "$(DESTDIR)$(docdir)/$(d)" &&) true

no-blanks:
	$(foreach v,bindir libdir pkgconfigdir includedir docdir mandir,$(if $(word 2,$($(v))),\
	    $(error $(v) is '$($(v))': names with blanks cannot be installed to)))

uninstall: no-blanks ## remove what install has put there
	rm -f $(foreach f,$(headers:include/%=$(includedir)/%) $(sub_headers:include/%=$(includedir)/%) \
	    $(addprefix $(libdir)/,libpami.so.$(VERSION) $(soname) libpami.so libpami.a \
                              $(module_names:%=pami-%.so)) \
	    $(pkgconfigdir)/pami.pc $(tool_names:%=$(bindir)/%) \
	    $(foreach p,$(man_pages),$(mandir)/man$(subst .,,$(suffix $(p)))/$(notdir $(p))) \
	    $(doc_files:%=$(docdir)/%),"$(DESTDIR)$(f)")
	cd "$(DESTDIR)$(docdir)" 2>/dev/null && rmdir -p $(filter-out .,$(doc_dirs)) 2>/dev/null || true
	-rmdir "$(DESTDIR)$(includedir)/pami" "$(DESTDIR)$(docdir)" 2>/dev/null

# ---- the rest -----------------------------------------------------------------------------------

.PHONY: dist lint format doc deps clean help
package := libpami-$(VERSION)
dist: ## make a source archive of what is committed in $(BUILD)
	mkdir -p $(BUILD)
	if [ -e .git ] && git rev-parse -q --verify HEAD >/dev/null 2>&1; then \
	    git archive --prefix=$(package)/ HEAD; \
	else \
	    tar -c --exclude-vcs --exclude='./build' --exclude='./config.mk' \
	        --exclude='./$(BUILD)' --transform='s|^\.|$(package)|' .; \
	fi | gzip -9n >$(BUILD)/$(package).tar.gz
	echo '$(BUILD)/$(package).tar.gz'

lint: ## check format, headers, layers and style
	scripts/deps.sh lint
	+$(MAKE) --no-print-directory lib || true
	BUILD='$(BUILD)' CC='$(CC)' CXX='$(CXX)' NM='$(NM)' CLANG_FORMAT='$(CLANG_FORMAT)' \
	    CPPCHECK='$(CPPCHECK)' HWLOC_CFLAGS='$(HWLOC_CFLAGS)' scripts/lint.sh $(all_c)

format: ## format all C files in place
	$(CLANG_FORMAT) -i $(all_c)

doc: tools ## render the manual pages and the table of options into $(BUILD)/doc
	BUILD='$(BUILD)' CC='$(CC)' scripts/doc.sh $(man_pages)

deps: ## install missing Debian packages (as root; otherwise say which)
	scripts/deps.sh build

clean: ## remove all build products
	rm -rf '$(BUILD)'

#: BUILD=DIR          where everything is built (default build)
#: V=1                show the commands
#: DEVELOPER=1        warnings are errors
#: DEBUG=1            report misuse of contexts by programs
#: SANITIZE=LIST      build with sanitizers: address, undefined, thread or address,undefined
#: CC, CFLAGS, CPPFLAGS, LDFLAGS: as usual
help: ## this list
	echo 'Targets:'
	sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 15
	echo 'Variables:'
	sed -n 's/^#: /  /p' Makefile
