#!/bin/bash
# Installs into a temporary directory; compiles and runs a program against what was installed in
# every way that programs are linked; removes the installation and finds nothing left.
# Run: timeout=120
# shellcheck disable=SC2086 # a compiler may have arguments
set -eu

if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: a library built with sanitizers is not meant to be installed"
    exit 77
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
CC=${CC:-gcc}
CXX=${CXX:-g++}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=/opt/pami
there=$work/root$prefix
unset MAKEFLAGS MFLAGS MAKELEVEL

make_here()
{
    make -s -C "$top" BUILD="$BUILD" DESTDIR="$work/root" prefix="$prefix" \
        libdir="$prefix/lib/multi" "$@"
}

fail()
{
    echo "FAILED: $*"
    exit 1
}

(umask 077 && make_here install-files)
libdir=$there/lib/multi
for file in include/pami.h include/pami/pami.h include/pami/pami_sys.h include/pami/pamix.h \
    lib/multi/libpami.so lib/multi/libpami.so.0 lib/multi/libpami.a lib/multi/pkgconfig/pami.pc \
    bin/pamirun share/doc/libpami/README.md; do
    [ -f "$there/$file" ] || fail "$file was not installed"
done
closed=$(find "$work/root" ! -type l ! -perm -444)
[ -z "$closed" ] || fail "not for everybody to read: $closed"
[ ! -e "$libdir/libpami-private.a" ] || fail "libpami-private.a was installed"
grep -rl "$top\|$work" "$libdir/pkgconfig" && fail "pami.pc contains paths of the build"

# Documents name others by where they lie, and examples are there to be compiled.
documents=$there/share/doc/libpami
for file in "$documents"/{,doc/,examples/}*.md; do
    for link in $(grep -oE '\]\([^)#:]+' "$file" | cut -c3-); do
        [ -e "${file%/*}/$link" ] || fail "$file names $link, which was not installed"
    done
done

# A program with functions of its own under names that the library uses inside.
cat >"$work/program.c" <<'END'
#include <pami.h>
#include <stdio.h>
#include <string.h>

static int calls;

int option_init(void);
int log_write(void);
int pool_grow(void);

int option_init(void)
{
    return ++calls;
}

int log_write(void)
{
    return ++calls;
}

int pool_grow(void)
{
    return ++calls;
}

/* Constants have their values before main runs. */
static pami_type_t *const type = &PAMI_TYPE_DOUBLE;

int main(void)
{
    pami_client_t client;
    pami_configuration_t query = {.name = PAMI_CLIENT_NUM_TASKS};

    if (*type == NULL || *type != PAMI_TYPE_DOUBLE)
        return 2;
    if (PAMI_Client_create("install", &client, NULL, 0) != PAMI_SUCCESS)
        return 3;
    if (PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS || query.value.intval != 1)
        return 4;
    if (PAMI_Client_destroy(&client) != PAMI_SUCCESS)
        return 5;
    return calls == 0 ? 0 : 6;
}
END
sed -e 's/= {.name = PAMI_CLIENT_NUM_TASKS}//' \
    -e 's/^    if (\*type/    query.name = PAMI_CLIENT_NUM_TASKS;\n&/' \
    "$work/program.c" >"$work/program.cc"

export PKG_CONFIG_PATH="$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/root"
read -r -a cflags < <("$PKG_CONFIG" --cflags pami)
read -r -a libs < <("$PKG_CONFIG" --libs pami)
read -r -a hwloc < <(PKG_CONFIG_SYSROOT_DIR='' "$PKG_CONFIG" --libs hwloc)
static=("$libdir/libpami.a" "${hwloc[@]}" -pthread -lm -ldl -lrt)
[ "$("$PKG_CONFIG" --modversion pami)" = "$(sed -n 's/^VERSION *:= *//p' "$top/Makefile")" ] ||
    fail "pami.pc has another version than the Makefile"

# build_and_run NAME COMPILER ARGUMENT...
build_and_run()
{
    local name=$1
    shift
    echo "$name: $*"
    "$@" -Wall -Werror -O1 -o "$work/$name" || fail "$name does not link"
    LD_LIBRARY_PATH=$libdir "$work/$name" || fail "$name ended with status $?"
}

