import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;

/**
 * The workloads of `gleaner-bench native` in Java; one line of JSON at the end.
 *
 * <p>The same objects, stores and numbers in the same order. The launcher {@code hotspot} turns
 * {@code --heap}, {@code --young}, {@code --workers} and {@code --compressed} into options of the
 * virtual machine; here they are read over.
 */
public final class Rival {
    /** Two references and two numbers of 4 bytes. */
    private static final class Node {
        Node left;
        Node right;
        int number;
        int second;
    }

    private Rival() {}

    static void require(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError("broken: " + what);
        }
    }

    private static long mixed(long sum, int number) {
        return sum * 31 + (number & 0xffffffffL);
    }

    /** Binary trees: one that stays, and many that come and go. */
    private static final class Forest {
        /** Keeps an object from being left out. */
        static Node hole;

        final boolean holes;
        int next;

        Forest(boolean holes) {
            this.holes = holes;
        }

        Node node() {
            if (holes) {
                hole = new Node();
            }
            Node node = new Node();
            next++;
            node.number = next;
            return node;
        }

        /** From the root down. */
        void grow(Node node, int height) {
            if (height == 0) {
                return;
            }
            node.left = node();
            node.right = node();
            grow(node.left, height - 1);
            grow(node.right, height - 1);
        }

        /** From the leaves up. */
        Node bottomUp(int height) {
            if (height == 0) {
                return node();
            }
            Node left = bottomUp(height - 1);
            Node right = bottomUp(height - 1);
            Node node = node();
            node.left = left;
            node.right = right;
            return node;
        }
    }

    /** Counts nodes and mixes their numbers, in preorder. */
    private static final class Count {
        long nodes;
        long numbers;

        void add(Node node) {
            numbers = mixed(numbers, node.number);
            nodes++;
            if (node.left != null) {
                add(node.left);
            }
            if (node.right != null) {
                add(node.right);
            }
        }
    }

    private static long gcbench(boolean tiny, boolean holes) {
        int most = tiny ? 8 : 18;
        int doubles = tiny ? 500 : 500_000;
        Forest forest = new Forest(holes);
        Node kept = forest.node();
        forest.grow(kept, most);
        double[] array = new double[doubles];
        for (int i = 0; i < doubles; i++) {
            array[i] = 1.0 / (i + 1);
        }
        for (int height = 4; height <= most; height += 2) {
            long trees = 2 * ((8L << most) - 1) / ((2L << height) - 1);
            for (long i = 0; i < trees; i++) {
                forest.grow(forest.node(), height);
            }
            for (long i = 0; i < trees; i++) {
                forest.bottomUp(height);
            }
        }
        require(array[99] == 0.01, "the array is as it was filled");
        Count count = new Count();
        count.add(kept);
        require(count.nodes == (2L << most) - 1, "the tree that stays is whole");
        return count.nodes ^ count.numbers << 24;
    }

    /** A list of nodes that are appended at one end and taken from the other. */
    private static long queue(boolean tiny) {
        int length = tiny ? 1000 : 1_000_000;
        int steps = tiny ? 16_000 : 16_000_000;
        Node head = new Node();
        Node tail = head;
        long sum = 0;
        for (int number = 1; number <= steps; number++) {
            Node node = new Node();
            node.number = number;
            tail.left = node;
            tail = node;
            if (number > length) {
                sum = mixed(sum, head.number);
                head = head.left;
            }
        }
        int left = 0;
        for (Node node = head; node != null; node = node.left) {
            left++;
        }
        require(left == length + 1, "the list is whole");
        return sum;
    }

    /** An array of references that grows old, and whose elements are replaced at random. */
    private static long refarray(boolean tiny) {
        int length = tiny ? 1000 : 1_000_000;
        int steps = tiny ? 10_000 : 10_000_000;
        Node[] array = new Node[length];
        for (int i = 0; i < length; i++) {
            Node node = new Node();
            node.number = i;
            array[i] = node;
        }
        long random = 2000;
        for (int number = 0; number < steps; number++) {
            random = random * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
            int i = (int) ((random >>> 33) % length);
            Node node = new Node();
            node.number = number;
            array[i] = node;
        }
        long sum = 0;
        for (Node node : array) {
            sum = mixed(sum, node.number);
        }
        return sum;
    }

    /** Quad trees: a deep one that stays, and many shallow ones that are made and dropped. */
    private static final class Quads {
        private static final int SHALLOW = 3;

        /** Four references and two numbers of 4 bytes. */
        private static final class Quad {
            Quad first;
            Quad second;
            Quad third;
            Quad fourth;
            int number;
            int other;
        }

        private int next;
        private long sum;

        /** From the root down, the nodes numbered in that order. */
        private Quad tree(int depth) {
            Quad quad = new Quad();
            next++;
            quad.number = next;
            if (depth > 0) {
                quad.first = tree(depth - 1);
                quad.second = tree(depth - 1);
                quad.third = tree(depth - 1);
                quad.fourth = tree(depth - 1);
            }
            return quad;
        }

        /** How many nodes a tree has; adds their numbers. */
        private long count(Quad quad) {
            if (quad == null) {
                return 0;
            }
            sum = mixed(sum, quad.number);
            return 1
                    + count(quad.first)
                    + count(quad.second)
                    + count(quad.third)
                    + count(quad.fourth);
        }

        /** How many nodes a tree of some depth has. */
        private static long nodes(int depth) {
            return ((4L << 2 * depth) - 1) / 3;
        }

        static long run(boolean tiny) {
            int depth = tiny ? 5 : 10;
            int trees = tiny ? 400 : 400_000;
            Quads quads = new Quads();
            Quad kept = quads.tree(depth);
            for (int i = 0; i < trees; i++) {
                Quad dropped = quads.tree(SHALLOW);
                require(quads.count(dropped) == nodes(SHALLOW), "a shallow tree is whole");
            }
            require(quads.count(kept) == nodes(depth), "the tree that stays is whole");
            return quads.sum;
        }
    }

    /** Messages enciphered and deciphered with ChaCha20 (RFC 8439): arrays that die young. */
    private static final class Cipher {
        private static final VarHandle INTS =
                MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
        private static final VarHandle LONGS =
                MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
        private static final int MESSAGE = 4096;
        private static final int STATE = 16;

        /** Keeps an array from being left out. */
        static int[] last;

        private static int[] words(int length) {
            int[] words = new int[length];
            last = words;
            return words;
        }

        static long run(boolean tiny) {
            int messages = tiny ? 40 : 40_000;
            long random = 7000;
            long sum = 0;
            for (int number = 0; number < messages; number++) {
                int[] key = words(8);
                for (int i = 0; i < key.length; i++) {
                    random = random * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
                    key[i] = (int) (random >>> 33);
                }
                byte[] plain = new byte[MESSAGE];
                for (int i = 0; i < MESSAGE; i++) {
                    plain[i] = (byte) (i ^ number);
                }
                byte[] sent = ciphered(key, plain, number);
                for (int at = 0; at < MESSAGE; at += 8) {
                    sum = sum * 31 + (long) LONGS.get(sent, at);
                }
                byte[] read = ciphered(key, sent, number);
                require(Arrays.equals(read, plain), "what is read is what was sent");
            }
            return sum;
        }

        /** A text with the key stream added. */
        private static byte[] ciphered(int[] key, byte[] text, int nonce) {
            byte[] result = new byte[MESSAGE];
            for (int block = 0; block < MESSAGE / 64; block++) {
                int[] stream = words(STATE);
                fill(stream, key, 1 + block, nonce);
                System.arraycopy(text, 64 * block, result, 64 * block, 64);
                for (int i = 0; i < STATE; i++) {
                    int at = 64 * block + 4 * i;
                    INTS.set(result, at, (int) INTS.get(result, at) ^ stream[i]);
                }
            }
            return result;
        }

        /** A block of the key stream (section 2.3), in local variables, which may be registers. */
        private static void fill(int[] stream, int[] key, int counter, int nonce) {
            int x0 = 0x61707865, x1 = 0x3320646e, x2 = 0x79622d32, x3 = 0x6b206574;
            int x4 = key[0], x5 = key[1], x6 = key[2], x7 = key[3];
            int x8 = key[4], x9 = key[5], x10 = key[6], x11 = key[7];
            int x12 = counter, x13 = 0, x14 = 0, x15 = nonce;
            for (int round = 0; round < 10; round++) {
                x0 += x4;
                x12 = Integer.rotateLeft(x12 ^ x0, 16);
                x8 += x12;
                x4 = Integer.rotateLeft(x4 ^ x8, 12);
                x0 += x4;
                x12 = Integer.rotateLeft(x12 ^ x0, 8);
                x8 += x12;
                x4 = Integer.rotateLeft(x4 ^ x8, 7);
                x1 += x5;
                x13 = Integer.rotateLeft(x13 ^ x1, 16);
                x9 += x13;
                x5 = Integer.rotateLeft(x5 ^ x9, 12);
                x1 += x5;
                x13 = Integer.rotateLeft(x13 ^ x1, 8);
                x9 += x13;
                x5 = Integer.rotateLeft(x5 ^ x9, 7);
                x2 += x6;
                x14 = Integer.rotateLeft(x14 ^ x2, 16);
                x10 += x14;
                x6 = Integer.rotateLeft(x6 ^ x10, 12);
                x2 += x6;
                x14 = Integer.rotateLeft(x14 ^ x2, 8);
                x10 += x14;
                x6 = Integer.rotateLeft(x6 ^ x10, 7);
                x3 += x7;
                x15 = Integer.rotateLeft(x15 ^ x3, 16);
                x11 += x15;
                x7 = Integer.rotateLeft(x7 ^ x11, 12);
                x3 += x7;
                x15 = Integer.rotateLeft(x15 ^ x3, 8);
                x11 += x15;
                x7 = Integer.rotateLeft(x7 ^ x11, 7);
                x0 += x5;
                x15 = Integer.rotateLeft(x15 ^ x0, 16);
                x10 += x15;
                x5 = Integer.rotateLeft(x5 ^ x10, 12);
                x0 += x5;
                x15 = Integer.rotateLeft(x15 ^ x0, 8);
                x10 += x15;
                x5 = Integer.rotateLeft(x5 ^ x10, 7);
                x1 += x6;
                x12 = Integer.rotateLeft(x12 ^ x1, 16);
                x11 += x12;
                x6 = Integer.rotateLeft(x6 ^ x11, 12);
                x1 += x6;
                x12 = Integer.rotateLeft(x12 ^ x1, 8);
                x11 += x12;
                x6 = Integer.rotateLeft(x6 ^ x11, 7);
                x2 += x7;
                x13 = Integer.rotateLeft(x13 ^ x2, 16);
                x8 += x13;
                x7 = Integer.rotateLeft(x7 ^ x8, 12);
                x2 += x7;
                x13 = Integer.rotateLeft(x13 ^ x2, 8);
                x8 += x13;
                x7 = Integer.rotateLeft(x7 ^ x8, 7);
                x3 += x4;
                x14 = Integer.rotateLeft(x14 ^ x3, 16);
                x9 += x14;
                x4 = Integer.rotateLeft(x4 ^ x9, 12);
                x3 += x4;
                x14 = Integer.rotateLeft(x14 ^ x3, 8);
                x9 += x14;
                x4 = Integer.rotateLeft(x4 ^ x9, 7);
            }
            stream[0] = x0 + 0x61707865;
            stream[1] = x1 + 0x3320646e;
            stream[2] = x2 + 0x79622d32;
            stream[3] = x3 + 0x6b206574;
            stream[4] = x4 + key[0];
            stream[5] = x5 + key[1];
            stream[6] = x6 + key[2];
            stream[7] = x7 + key[3];
            stream[8] = x8 + key[4];
            stream[9] = x9 + key[5];
            stream[10] = x10 + key[6];
            stream[11] = x11 + key[7];
            stream[12] = x12 + counter;
            stream[13] = x13;
            stream[14] = x14;
            stream[15] = x15 + nonce;
        }
    }

    /** Small arrays that die at once: initnone, initfresh and initstale. */
    private static final class SmallArrays {
        private static final int LENGTH = 8;
        private static final int LINE = 16;

        static int[] fresh;
        static int[] stale;

        /** The first number of each cache line is where another one lies; all are in one cycle. */
        private static int[] cycle(int lines) {
            int[] next = new int[LINE * lines];
            for (int first = 0; first < next.length; first += LINE) {
                next[first] = first;
            }
            long random = 13_000;
            for (int line = lines - 1; line >= 1; line--) {
                random = random * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
                int other = (int) ((random >>> 33) % line);
                int first = next[LINE * line];
                next[LINE * line] = next[LINE * other];
                next[LINE * other] = first;
            }
            return next;
        }

        private static void write(int[] array) {
            for (int i = 0; i < LENGTH; i++) {
                array[i] = i;
            }
        }

        private static void requireZero(int[] array) {
            for (int element : array) {
                require(element == 0, "a fresh array is zero");
            }
        }

        static long run(boolean tiny, int kilobytes, boolean writesFresh, boolean writesStale) {
            int count = tiny ? 1 << 16 : 1 << 26;
            int between = tiny ? 7 : 1021;
            stale = new int[LENGTH];
            int[] next = kilobytes > 0 ? cycle(kilobytes * 1024 / (4 * LINE)) : null;
            System.gc();
            long sum = 0;
            int lookedAt = 0;
            int place = 0;
            for (int number = 0; number < count; number++) {
                fresh = new int[LENGTH];
                if (number == lookedAt) {
                    requireZero(fresh);
                    sum = mixed(sum, number);
                    lookedAt += between;
                }
                if (writesFresh) {
                    write(fresh);
                }
                if (writesStale) {
                    write(stale);
                }
                if (next != null) {
                    place = next[place];
                }
            }
            for (int[] array : new int[][] {fresh, stale}) {
                for (int element : array) {
                    sum = mixed(sum, element);
                }
            }
            return mixed(sum, place);
        }
    }

    /** How many mutators a workload has unless told; those that are not here have one. */
    private static final Map<String, Integer> MUTATORS =
            Map.of(
                    "jbb", 2,
                    "index", 2,
                    "xml", 1,
                    "producer", 4,
                    "agents", 16,
                    "render", Runtime.getRuntime().availableProcessors(),
                    "tiny", 16,
                    "finalizers", 1);

    private static final String NAMES =
            "gcbench, holes, queue, refarray, quads, cipher, jbb, index, xml, producer, agents, render,"
                    + " tiny, finalizers, initnone, initfresh or initstale";

    private static Workload prepare(String name, Scale scale) {
        switch (name) {
            case "jbb":
                return new Jbb(scale);
            case "index":
                return new Index(scale);
            case "xml":
                return new Xml(scale);
            case "producer":
                return new Producer(scale);
            case "agents":
                return new Agents(scale);
            case "render":
                return new Render(scale);
            case "tiny":
                return new Tiny(scale);
            case "finalizers":
                return new Finalizers(scale);
            case "ephemerons":
                throw new IllegalArgumentException(
                        "hotspot has no ephemerons: a java.util.WeakHashMap holds its values");
            default:
                return (mutators, facts) -> run(name, scale.tiny(), scale.workingSet());
        }
    }

    private static long run(String name, boolean tiny, int workingSet) {
        switch (name) {
            case "gcbench":
                return gcbench(tiny, false);
            case "holes":
                return gcbench(tiny, true);
            case "queue":
                return queue(tiny);
            case "refarray":
                return refarray(tiny);
            case "quads":
                return Quads.run(tiny);
            case "cipher":
                return Cipher.run(tiny);
            case "initnone":
                return SmallArrays.run(tiny, workingSet, false, false);
            case "initfresh":
                return SmallArrays.run(tiny, workingSet, true, false);
            case "initstale":
                return SmallArrays.run(tiny, workingSet, false, true);
            default:
                throw refused(name, NAMES);
        }
    }

    static IllegalArgumentException refused(String word, String expected) {
        return new IllegalArgumentException(word + ": expected " + expected);
    }

    /** A number from {@code least}, which is not negative, to {@code most}. */
    static int number(String text, int least, int most, String of) {
        int number = text.matches("[0-9]{1,9}") ? Integer.parseInt(text) : -1;
        if (number < least || number > most) {
            throw refused(text, least + " to " + most + " " + of);
        }
        return number;
    }

    static int iterations(String text) {
        return number(text, 1, 1000, "iterations");
    }

    private static int kilobytes(String text) {
        return number(text, 0, 1 << 20, "KB of working set");
    }

    /** Runs and prints. */
    public static void main(String[] words) throws java.io.IOException {
        try {
            measure(words);
        } catch (IllegalArgumentException error) {
            System.err.println(error.getMessage());
            System.exit(2);
        } catch (OutOfMemoryError error) {
            System.err.println("out of memory: a larger --heap may do");
            System.exit(2);
        }
    }

    private static void measure(String[] words) throws java.io.IOException {
        if (words.length == 0) {
            throw refused("the first argument", NAMES);
        }
        String name = words[0];
        String given = System.getenv("ITERATIONS");
        int iterations = given == null ? 1 : iterations(given);
        int threads = MUTATORS.getOrDefault(name, 1);
        boolean tiny = false;
        boolean apart = false;
        boolean wasteful = false;
        Path input = null;
        int workingSet = 0;
        for (int i = 1; i < words.length; i++) {
            String next = i + 1 < words.length ? words[i + 1] : "";
            switch (words[i]) {
                case "--tiny":
                    tiny = true;
                    break;
                case "--iterations":
                    i++;
                    iterations = iterations(next);
                    break;
                case "--working-set":
                    i++;
                    workingSet = kilobytes(next);
                    break;
                case "--threads":
                    i++;
                    threads = number(next, 1, 256, "mutators");
                    onlyFor(threads == 1 || MUTATORS.containsKey(name), name, "one mutator");
                    break;
                case "--wasteful":
                    wasteful = true;
                    onlyFor(name.equals("index"), name, "no --wasteful");
                    break;
                case "--input":
                    i++;
                    input = Path.of(next);
                    onlyFor(name.equals("index") || name.equals("xml"), name, "no --input");
                    break;
                case "--heap":
                case "--young":
                case "--workers":
                    i++;
                    break;
                case "--apart":
                    apart = true;
                    break;
                case "--compressed":
                    break;
                default:
                    throw refused(
                            words[i],
                            "--heap MB, --young MB, --workers N, --threads N, --apart, --compressed,"
                                    + " --wasteful, --input PATH, --working-set KB, --iterations K"
                                    + " or --tiny");
            }
        }
        Mutators mutators = new Mutators(threads, apart);
        Workload workload = prepare(name, new Scale(tiny, wasteful, input, workingSet));
        Iterations.run(name, iterations, mutators, workload);
    }

    private static void onlyFor(boolean right, String name, String has) {
        if (!right) {
            throw new IllegalArgumentException(name + " has " + has + " here");
        }
    }
}
