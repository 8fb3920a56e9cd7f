// The C headers that the probe uses: the SDK's, and some of the C library.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <windlass.h>
