/*
 * The devices of this build, cheapest first.
 */
#include "device/device.h"

extern const struct device_ops shm_device_ops;
extern const struct device_ops ofi_module_ops;

const struct device_ops *const device_table[] = {
    &shm_device_ops,
    &ofi_module_ops,
    NULL,
};
