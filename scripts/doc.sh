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
#include <stdio.h>
int main(void)
{
    puts("| option | default | values | what for |\n|---|---|---|---|");
#define OPTION(id, name, type, value, minimum, maximum, unit, description)                         \
    {                                                                                              \
        const char *kind = #type, *words = unit;                                                   \
        printf("| `%s` | %s | ", name, value);                                                     \
        if (kind[0] == 'C')                                                                        \
            for (; *words != '\0'; words++)                                                        \
                *words == '|' ? printf(", ") : putchar(*words);                                    \
        else if (kind[0] == 'B' && kind[1] == 'O')                                                 \
            printf("yes, no");                                                                     \
        else if ((minimum) != (maximum))                                                           \
            printf("%s%.15g .. %.15g %s", kind[0] == 'P' ? "power of two, " : "", (double)(minimum),     \
                   (double)(maximum), unit);                                                       \
        else                                                                                       \
            printf("text");                                                                        \
        printf(" | %s |\n", description);                                                          \
    }
#include "util/options.def"
    return 0;
}
END
${CC:-gcc} -Isrc -o "$out/options" "$out/options.c"
"$out/options" >"$out/options.md"
rm -f "$out/options" "$out/options.c"
echo "$out"
