import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.zip.GZIPInputStream;

/**
 * Real text to be indexed: Debian's licences and documentation, or a directory that the user names.
 *
 * <p>In the order of their paths, each content once, up to a bound. A text is a file, plain or {@code .gz}, without a
 * zero byte. All lie outside of the heap, as what a program reads from a file does there.
 */
final class Texts {
    private static final List<Path> PLACES =
            List.of(Path.of("/usr/share/common-licenses"), Path.of("/usr/share/doc"));
    /** Bytes of one text, at most. */
    private static final int LARGEST = 512 << 10;

    private static final int SHORTEST_WORD = 2;
    private static final int LONGEST_WORD = 32;
    private static final boolean[] ALPHANUMERIC = new boolean[256];

    static {
        for (int letter = 0; letter < 128; letter++) {
            ALPHANUMERIC[letter] = Character.isLetterOrDigit(letter);
        }
    }

    /** Their bytes, one text after the other. */
    final ByteBuffer bytes;

    final List<Text> list = new ArrayList<>();

    /** A text: its path, and where its bytes are. */
    record Text(byte[] name, int start, int end) {}

    /** A file, and its path as the key of its order: name by name. */
    private record File(Path path, byte[] key) {}

    /** What tells texts apart. */
    private record Content(int length, long hash) {}

    /** The texts for a run; an error when there are too few. */
    Texts(Scale scale) {
        int most = scale.of(12 << 20, 192 << 10);
        int least = scale.input() != null ? 1 : scale.of(4 << 20, 64 << 10);
        List<Path> places = scale.input() != null ? List.of(scale.input()) : PLACES;
        bytes = ByteBuffer.allocateDirect(most);
        select(places, most);
        if (bytes.position() < least) {
            throw new IllegalArgumentException(
                    "index: " + bytes.position() + " bytes of text in " + places + ", and " + least
                            + " are needed: install packages that bring documentation, or name a"
                            + " directory with --input");
        }
    }

    private void select(List<Path> places, int most) {
        Set<Content> seen = new HashSet<>();
        byte[] buffer = new byte[LARGEST + 1];
        for (Path place : places) {
            List<File> files = new ArrayList<>();
            list(place, files);
            files.sort((left, right) -> Arrays.compareUnsigned(left.key, right.key));
            for (File file : files) {
                int length = read(file.path, buffer);
                if (length <= 0 || length > most - bytes.position()) {
                    continue;
                }
                long hash = Numbers.hashOn(Numbers.NO_BYTES, buffer, length);
                if (!seen.add(new Content(length, hash))) {
                    continue;
                }
                byte[] name = file.path.toString().getBytes(StandardCharsets.UTF_8);
                list.add(new Text(name, bytes.position(), bytes.position() + length));
                bytes.put(buffer, 0, length);
                if (bytes.position() > most - most / 16) {
                    return;
                }
            }
        }
    }

    /** All files below a directory, without following links. */
    private static void list(Path directory, List<File> files) {
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
            for (Path path : entries) {
                if (Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
                    list(path, files);
                } else if (Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
                    String key = path.toString().replace('/', '\0');
                    files.add(new File(path, key.getBytes(StandardCharsets.UTF_8)));
                }
            }
        } catch (IOException | DirectoryIteratorException error) {
            // What cannot be read is left out.
        }
    }

    /** The length of a file's content, which the buffer has then, or 0 if it is not a text. */
    private static int read(Path path, byte[] buffer) {
        try (InputStream file = Files.newInputStream(path);
                InputStream content = path.toString().endsWith(".gz") ? unpacked(file) : file) {
            int length = content.readNBytes(buffer, 0, buffer.length);
            for (int i = 0; i < length; i++) {
                if (buffer[i] == 0) {
                    return 0;
                }
            }
            return length <= LARGEST ? length : 0;
        } catch (IOException error) {
            return 0;
        }
    }

    private static InputStream unpacked(InputStream file) throws IOException {
        return new GZIPInputStream(new BufferedInputStream(file));
    }

    /** A byte in lower case, if it is a letter of ASCII. */
    static byte lower(byte letter) {
        return (byte) (letter >= 'A' && letter <= 'Z' ? letter + 'a' - 'A' : letter);
    }

    /** The words of a text, one after the other: letters and digits of ASCII, two to thirty-two of them. */
    static final class Words {
        private final ByteBuffer bytes;
        private final int limit;
        /** Where the word lies. */
        int from;

        int to;

        /** The words of a text from some place on. */
        Words(ByteBuffer bytes, Text text, int from) {
            this.bytes = bytes;
            limit = text.end;
            to = text.start + from;
        }

        /** Goes to the next word, if there is one. */
        boolean next() {
            int at = to;
            while (at < limit) {
                while (at < limit && !ALPHANUMERIC[bytes.get(at) & 0xff]) {
                    at++;
                }
                int first = at;
                while (at < limit && ALPHANUMERIC[bytes.get(at) & 0xff]) {
                    at++;
                }
                if (at - first >= SHORTEST_WORD && at - first <= LONGEST_WORD) {
                    from = first;
                    to = at;
                    return true;
                }
            }
            to = limit;
            return false;
        }

        /** A string of the word in lower case. */
        byte[] lower() {
            byte[] word = new byte[to - from];
            for (int i = 0; i < word.length; i++) {
                word[i] = Texts.lower(bytes.get(from + i));
            }
            return word;
        }
    }
}
