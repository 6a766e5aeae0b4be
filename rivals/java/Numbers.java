/** Random numbers that are the same everywhere, and sums of numbers and bytes. */
final class Numbers {
    /** The number of no bytes. */
    static final long NO_BYTES = 0xcbf29ce484222325L;

    private Numbers() {}

    /** The next state of a linear congruential generator (Knuth's multiplier). */
    static long next(long state) {
        return state * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
    }

    /** The random number of a state: its upper 31 bits. */
    static int of(long state) {
        return (int) (state >>> 33);
    }

    /** A number scattered over 64 bits (the finalizer of splitmix64), so that sums of them tell sets apart. */
    static long scattered(long number) {
        long mixed = number + 0x9e3779b97f4a7c15L;
        mixed = (mixed ^ mixed >>> 30) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94d049bb133111ebL;
        return mixed ^ mixed >>> 31;
    }

    /** One more number of a sequence, in which order does count. */
    static long chained(long sum, long number) {
        return sum * 31 + number;
    }

    /** The number of some bytes that follow those which a number was made of (FNV-1a). */
    static long hashOn(long hash, byte[] bytes, int length) {
        for (int i = 0; i < length; i++) {
            hash = (hash ^ bytes[i] & 0xff) * 0x100000001b3L;
        }
        return hash;
    }

    /** The number of some bytes. */
    static long hashOf(byte[] bytes) {
        return hashOn(NO_BYTES, bytes, bytes.length);
    }
}
