/**
 * What one thread writes all the time, and no other does: 128 bytes before its fields keep them out of the cache lines
 * of another thread's, wherever the collector puts both.
 */
abstract class Apart {
    long a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15;
}
