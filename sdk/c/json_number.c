// JSON numbers are stored as their digits. This file converts them to numbers of C and back.

#include <math.h>
#include <stdlib.h>

#include "windlass_internal.h"

bool windlass_json_read_uint(const windlass_json *value, uint64_t *number) {
    if (!windlass_json_is(value, WINDLASS_JSON_NUMBER)) {
        return false;
    }
    *number = 0;
    for (size_t i = 0; i < value->text.length; i++) {
        unsigned digit = (unsigned)(value->text.data[i] - '0');
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
    }
    return true;
}

bool windlass_json_read_int(const windlass_json *value, int64_t *number) {
    if (!windlass_json_is(value, WINDLASS_JSON_NUMBER)) {
        return false;
    }
    bool is_negative = value->text.data[0] == '-';
    windlass_json digits = *value;
    digits.text.data += is_negative;
    digits.text.length -= is_negative;
    uint64_t amount;
    if (!windlass_json_read_uint(&digits, &amount) || amount > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *number = is_negative ? (int64_t)(0 - amount) : (int64_t)amount;
    return true;
}

bool windlass_json_read_double(const windlass_json *value, double *number) {
    if (!windlass_json_is(value, WINDLASS_JSON_NUMBER)) {
        return false;
    }
    *number = strtod(value->text.data, NULL);
    return isfinite(*number);
}

static windlass_json *number_of(const char *digits) {
    windlass_json *value = windlass_null();
    value->type = WINDLASS_JSON_NUMBER;
    value->text = windlass_text_of(digits);
    return value;
}

windlass_json *windlass_int(int64_t number) {
    return number_of(windlass_decimal(number));
}

windlass_json *windlass_uint(uint64_t number) {
    if (number <= INT64_MAX) {
        return windlass_int((int64_t)number);
    }
    const char *last = windlass_decimal((int64_t)(number % 10));
    return number_of(windlass_concat(windlass_decimal((int64_t)(number / 10)), last));
}

windlass_json *windlass_number(windlass_text digits) {
    windlass_json *value = windlass_json_parse(digits, NULL);
    return windlass_json_is(value, WINDLASS_JSON_NUMBER) && value->text.length == digits.length ? value : windlass_null();
}

// --- From a double ---

// A number in decimals: 0.d1d2d3… × 10^exponent.
typedef struct decimal {
    char digits[20];
    int count;
    int exponent;
} decimal;

static decimal decimal_of(uint64_t number, int scale) {
    const char *digits = windlass_decimal((int64_t)number);
    decimal result = {.count = (int)strlen(digits)};
    memcpy(result.digits, digits, (size_t)result.count);
    result.exponent = result.count + scale;
    while (result.count > 1 && result.digits[result.count - 1] == '0') {
        result.count--;
    }
    return result;
}

// Finds a form with at most 15 digits: a whole number which, divided by a power of ten, gives the number again. Both
// are exact as doubles and the quotient is rounded correctly, so every reader of the text gets the same number.
static bool short_decimal(double number, decimal *result) {
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    for (int scale = 0; scale <= 15; scale++) {
        double scaled = number * power[scale];
        if (scaled >= 1e15) {
            return false;
        }
        double whole = floor(scaled + 0.5);
        if (whole >= 1 && whole / power[scale] == number) {
            *result = decimal_of((uint64_t)whole, -scale);
            return true;
        }
    }
    return false;
}

enum { LIMBS = 128, LIMB = 1000000000 };

// Multiplies a number of many digits. Each limb holds nine decimal digits, the lowest first.
static void multiply(uint32_t *limbs, int *count, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < *count; i++) {
        carry += (uint64_t)limbs[i] * factor;
        limbs[i] = (uint32_t)(carry % LIMB);
        carry /= LIMB;
    }
    if (carry > 0) {
        limbs[(*count)++] = (uint32_t)carry;
    }
}

