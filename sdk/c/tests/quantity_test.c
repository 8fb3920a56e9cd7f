// Quantities of resources.

#include "windlass_test.h"

typedef struct amount {
    const char *text;
    int64_t milli;
} amount;

WINDLASS_TEST(a_quantity_is_an_amount_in_thousandths) {
    static const amount amounts[] = {
        {"0", 0}, {"500m", 500}, {"0.1", 100}, {"2", 2000}, {"1.5Gi", 1610612736000}, {"2k", 2000000}, {"1e3", 1000000},
        {"12E-1", 1200}, {"-1.5", -1500}, {"+1", 1000}, {"100u", 1}, {"-100u", -1}, {"1n", 1}, {"5.", 5000}, {".5", 500},
        {"1Ki", 1024000},
    };
    for (size_t index = 0; index < sizeof amounts / sizeof *amounts; index += 1) {
        int64_t milli = -7;
        WINDLASS_CHECK(windlass_quantity(windlass_text(amounts[index].text), &milli));
        WINDLASS_CHECK(milli == amounts[index].milli);
    }
}

WINDLASS_TEST(invalid_and_too_large_quantities_are_refused) {
    static const char *const texts[] = {"", ".", "-", "1.2.3", "1K", "1kb", "1 Gi", "1 ", "Gi", "1e", "1e+", "1e999", "0x1", "NaN", "8E", "99999999999999999999999999999999999999999"};
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index += 1) {
        int64_t milli = -7;
        WINDLASS_CHECK(!windlass_quantity(windlass_text(texts[index]), &milli));
        WINDLASS_CHECK(milli == -7);
    }
}
