/*
 * What the layers in front of libfabric have in common, which are put there by LD_PRELOAD.
 *
 * The tables of functions of what the provider below hands out are replaced by copies with the
 * layer's functions in them. Objects are known by their pointers.
 */
#ifndef LIBPAMI_TEST_LIB_FABRIC_H
#define LIBPAMI_TEST_LIB_FABRIC_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#define EXPORT __attribute__((visibility("default")))
/* Objects of a kind that a process may make. */
#define OBJECTS 64

/* What the provider below has, and what the program gets; set once, under the lock. */
static struct {
    struct fi_ops_fabric *fabric;
    struct fi_ops_domain *domain;
    struct fi_ops_mr *mr;
    struct fi_ops_msg *msg;
    struct fi_ops_rma *rma;
    struct fi_ops_cq *cq;
    struct fi_ops_av *av;
    struct fi_ops_cm *cm;
    struct fi_ops *ep;
    struct fi_ops_ep *options;
} real;
static struct {
    struct fi_ops_fabric fabric;
    struct fi_ops_domain domain;
    struct fi_ops_mr mr;
    struct fi_ops_msg msg;
    struct fi_ops_rma rma;
    struct fi_ops_cq cq;
    struct fi_ops_av av;
    struct fi_ops_cm cm;
    struct fi_ops ep;
    struct fi_ops_ep options;
} ours;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int inside; /* libfabric itself calls, for a provider below another */

static inline void wrong(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", __BASE_FILE__);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    abort();
}

/* `take` gets each word of a variable's list, and says whether it knows it. */
static inline void read_words(const char *variable, bool (*take)(const char *word))
{
    const char *wishes = getenv(variable);
    char text[256], *rest = NULL;

    snprintf(text, sizeof text, "%s", wishes != NULL ? wishes : "");
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        if (!take(word))
            wrong("%s: what is '%s'?", variable, word);
}

/* The file that a variable names, for what a process has seen; NULL: there is none. */
static inline FILE *open_log(const char *variable)
{
    const char *path = getenv(variable);

    return path != NULL ? fopen(path, "a") : NULL;
}

/* An object's place among those of its kind; `note`: it is new, and takes its predecessor's place
 * if its pointer was there before. */
static inline unsigned place_of(const void **known, const void *object, bool note)
{
    unsigned place = 0;

    pthread_mutex_lock(&lock);
    while (place < OBJECTS && known[place] != object && !(note && known[place] == NULL))
        place++;
    if (place == OBJECTS)
        wrong(note ? "too many objects of a kind" : "an object that nobody has opened");
    known[place] = object;
    pthread_mutex_unlock(&lock);
    return place;
}

static inline void *real_function(const char *name)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *function = library != NULL ? dlsym(library, name) : NULL;

    if (function == NULL)
        wrong("no %s", name);
    return function;
}

/* fi_fabric, whose domains are opened by `domain` but for those that libfabric makes for itself. */
static inline int
open_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context,
            int (*domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *))
{
    int (*open)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    int error;

    *(void **)&open = real_function("fi_fabric");
    inside++;
    error = open(attributes, fabric, context);
    inside--;
    if (error != 0 || inside != 0)
        return error;
    pthread_mutex_lock(&lock);
    if (real.fabric == NULL) {
        real.fabric = (*fabric)->ops;
        ours.fabric = *real.fabric;
        ours.fabric.domain = domain;
    }
    pthread_mutex_unlock(&lock);
    (*fabric)->ops = &ours.fabric;
    return 0;
}

static inline int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                           const struct fi_info *hints, struct fi_info **list)
{
    int (*get)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
               struct fi_info **);
    int error;

    *(void **)&get = real_function("fi_getinfo");
    inside++;
    error = get(version, node, service, flags, hints, list);
    inside--;
    return error;
}

#endif
