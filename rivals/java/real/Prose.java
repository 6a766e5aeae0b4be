/** Text out of a seed: words of a vocabulary in which few are frequent and most are rare. */
final class Prose {
    private static final String[] SYLLABLES = {
        "ba", "co", "di", "fe", "gu", "ha", "jo", "ki", "le", "mu", "na", "po", "ri", "se", "tu", "wa"
    };
    private static final int VOCABULARY = 1 << 14;

    private long random;

    Prose(long seed) {
        random = seed;
    }

    /** From 0 to below a bound. */
    int below(int bound) {
        random = Numbers.next(random);
        return Numbers.of(random) % bound;
    }

    /** A word; of each half of the vocabulary the first half is drawn as often as the rest of it. */
    String word() {
        int size = VOCABULARY;
        while (size > SYLLABLES.length && below(3) > 0) {
            size /= 2;
        }
        return word(below(size));
    }

    /** The word of a number. */
    static String word(int number) {
        StringBuilder word = new StringBuilder();
        int rest = number + SYLLABLES.length;
        while (rest > 0) {
            word.append(SYLLABLES[rest % SYLLABLES.length]);
            rest /= SYLLABLES.length;
        }
        return word.toString();
    }

    /** A text of {@code count} words. */
    String words(int count) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < count; i++) {
            text.append(word()).append(i % 12 == 11 ? ". " : " ");
        }
        return text.toString();
    }
}