build_and_run example $CC "${cflags[@]}" "$documents/examples/hello.c" "${libs[@]}"
program=("${cflags[@]}" "$work/program.c")
build_and_run shared $CC "${program[@]}" "${libs[@]}"
build_and_run shared_debian $CC -fPIE -pie -Wl,--as-needed -Wl,-z,relro -Wl,-z,now \
    "${program[@]}" "${libs[@]}"
# Data symbols of the library end up in the program by copy relocation here.
build_and_run shared_no_pie $CC -fno-pie -no-pie "${program[@]}" "${libs[@]}"
build_and_run shared_cxx $CXX "${cflags[@]}" "$work/program.cc" "${libs[@]}"
build_and_run static_pie_default $CC -fPIE -pie "${program[@]}" "${static[@]}"
build_and_run static_no_pie $CC -fno-pie -no-pie "${program[@]}" "${static[@]}"
build_and_run static_cxx $CXX "${cflags[@]}" "$work/program.cc" "${static[@]}"

for name in shared shared_debian shared_no_pie shared_cxx; do
    LD_LIBRARY_PATH=$libdir ldd "$work/$name" >"$work/ldd"
    grep -q "libpami.so.0 => $libdir/libpami.so.0" "$work/ldd" ||
        fail "$name does not use the installed library: $(cat "$work/ldd")"
    grep 'not found' "$work/ldd" && fail "$name lacks a library"
done
ldd "$work/static_no_pie" | grep libpami && fail "libpami.a did not serve"

# Without any shared library, where hwloc allows that.
echo '#include <hwloc.h>
int main(void) { hwloc_topology_t t; return hwloc_topology_init(&t); }' >"$work/hwloc.c"
read -r -a everything < <(PKG_CONFIG_SYSROOT_DIR='' "$PKG_CONFIG" --static --libs hwloc)
for way in -static -static-pie; do
    if $CC "$way" -fPIE "$work/hwloc.c" "${everything[@]}" -o "$work/hwloc" 2>/dev/null; then
        build_and_run "all$way" $CC "$way" -fPIE "${program[@]}" "${static[@]}" "${everything[@]}"
    else
        echo "all$way: not tried, as hwloc alone does not link that way here"
    fi
done

# An hwloc that pkg-config does not know is named by its libraries.
make_here install-files DESTDIR="$work/other" HWLOC_LIBS='-L/opt/hwloc/lib -lhwloc'
for question in '--cflags' '--libs --static'; do
    # shellcheck disable=SC2086
    answer=$(PKG_CONFIG_LIBDIR=$work/other$prefix/lib/multi/pkgconfig PKG_CONFIG_PATH='' \
        PKG_CONFIG_SYSROOT_DIR='' \
        "$PKG_CONFIG" $question pami) || fail "pkg-config $question, without a package of hwloc"
done
[[ $answer == *'-L/opt/hwloc/lib -lhwloc -pthread'* ]] || fail "libraries to link with: $answer"

# A program with the library in it, wherever it is, finds the network module where that is
# installed: in the directory that the build was told.
if [ -e "$libdir/pami-ofi.so" ]; then
    make_here BUILD="$work/build" libdir="$libdir" "$work/build/obj/src/device/module.o"
    build_and_run module $CC "${cflags[@]}" "$top/examples/hello.c" \
        "$work/build/obj/src/device/module.o" "$BUILD/lib/libpami-private.a" \
        "${hwloc[@]}" -pthread -lm -ldl -lrt
    PAMI_NETWORK=ofi PAMI_LOG=debug "$BUILD/bin/pamirun" -n 2 --nodes 2 "$work/module" \
        2>"$work/log" || fail "the program with the library in it ended with status $?"
    grep -q "module ofi: $libdir/pami-ofi.so" "$work/log" ||
        fail "the module was not found: $(grep 'network device' "$work/log")"
fi

# A name with a blank in it would be taken for two.
make_here install-files DESTDIR="$work/blank" prefix='/opt/my pami' 2>"$work/log" &&
    fail "a name with a blank in it was taken"
grep -q "bindir is '/opt/my pami/bin'" "$work/log" && ! ls -d "$work"/blank* 2>/dev/null ||
    fail "a name with a blank in it: $(cat "$work/log")"

make_here uninstall
left=$(find "$work/root" ! -type d -o -path '*/pami' ! -path "*$prefix" -o -path '*/libpami')
[ -z "$left" ] || fail "left by uninstall: $left"
