// The steps that both the composing and the reconciling probe support.
#include "../c/arguments.c"
#include "../c/common.c"
#include "../c/ends.c"
