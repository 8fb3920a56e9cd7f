// Quantities of resources, such as `500m` and `1.5Gi`.

#include "windlass_internal.h"

// Wide enough for every intermediate amount. C11 lacks this type, but every compiler that builds components has it.
__extension__ typedef unsigned __int128 wide;

// The most characters of a quantity.
enum { LONGEST = 64 };

static bool is_digit(char it) {
    return it >= '0' && it <= '9';
}

// Reads a suffix as its power of ten, or of 1,024.
static bool read_suffix(const char *at, size_t length, int *power, bool *is_binary) {
    static const char decimal[] = "num kMGTPE";
    static const char binary[] = "KMGTPE";
    *is_binary = length == 2 && at[1] == 'i';
    if (length == 0) {
        *power = 0;
        return true;
    }
    if (*is_binary) {
        const char *found = memchr(binary, at[0], sizeof binary - 1);
        *power = found == NULL ? 0 : (int)(found - binary) + 1;
        return found != NULL;
    }
    if (length == 1) {
        const char *found = at[0] == ' ' ? NULL : memchr(decimal, at[0], sizeof decimal - 1);
        *power = found == NULL ? 0 : 3 * ((int)(found - decimal) - 3);
        return found != NULL;
    }
    // An exponent: `e3`, `E-3`.
    bool is_negative = at[1] == '-';
    size_t digits = 1 + (size_t)(is_negative || at[1] == '+');
    if ((at[0] != 'e' && at[0] != 'E') || digits == length || length - digits > 2) {
        return false;
    }
    *power = 0;
    for (size_t index = digits; index < length; index += 1) {
        if (!is_digit(at[index])) {
            return false;
        }
        *power = 10 * *power + (at[index] - '0');
    }
    *power = is_negative ? -*power : *power;
    return true;
}

// Multiplies the amount by a power of the base. A negative power divides, and rounds up. Returns false if the result is
// too large.
static bool scale(wide *amount, unsigned base, int power) {
    for (; power > 0; power -= 1) {
        if (__builtin_mul_overflow(*amount, base, amount)) {
            return false;
        }
    }
    bool is_rounded = false;
    for (; power < 0; power += 1) {
        is_rounded = is_rounded || *amount % base != 0;
        *amount /= base;
    }
    *amount += is_rounded;
    return true;
}

bool windlass_quantity(windlass_text text, int64_t *milli) {
    const char *at = text.data, *end = at + text.length;
    if (text.length == 0 || text.length > LONGEST) {
        return false;
    }
    bool is_negative = *at == '-';
    at += is_negative || *at == '+';
    wide amount = 0;
    int digits = 0, fraction = -1;
    for (; at < end && (is_digit(*at) || (*at == '.' && fraction < 0)); at += 1) {
        if (*at == '.') {
            fraction = 0;
            continue;
        }
        digits += 1;
        fraction += fraction >= 0;
        if (!scale(&amount, 10, 1) || __builtin_add_overflow(amount, (unsigned)(*at - '0'), &amount)) {
            return false;
        }
    }
    int power;
    bool is_binary;
    if (digits == 0 || !read_suffix(at, (size_t)(end - at), &power, &is_binary)) {
        return false;
    }
    int decimal = 3 - (fraction > 0 ? fraction : 0) + (is_binary ? 0 : power);
    if ((is_binary && !scale(&amount, 1024, power)) || !scale(&amount, 10, decimal) || amount > INT64_MAX) {
        return false;
    }
    *milli = is_negative ? -(int64_t)amount : (int64_t)amount;
    return true;
}