// A form with 17 digits, which are enough to identify any double.
static decimal long_decimal(double number) {
    int exponent;
    uint64_t mantissa = (uint64_t)ldexp(frexp(number, &exponent), 53);
    exponent -= 53;
    uint32_t limbs[LIMBS] = {(uint32_t)(mantissa % LIMB), (uint32_t)(mantissa / LIMB % LIMB), 0};
    int count = 2;
    // m × 2^-e is m × 5^e × 10^-e.
    for (int i = 0; i < exponent; i++) {
        multiply(limbs, &count, 2);
    }
    for (int i = 0; i < -exponent; i++) {
        multiply(limbs, &count, 5);
    }
    while (limbs[count - 1] == 0) {
        count--;
    }
    char digits[LIMBS * 9 + 1];
    int length = 0;
    for (int i = count - 1; i >= 0; i--) {
        for (uint32_t unit = LIMB / 10, rest = limbs[i]; unit > 0; rest %= unit, unit /= 10) {
            char digit = (char)('0' + rest / unit);
            if (length > 0 || digit != '0') {
                digits[length++] = digit;
            }
        }
    }
    int kept = length < 17 ? length : 17;
    uint64_t leading = 0;
    for (int i = 0; i < kept; i++) {
        leading = leading * 10 + (uint64_t)(digits[i] - '0');
    }
    leading += length > kept && digits[kept] >= '5';
    return decimal_of(leading, length - kept + (exponent < 0 ? exponent : 0));
}

// Writes a number as JavaScript does: with an exponent only if it is very large or very small.
static void put_decimal(windlass_buffer *out, const decimal *number) {
    int point = number->exponent;
    if (point > 21 || point < -5) {
        windlass_buffer_add(out, number->digits, 1);
        if (number->count > 1) {
            windlass_buffer_add_byte(out, '.');
            windlass_buffer_add(out, number->digits + 1, (size_t)number->count - 1);
        }
        windlass_buffer_add_byte(out, 'e');
        windlass_buffer_add_text(out, windlass_text_of(windlass_decimal(point - 1)));
        return;
    }
    if (point <= 0) {
        windlass_buffer_add(out, "0.00000", (size_t)(2 - point));
    }
    for (int i = 0; i < number->count || i < point; i++) {
        if (i == point && i > 0) {
            windlass_buffer_add_byte(out, '.');
        }
        windlass_buffer_add_byte(out, i < number->count ? number->digits[i] : '0');
    }
}

windlass_json *windlass_double(double number) {
    if (!isfinite(number)) {
        windlass_panic_at(__FILE__, __LINE__, __func__, "JSON cannot represent infinity or NaN: check the number with isfinite before windlass_double");
    }
    windlass_buffer out = {0};
    if (signbit(number)) {
        windlass_buffer_add_byte(&out, '-');
        number = -number;
    }
    decimal digits = {.digits = "0", .count = 1, .exponent = 1};
    if (number != 0 && !short_decimal(number, &digits)) {
        digits = long_decimal(number);
    }
    put_decimal(&out, &digits);
    return number_of(windlass_buffer_text(&out).data);
}

// --- Comparing ---

typedef struct parts {
    bool is_negative;
    // The digits, without zeros at the beginning and at the end. There may be a point among them.
    const char *from;
    const char *to;
    // The exponent that applies if the point is put in front of the first digit.
    int64_t exponent;
} parts;

static parts parts_of(windlass_text text) {
    const char *at = text.data;
    const char *end = text.data + text.length;
    parts result = {.is_negative = *at == '-'};
    at += result.is_negative;
    const char *mark = at;
    while (mark < end && (*mark | 0x20) != 'e') {
        mark++;
    }
    const char *point = memchr(at, '.', (size_t)(mark - at));
    int64_t before_point = (point ? point : mark) - at;
    int64_t shift = 0;
    for (const char *digit = mark + 1; digit < end && shift < INT32_MAX; digit++) {
        shift = *digit >= '0' && *digit <= '9' ? shift * 10 + (*digit - '0') : shift;
    }
    result.exponent = before_point + (mark + 1 < end && mark[1] == '-' ? -shift : shift);
    while (at < mark && (*at == '0' || *at == '.')) {
        result.exponent -= *at == '0';
        at++;
    }
    // Zeros at the end do not count, because only the digits and the exponent are compared.
    while (mark > at && (mark[-1] == '0' || mark[-1] == '.')) {
        mark--;
    }
    result.from = at;
    result.to = mark;
    return result;
}

bool windlass_number_equal(windlass_text one, windlass_text other) {
    if (windlass_text_equal(one, other)) {
        return true;
    }
    parts a = parts_of(one);
    parts b = parts_of(other);
    bool is_zero = a.from == a.to;
    if (is_zero || b.from == b.to) {
        return is_zero && b.from == b.to;
    }
    while (a.from < a.to || b.from < b.to) {
        a.from += a.from < a.to && *a.from == '.';
        b.from += b.from < b.to && *b.from == '.';
        if (a.from == a.to || b.from == b.to || *a.from++ != *b.from++) {
            return false;
        }
    }
    return a.is_negative == b.is_negative && a.exponent == b.exponent;
}
