/*
 * What has happened in a run, for the record of one that fails.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum {
    NOTES_MOST = 2000 /* the latest ones */
};

struct note {
    int thread;
    const char *what;
    const void *address, *pc;
    uint64_t value;
};

static struct note notes[NOTES_MOST];
static uint64_t note_count;

void engine_forget_notes(void)
{
    note_count = 0;
}

void engine_note(const char *what, const void *address, uint64_t value, const void *pc)
{
    notes[note_count++ % NOTES_MOST] = (struct note){
        .thread = engine_self, .what = what, .address = address, .pc = pc, .value = value};
}

static void ask_for_place(const void *pc, char *text, size_t size)
{
    extern const char __executable_start[];
    char command[100];
    FILE *pipe;

    snprintf(command, sizeof(command), "addr2line -e /proc/%d/exe %#lx 2>/dev/null", (int)getpid(),
             (unsigned long)((const char *)pc - __executable_start - 1));
    pipe = popen(command, "r");
    if (pipe == NULL || fgets(text, (int)size, pipe) == NULL)
        snprintf(text, size, "%p", pc);
    if (pipe != NULL)
        pclose(pipe);
    text[strcspn(text, " \n")] = '\0';
}

const char *engine_place(const void *pc)
{
    static struct {
        const void *pc;
        char text[200];
    } known[256];
    size_t at = memory_hash(pc) % 256;
    char *slash;

    if (known[at].pc != pc)
        ask_for_place(pc, known[at].text, sizeof(known[at].text));
    known[at].pc = pc;
    slash = strstr(known[at].text, "src/");
    return slash != NULL ? slash : known[at].text;
}

void engine_show_run(void)
{
    uint64_t first = note_count > NOTES_MOST ? note_count - NOTES_MOST : 0;

    for (uint64_t i = first; i < note_count; i++) {
        const struct note *note = &notes[i % NOTES_MOST];

        if (!memory_is_shared(note->address))
            continue;
        printf("  %*s%d %-12s %14p %#18llx  %s\n", 2 * note->thread, "", note->thread, note->what,
               note->address, (unsigned long long)note->value,
               note->pc != NULL ? engine_place(note->pc) : "");
    }
}
