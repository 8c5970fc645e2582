#!/bin/sh
# doc.sh [MANUAL PAGE]...: renders the manual pages as text, and the table of options as Markdown,
# into $BUILD/doc.
set -eu

build=${BUILD:-build}
out=$build/doc
mkdir -p "$out"

for page in "$@"; do
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W error "$page"
        mandoc -T utf8 "$page" | col -bx >"$out/$(basename "$page").txt"
    elif command -v man >/dev/null; then
        man -l -P cat "$page" 2>/dev/null | col -bx >"$out/$(basename "$page").txt"
    else
        cp "$page" "$out/"
    fi
done

# Adjacent strings of a row are joined by the compiler, so let it read the table.
cat >"$out/options.c" <<'END'
#include "util/option_parse.h"

#include <stdio.h>

static const struct option_info rows[] = {
#define OPTION(id, name_, type_, value_, minimum_, maximum_, unit_, description_)                  \
    {.name = name_, .type = OPTION_##type_, .value = value_, .minimum = minimum_,                  \
     .maximum = maximum_, .unit = unit_, .description = description_},
#include "util/options.def"
};

int main(void)
{
    puts("| option | default | values | what for |\n|---|---|---|---|");
    for (int id = 0; id < OPTION_COUNT; id++) {
        char range[256];

        printf("| `%s` | %s | ", rows[id].name, rows[id].value);
        for (const char *c = option_range_format(&rows[id], range, sizeof range); *c != '\0'; c++)
            *c == '|' ? printf(", ") : putchar(*c);
        printf(" | %s |\n", rows[id].description);
    }
    return 0;
}
END
${CC:-gcc} -D_GNU_SOURCE -Isrc -o "$out/options" "$out/options.c" src/util/option_parse.c -lm
"$out/options" >"$out/options.md"
rm -f "$out/options" "$out/options.c"
echo "$out"
