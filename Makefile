# One Makefile for everything; `make help` lists the targets.
# Objects of a mode live in build/<mode>/obj; release results are build/libmemomalloc.so and build/memomalloc.
MODE ?= release
B := $(if $(filter release,$(MODE)),build,build/$(MODE))
O := build/$(MODE)/obj
Q := $(if $(V),,@)
comma := ,
CXX ?= g++
CC ?= gcc
VERSION := $(shell cat VERSION)
PREFIX ?= /usr/local
DESTDIR ?=
# Catch2 is one header before its version 3, and headers with two libraries since.
catch3 := $(if $(wildcard /usr/include/catch2/catch_all.hpp),-isystem tests/support/catch3)
catch_libs := $(if $(catch3),-lCatch2Main -lCatch2)
HAVE_CBC := $(shell test -e /usr/include/coin/Cbc_C_Interface.h && echo 1)

flags_release := -O3 -DNDEBUG
# For other machines: with as few libraries as can be (setup.py leaves CBC out as well).
flags_wheel := $(flags_release) -static-libstdc++ -static-libgcc
flags_debug := -g2 -O0 -DMEMO_DEBUG=1
# Hot code has no run-time type information, which the check of virtual tables (vptr) needs.
flags_asan := -O1 -DMEMO_DEBUG=1 -DMEMO_ASAN=1 -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined -fno-omit-frame-pointer
flags_ubsan := -O1 -DMEMO_DEBUG=1 -fsanitize=undefined -fno-sanitize=vptr -fno-sanitize-recover=all
flags_tsan := -O1 -DMEMO_DEBUG=1 -DMEMO_TSAN=1 -fsanitize=thread
flags_fuzz := -O1 -DMEMO_DEBUG=1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
# Where it is there, clang compiles what sanitizers look at: in less than two thirds of the time.
# Their malloc is a library, as the other compiler has it: what asks for the next malloc finds it.
ifneq ($(filter asan ubsan tsan,$(MODE)),)
runtime := $(shell clang++-19 -print-resource-dir 2>/dev/null)/lib/linux
ifneq ($(wildcard $(runtime)/libclang_rt.tsan-*.so),)
CXX := clang++-19
flags_$(MODE) += -shared-libsan
export LD_RUN_PATH := $(runtime)
endif
endif
flags_aarch64 = $(flags_release) -isystem $(CROSS)/include -L$(CROSS)/lib
# For wheels of any distribution: scripts/packages/wheels.py names the compiler, and CROSS with what it has not.
flags_manylinux-x86_64 = $(flags_aarch64)
flags_manylinux-aarch64 = $(flags_aarch64)
# What that compiler's linker does not take: it has one of them as its own way, and exports.map does the other's work.
link_gnu := $(if $(filter manylinux-%,$(MODE)),,-Wl,-z,separate-code -Wl,--exclude-libs,ALL)
# A sanitizer's code makes the compiler warn of what is not in the source; the release's build is what is judged.
WARN := $(if $(filter asan ubsan tsan,$(MODE)),-w,-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow $(if $(WERROR),-Werror) \
          $(if $(filter manylinux-%,$(MODE)),-Wno-unknown-warning-option))
# -g1: a report names functions and lines, and needs no variables; a third less to compile. MODE=debug has them.
COMMON := -std=c++20 -g1 $(flags_$(MODE)) $(WARN) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections \
          -DMEMO_VERSION='"$(VERSION)"' -I. -Iinclude -pthread $(EXTRA_CXXFLAGS)
# Unwind tables stay: a signature is unwound from inside this code.
HOT := -fno-exceptions -fno-rtti -fasynchronous-unwind-tables -ftls-model=initial-exec

hot_src := $(wildcard src/base/*.cc src/trace/*.cc src/follow/*.cc src/serve/*.cc src/engine/*.cc)
cold_src := $(wildcard src/learn/*.cc src/io/*.cc)
gpu_src := $(wildcard src/gpu/*.cc)
planner_src := $(wildcard planner/*.cc)
solver_src := $(if $(HAVE_CBC),$(wildcard planner/solver/*.cc scheduler/solver/*.cc))
scheduler_src := $(wildcard scheduler/*.cc)
preload_src := $(wildcard preload/*.cc)
cli_src := $(wildcard src/cli/*.cc src/cli/*/*.cc)
test_src := $(wildcard tests/support/*.cc tests/*/*_test.cc)
# Of the commands, what unit tests call; tests/cli runs the others as they are built.
tested_cli_src := $(patsubst %,src/cli/%.cc,base/process $(addprefix trace/,heap_map pickled rehearsal snapshot snapshot_views snapshot_worth trace_reader unpickle) \
                   base/temporary run/elf_file run/loader report/report_assets compare/comparison compare/comparison_page)
