import java.nio.file.Path;

/** What a run does: a thousandth or so, all buffers anew, and what it reads instead of Debian's files, or null. */
record Scale(boolean tiny, boolean wasteful, Path input, int workingSet) {
    /** A number of things: {@code full}, or {@code few} in a test. */
    int of(int full, int few) {
        return tiny ? few : full;
    }
}
