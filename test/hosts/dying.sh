#!/bin/bash
# A task dies in every way, over the ofi device on the loopback interface.
#
# Run: timeout=1200
exec bash "$(dirname "$0")/../net/dying.sh" all
