/*
 * The devices of this build, cheapest first.
 */
#include "device/device.h"

extern const struct device_ops shm_device_ops;

const struct device_ops *const device_table[] = {
    &shm_device_ops,
    NULL,
};
