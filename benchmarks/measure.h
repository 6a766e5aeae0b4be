/*
 * What a benchmark reports about itself: one line of JSON at the end of its
 * standard output.  The same binary reports on whichever libgc it was loaded
 * with, so the numbers come from the public interface and from the kernel.
 *
 * The work is done once, or as often as the environment variable ITERATIONS
 * says: then the line has a list "iterations", in the order of time, the first
 * of which finds a new heap and the later ones a settled one.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

/* Initialises the collector and starts the clocks. */
void measure_start(void);

/* One iteration of a benchmark at a scale.  The result must depend on the
   scale alone, never on when collections happened or which iteration it is:
   it is what two libraries are compared by. */
typedef uint64_t measured_work(const void *scale);

/* Does the work and prints the line. */
void measure(const char *benchmark, measured_work *work, const void *scale);

/* The `index`-th argument as a number between `low` and `high`, or `fallback`
   when there are fewer arguments; anything else ends the program. */
unsigned long scale_argument(int argc, char **argv, int index,
                             unsigned long fallback, unsigned long low,
                             unsigned long high);

/* Ends the program when a retained structure is not as it was built. */
void require(int condition, const char *what);

/* One step of a fixed pseudo-random sequence (splitmix64). */
uint64_t next_random(uint64_t *state);

#endif
