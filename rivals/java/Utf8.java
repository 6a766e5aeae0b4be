import java.util.Arrays;

/** A buffer of text in UTF-8, to which characters are appended. */
final class Utf8 {
    byte[] bytes = new byte[256];
    int length;
    /** Whether all of it is white space. */
    boolean blank = true;
    /** The first half of a character whose second half is still to come, or 0. */
    private char high;

    void clear() {
        length = 0;
        blank = true;
    }

    void append(char[] characters, int start, int count) {
        if (3 * count > bytes.length - length) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + 3 * count));
        }
        for (int i = start; i < start + count; i++) {
            append(characters[i]);
        }
    }

    void append(String text) {
        if (3 * text.length() > bytes.length - length) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + 3 * text.length()));
        }
        for (int i = 0; i < text.length(); i++) {
            append(text.charAt(i));
        }
    }

    /** There is room for three bytes. */
    private void append(char character) {
        if (character < 0x80) {
            blank &= character <= ' ';
            bytes[length++] = (byte) character;
        } else {
            blank &= Character.isSpaceChar(character) || character == 0x85;
            appendLong(character);
        }
    }

    private void appendLong(char character) {
        if (character < 0x800) {
            bytes[length++] = (byte) (0xc0 | character >> 6);
        } else if (Character.isHighSurrogate(character)) {
            high = character;
            return;
        } else if (Character.isLowSurrogate(character)) {
            int point = Character.toCodePoint(high, character);
            bytes[length++] = (byte) (0xf0 | point >> 18);
            bytes[length++] = (byte) (0x80 | point >> 12 & 0x3f);
            bytes[length++] = (byte) (0x80 | point >> 6 & 0x3f);
        } else {
            bytes[length++] = (byte) (0xe0 | character >> 12);
            bytes[length++] = (byte) (0x80 | character >> 6 & 0x3f);
        }
        bytes[length++] = (byte) (0x80 | character & 0x3f);
    }

    /** A string of it. */
    byte[] copy() {
        return Arrays.copyOf(bytes, length);
    }
}
