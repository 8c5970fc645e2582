/*
 * Error text: what PAMI_Error_text hands out, cutting, and one text per thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "util/error.h"

static void text_is_kept(void **state)
{
    char text[64];

    (void)state;
    errno = EPERM;
    assert_int_equal(error_set(PAMI_INVAL, "PAMI_Send: dest: endpoint %u", 77u), PAMI_INVAL);
    assert_int_equal(errno, EPERM);
    assert_int_equal(PAMI_Error_text(text, sizeof text), strlen("PAMI_Send: dest: endpoint 77"));
    assert_string_equal(text, "PAMI_Send: dest: endpoint 77");
    assert_int_equal(error_set(PAMI_ERROR, "second"), PAMI_ERROR);
    assert_int_equal(PAMI_Error_text(text, sizeof text), 6);
    assert_string_equal(text, "second");
}

static void text_is_cut(void **state)
{
    char text[8], one[1] = {'x'}, untouched = 'x';
    char longest[2 * ERROR_TEXT_MAX], wide[2 * ERROR_TEXT_MAX];

    (void)state;
    error_set(PAMI_ERROR, "0123456789");
    assert_int_equal(PAMI_Error_text(text, sizeof text), 7);
    assert_string_equal(text, "0123456");
    assert_int_equal(PAMI_Error_text(one, 1), 0);
    assert_int_equal(one[0], '\0');
    assert_int_equal(PAMI_Error_text(&untouched, 0), 0);
    assert_int_equal(untouched, 'x');
    assert_int_equal(PAMI_Error_text(NULL, 10), 0);

    memset(wide, 'w', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    error_set(PAMI_ERROR, "%s", wide);
    assert_int_equal(PAMI_Error_text(longest, sizeof longest), ERROR_TEXT_MAX - 1);
}

static void *other_thread(void *cookie)
{
    char *text = cookie;

    PAMI_Error_text(text, 16);
    error_set(PAMI_ERROR, "other");
    return NULL;
}

static void threads_have_their_own(void **state)
{
    char theirs[16] = "unset", ours[16];
    pthread_t thread;

    (void)state;
    error_set(PAMI_ERROR, "ours");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, theirs), 0);
    pthread_join(thread, NULL);
    assert_string_equal(theirs, "");
    PAMI_Error_text(ours, sizeof ours);
    assert_string_equal(ours, "ours");
}

static void errno_maps_to_results(void **state)
{
    (void)state;
    assert_int_equal(error_from_errno(0), PAMI_SUCCESS);
    assert_int_equal(error_from_errno(-EAGAIN), PAMI_EAGAIN);
    assert_int_equal(error_from_errno(-ENOMEM), PAMI_ENOMEM);
    assert_int_equal(error_from_errno(-EINVAL), PAMI_INVAL);
    assert_int_equal(error_from_errno(-ENOSYS), PAMI_UNIMPL);
    assert_int_equal(error_from_errno(-EPERM), PAMI_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_kept),
        cmocka_unit_test(text_is_cut),
        cmocka_unit_test(threads_have_their_own),
        cmocka_unit_test(errno_maps_to_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