# Sources without a second thread, which ThreadSanitizer has nothing to say of; the other sanitizers run them.
unit_test_src := $(wildcard tests/*/*_test.cc)
single_threaded := $(filter-out $(shell grep -l 'std::thread' $(unit_test_src) </dev/null),$(unit_test_src)) scheduler/% planner/solver/% \
                   $(tested_cli_src)
preload_program_src := $(wildcard tests/preload/programs/*.c tests/preload/programs/*.cc)
bench_src := $(wildcard bench/*.cc)
fuzz_src := $(wildcard tests/fuzz/*.cc)

# Files of a folder are compiled together: most of the time would go into reading the same headers again. Hot files stay
# apart in what is shipped, not for sanitizers and fuzzers. `APART=1`: every file by itself, for who changes one again
# and again.
left_out := $(if $(filter tsan,$(MODE)),$(single_threaded))
together := planner scheduler src/io src/learn \
            $(if $(filter asan ubsan tsan fuzz,$(MODE)),src/base src/trace src/follow src/serve src/engine) \
            $(addprefix tests/,base engine follow io learn planner scheduler serve trace)
$(foreach folder,$(together),$(eval in_$(folder) := \
    $(filter-out $(left_out),$(wildcard $(folder)/*$(if $(filter tests/%,$(folder)),_test).cc))))
in_src/cli/tested := $(if $(filter fuzz,$(MODE)),,$(tested_cli_src))
cli_groups := $(patsubst %/,%,$(wildcard src/cli/*/))
$(foreach group,$(cli_groups),$(eval in_$(group) := $(filter-out $(tested_cli_src),$(wildcard $(group)/*.cc))))
together += src/cli/tested $(cli_groups)
together := $(if $(APART),,$(foreach one,$(together),$(if $(in_$(one)),$(one))))
$(foreach one,$(together),$(foreach file,$(in_$(one)),$(eval together_$(file) := $(one))))
obj = $(sort $(foreach file,$(1),$(O)/$(if $(together_$(file)),together/$(together_$(file)),$(basename $(file))).o))
# What includes the files of each, written again where they are others now.
write_together = mkdir -p $(O)/together/$(dir $(1)); printf '\#include "%s"\n' $(in_$(1)) > $(O)/together/$(1).new; \
                 if cmp -s $(O)/together/$(1).new $(O)/together/$(1).cc; then rm $(O)/together/$(1).new; \
                 else mv $(O)/together/$(1).new $(O)/together/$(1).cc; fi;
$(shell $(foreach one,$(together),$(call write_together,$(one))))

hot_obj := $(call obj,$(hot_src) $(preload_src))
so_obj := $(call obj,$(hot_src) $(cold_src) $(planner_src) $(preload_src))
lib_src := $(hot_src) $(cold_src) $(planner_src) $(scheduler_src)
lib_obj := $(call obj,$(lib_src))
cli_obj := $(call obj,$(cli_src) $(solver_src)) $(lib_obj)
catch_main := $(if $(filter release debug asan ubsan tsan,$(MODE)),build,$(B))/tests/main.o
# The GPU's memory without torch's door, over a driver that is none.
gpu_tested_src := $(filter-out src/gpu/exports.cc src/gpu/torch_errors.cc,$(gpu_src)) tests/gpu/fake_driver.cc tests/gpu/replay.cc
test_obj := $(catch_main) $(call obj,$(filter-out $(left_out),$(test_src) $(gpu_tested_src) $(tested_cli_src) $(solver_src) $(lib_src)))
stress_obj := $(so_obj:$(O)/preload/%=$(O)/prefixed/preload/%) $(O)/prefixed/tests/preload/programs/random_programs.o
preload_programs := $(patsubst tests/preload/programs/%,$(B)/programs/%,$(basename $(preload_program_src)))
bench_programs := $(patsubst bench/%.cc,$(B)/bench/%,$(bench_src))

cold_libs := -lz $(if $(HAVE_CBC),-lCbcSolver -lCbc -lCgl -lOsiClp -lClpSolver -lClp -lOsi -lCoinUtils)

.PHONY: all lib cli dsa cuda programs fuzzers demo check test bench stress soak fuzz mutations cross cross-torch vm asan ubsan tsan lint format install uninstall deb clean help
.DELETE_ON_ERROR:

# The manual pages as well, so that `sudo make install` leaves nothing of root's here.
all: lib cli dsa cuda $(if $(filter release,$(MODE)),man) ## build/libmemomalloc.so, -cuda.so and -dsa.so, and build/memomalloc
lib: $(B)/libmemomalloc.so
dsa: $(B)/libmemomalloc-dsa.so
cuda: $(B)/libmemomalloc-cuda.so
cli: $(B)/memomalloc

# A change of flags rebuilds everything of its mode; warnings do not change what is built.
flags_now := $(CXX) $(filter-out $(WARN),$(COMMON)) $(HOT) $(HAVE_CBC)
$(shell mkdir -p $(O); printf '%s' '$(subst ','\'',$(flags_now))' | cmp -s - $(O)/.flags || printf '%s' '$(subst ','\'',$(flags_now))' > $(O)/.flags)

$(hot_obj): KIND := $(HOT)
# What the shared object calls itself is not what it shows: operators new and delete, and calls that change pages.
$(call obj,preload/own_operators.cc): KIND :=
own_names := $(patsubst %,-Wl$(comma)--wrap=%,mmap munmap mremap mprotect madvise mlock mlock2 prctl $(shell sed -n -E 's/^OPERATOR.(_Z[A-Za-z0-9_]*),.*/\1/p' preload/hooks.def))
# The commands are cold.
$(call obj,$(cli_src)): KIND := $(if $(filter release manylinux-%,$(MODE)),-O2)
# Tests are compiled for longer than they run: what the address sanitizer adds is twice as much when optimised, and Catch2's
# header, read once beforehand, would be a third of it.
unit_test_obj := $(call obj,$(filter-out tests/support/%,$(test_src)))
$(unit_test_obj) $(O)/catch.h.gch: KIND := $(catch3) $(if $(filter release aarch64,$(MODE)),-O1) $(if $(filter asan ubsan,$(MODE)),-O0) $(if $(HAVE_CBC),-DMEMO_HAVE_CBC=1)
# GCC 12 warns of strings that are put together (its bug 105651), most of all for AArch64.
no_string_warnings := -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict
$(unit_test_obj): KIND += -include $(O)/catch.h $(if $(filter aarch64,$(MODE)),$(no_string_warnings))
$(unit_test_obj): $(O)/catch.h.gch
$(O)/catch.h.gch: $(O)/.flags | $(catch_main)
	@echo '#include <catch2/catch.hpp>' > $(O)/catch.h
	$(if $(V),,@echo "  CXX  catch2")
	$(Q)$(CXX) $(COMMON) $(KIND) -x c++-header $(O)/catch.h -o $@
# Catch2's own code is not what is tested: all modes have one, no sanitizer looks at it, and nothing makes it fast.
$(catch_main): tests/main.cc
	$(if $(wildcard /usr/include/catch2),,$(error Catch2 is missing: ./scripts/install_deps.sh check installs what tests need))
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $<")
	$(Q)$(CXX) -std=c++20 -fPIC $(catch3) -c $< -o $@
$(call obj,$(solver_src)): KIND := -isystem /usr/include/coin -DMEMO_HAVE_CBC=1
$(O)/together/%.o: $(O)/together/%.cc $(O)/.flags
	$(if $(V),,@echo "  CXX  $*/*.cc")
	$(Q)$(CXX) $(COMMON) $(KIND) -MMD -MP -c $< -o $@
$(O)/%.o: %.cc $(O)/.flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $<")
	$(Q)$(CXX) $(COMMON) $(KIND) -MMD -MP -c $< -o $@
$(call obj,src/cli/report/report_assets.cc): $(wildcard src/cli/report/page/*)
-include $(shell find $(O) -name '*.d' 2>/dev/null)

# What leaves the library: the rows of hooks.def, and the C API.
$(O)/exports.map: preload/hooks.def
	@mkdir -p $(@D)
	$(Q){ echo '{ global: memomalloc_*;'; sed -n -E 's/^(HOOK|ENTRY|OPERATOR|PEER)\(([A-Za-z_0-9]*),.*/  \2;/p' $<; echo '  local: *; };'; } > $@
$(B)/libmemomalloc.so: $(so_obj) $(O)/exports.map
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) -shared -Wl,-soname,libmemomalloc.so.1 -Wl,--version-script=$(O)/exports.map -Wl,-z,defs -Wl,-z,now \
	    -Wl,-z,relro $(link_gnu) -Wl,-z,max-page-size=65536 -Wl,-z,nodelete -Wl,--gc-sections -static-libstdc++ -static-libgcc -pthread $(flags_$(MODE)) \
	    $(own_names) $(so_obj) -o $@

# The memory of GPUs, for torch: the engine's learning, without its memory and its hooks.
cuda_obj := $(call obj,$(gpu_src) $(hot_src) $(cold_src) $(planner_src))
$(B)/libmemomalloc-cuda.so: $(cuda_obj)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) -shared -Wl,-soname,libmemomalloc-cuda.so.1 -Wl,-z,defs -Wl,-z,now -Wl,-z,relro $(link_gnu) -Wl,--gc-sections \
	    -static-libstdc++ -static-libgcc -pthread $(flags_$(MODE)) $(cuda_obj) -ldl -o $@

# The planner alone, for C and Python.
dsa_obj := $(call obj,$(planner_src) $(wildcard planner/interface/*.cc))
$(B)/libmemomalloc-dsa.so: $(dsa_obj) planner/interface/dsa.map
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) -shared -Wl,-soname,libmemomalloc-dsa.so.1 -Wl,--version-script=planner/interface/dsa.map -Wl,-z,defs -Wl,-z,now \
	    $(link_gnu) -Wl,--gc-sections -static-libstdc++ -static-libgcc -pthread $(flags_$(MODE)) $(dsa_obj) -o $@
	$(Q)ln -sf $(@F) $@.1

$(B)/memomalloc: $(cli_obj)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) $(flags_$(MODE)) -Wl,-z,relro -Wl,-z,now -pthread $^ $(cold_libs) -o $@

$(B)/unit_tests: $(test_obj)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) $(flags_$(MODE)) -pthread $^ $(catch_libs) $(cold_libs) -o $@

# The same functions under names of their own, so that a sanitizer's malloc can be the underlying allocator.
$(O)/prefixed/%.o: %.cc $(O)/.flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX  $< (prefixed)")
	$(Q)$(CXX) $(COMMON) '-DMEMO_NAME(name)=memo_test_##name' -MMD -MP -c $< -o $@
$(B)/stress: $(stress_obj)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) $(flags_$(MODE)) -pthread $^ -ldl -o $@

# For MODE=tsan alone: what the sanitizer's run time would be told of each access is noted instead.
access_log := $(addprefix $(O)/prefixed/tests/stress/,shared_lines.o access_log.o)
$(access_log): private COMMON += -fno-sanitize=thread
$(B)/shared_lines: $(so_obj:$(O)/preload/%=$(O)/prefixed/preload/%) $(access_log)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) -no-pie -pthread $^ -ldl -o $@

# Its names are seen by all libraries, as those of a library of the program's are.
$(B)/programs/own_names: private SEEN := -rdynamic
$(B)/programs/%: tests/preload/programs/%.c $(wildcard tests/preload/programs/*.h)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu2x -O1 -g -Wall -Wextra -fno-builtin -pthread $(SEEN) $< -o $@ -ldl
$(B)/programs/%: tests/preload/programs/%.cc $(wildcard tests/preload/programs/*.h tests/stress/*.h)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++20 -O1 -g -Wall -Wextra -fno-builtin -pthread -I. -Iinclude $(KIND) $< -o $@ -ldl

# For MODE=fuzz alone. What a fuzzed engine maps is collected, and _exit comes back to the fuzzer.
fuzz_obj := $(call obj,$(hot_src) $(cold_src) $(planner_src))
$(B)/engine_fuzz: FUZZ := -Wl,--wrap=mmap -Wl,--wrap=munmap
$(B)/snapshot_fuzz: $(call obj,$(patsubst %,src/cli/trace/%.cc,heap_map pickled snapshot snapshot_views unpickle))
$(B)/options_fuzz: FUZZ := -Wl,--wrap=_exit
$(B)/%_fuzz: $(O)/tests/fuzz/%_fuzz.o $(fuzz_obj)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CXX) $(flags_$(MODE)) -fsanitize=fuzzer $(FUZZ) -pthread $^ -lz -o $@
fuzzers: $(patsubst tests/fuzz/%.cc,$(B)/%,$(fuzz_src))

$(B)/bench/%: $(O)/bench/%.o $(lib_obj) $(call obj,$(solver_src))
	@mkdir -p $(@D)
	$(Q)$(CXX) $(flags_$(MODE)) -pthread $^ $(cold_libs) -lbenchmark -o $@

# They need the C library alone, so that they run on machines with other packages: scripts/hardware/cores.sh.
$(B)/bench/contended $(B)/bench/small_blocks: $(B)/bench/%: bench/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu2x -O2 -Wall -Wextra -Wconversion -Wshadow -Werror -fno-builtin -pthread $< -o $@

# Stand-ins for torch's objects, which a program holds: one libc10 goes through malloc, one has an allocator of its own.
$(B)/fakes/libc10-%.so: tests/preload/fakes/c10.cc
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++20 -O1 -g -Wall -Wextra -fno-builtin -fPIC -shared -D$* -Wl,-soname,$(@F) $< -o $@
$(B)/fakes/libtensors-%.so: tests/preload/fakes/tensors.cc $(B)/fakes/libc10-%.so
	$(Q)$(CXX) -std=c++20 -O1 -g -Wall -Wextra -fPIC -shared -D$* -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' $^ -o $@
fakes := $(foreach kind,plain hidden flagless renamed,$(B)/fakes/libc10-$(kind).so $(B)/fakes/libtensors-$(kind).so)
$(B)/programs/c10_functions: private KIND := -DFAKES='"$(B)/fakes"'
$(B)/programs/c10_functions: $(fakes)
.SECONDARY: $(fakes)

# The CUDA driver that is none, and what calls the library as torch does.
$(B)/fakes/libcuda.so.1: tests/gpu/fake_driver.cc tests/gpu/fake_driver.h src/gpu/driver.h
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++20 -O1 -g -Wall -Wextra -fPIC -shared -I. -Wl,-soname,$(@F) $< -o $@
$(B)/fakes/door: tests/gpu/door.cc
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++20 -O1 -g -Wall -Wextra -pthread $< -o $@ -ldl

# -Bsymbolic: its mmap is its own, and not the one that the library before it shows.
$(B)/pages.so: tests/preload/pages.c tests/support/turn_names.h
	$(Q)$(CC) -std=gnu2x -O1 -g -Wall -Wextra -fPIC -I. -shared -Wl,-Bsymbolic $< -o $@ -ldl

# Its stubs are written for one processor; -z initfirst: before the constructor of the library; -z now: binding a function at
# its first call takes more of a small stack than there is.
$(B)/refuse.so: tests/refusal/refuse.c tests/support/turn_names.h
	$(Q)$(CC) -std=gnu2x -O1 -g -Wall -Wextra -mgeneral-regs-only -fPIC -I. -shared -Wl,-z,initfirst -Wl,-z,now $< -o $@

programs: $(preload_programs) $(B)/fakes/libcuda.so.1 $(B)/fakes/door $(B)/pages.so $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine)),$(B)/refuse.so)
demo: all ## the demonstration of scripts/demo.sh, without installing anything
	./scripts/demo.sh --no-install
check: ## everything that CI runs, without installing anything
	./scripts/check.sh --no-install
test: $(B)/unit_tests all programs ## unit, property and preload tests
	$(B)/unit_tests --rng-seed time
	python3 tests/preload/run.py --build $(B)
bench: all $(bench_programs) ## every benchmark; results as tables and CSV in build/bench
	$(B)/bench/planner_quality --csv $(B)/bench/planners.csv
	$(or $(wildcard .venv/bin/python),python3) bench/run.py
asan ubsan tsan: ## the unit tests under a sanitizer
	$(MAKE) MODE=$@ build/$@/unit_tests
	build/$@/unit_tests --rng-seed time
stress: ## random programs against the shim; SECONDS= and THREADS=
	tests/stress/stress.sh none $(or $(SECONDS),30) $(or $(THREADS),4)
soak: ## the long runs; SECONDS= (3600) of random programs and fuzzers, each other part once
	tests/stress/soak.sh $(or $(SECONDS),3600)
fuzz: ## every fuzzer for SECONDS= each (60)
	tests/fuzz/run.sh $(or $(SECONDS),60)
mutations: all ## breaks copies of the library, and sees the tests fail
	python3 tests/mutations/run.py
cross: ## aarch64: unit and conformance tests under qemu
	scripts/packages/cross.sh aarch64
cross-torch: ## aarch64: small networks of torch under qemu, without the library and with it
	scripts/packages/cross.sh aarch64 build
	python3 scripts/experiments/torch_aarch64.py
vm: lib programs ## Debian's kernels in QEMU: conformance tests on each; CELL=
	python3 tests/vm/run.py --only '$(CELL)'
lint: ## layers, tables, format, clang-tidy
	python3 scripts/gates/check_layers.py
	python3 scripts/gates/check_design.py
	./scripts/gates/lint.sh
format: ## reformat the tree
	git ls-files '*.h' '*.cc' '*.c' | xargs clang-format-19 -i
clean: ## remove build/
	rm -rf build
help: ## this list
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24
include packaging/install.mk
