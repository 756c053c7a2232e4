/*
 * The admission rules: whatever the operations, the state machine and a naive reading of SPEC start
 * and answer the same jobs in the same order, and every counter equals its recount
 * (tests/unit/admission_duel.h). The bytes choose the configuration, then an operation each.
 */
#include "admission_duel.h"

/* More would only make the naive side slow: what it finds, it finds with few. */
#define STEPS_MAX 1500u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct duel duel;
    struct duel_choice choice = {.from_bytes = true, .bytes = data + 1, .left = size - 1};

    if (size < 2)
        return 0;
    duel_begin(&duel, &choice, (data[0] & 1) != 0);
    for (unsigned steps = 0; steps < STEPS_MAX && duel_step(&duel); steps++)
        ;
    duel_end(&duel);
    return 0;
}
