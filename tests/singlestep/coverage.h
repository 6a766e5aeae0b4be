/* At which instructions a collection took place, by function. */
#ifndef COVERAGE_H
#define COVERAGE_H

#include "shared.h"

/* What happened while an instruction was the next one to run. */
enum event {
    STEPPED,   /* it was reached */
    STOPPED,   /* B stopped A there and collected */
    UNSTOPPED, /* B collected there without stopping A, which was in a blocking region */
    WAITED,    /* B waited for the lock that A held */
    EVENTS
};

/* Notes one event at an address. */
void note(enum event event, uintptr_t address);

/* How often it happened since `forget_counts`. */
unsigned long counted(enum event event);
void forget_counts(void);

/* At how many addresses of the function it happened, in all operations. */
unsigned places(enum event event, const char *function);

/* How many places of all operations in this function were reached, but saw neither a collection nor B waiting. */
unsigned uncovered(const char *function);

/* Prints a line for each function of the library that was stepped through. */
void print_coverage(void);

#endif
