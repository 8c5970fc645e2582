/*
 * How this program is linked: see linkage.h. Programs that have shared libraries name the dynamic
 * linker, also when they were started by naming that.
 */
#include "util/linkage.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

/* Called for the program first. */
static int names_linker(struct dl_phdr_info *info, size_t size, void *cookie)
{
    bool *named = cookie;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_INTERP)
            *named = true;
    }
    return 1;
}

bool linkage_opens_libraries(void)
{
    bool named = false;

    dl_iterate_phdr(names_linker, &named);
    return named;
}
