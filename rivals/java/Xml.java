import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * A real XML document is read into objects, transformed, and written again, several times.
 *
 * <p>The transformation makes attributes elements, texts upper case, and sorts the elements of one parent by name.
 */
final class Xml implements Workload {
    /** Places of the table of names; a power of two. */
    private static final int PLACES = 256;
    /** Bytes of a buffer that is written to. */
    private static final int BUFFER = 4096;

    private static final byte[] OPEN = {'<'};
    private static final byte[] OPEN_END = {'<', '/'};
    private static final byte[] CLOSE = {'>'};
    private static final byte[] AMPERSAND = "&amp;".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] LESS = "&lt;".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] GREATER = "&gt;".getBytes(StandardCharsets.US_ASCII);

    /** An element or a text. */
    private static final class Node {
        Node next;
        Node parent;
        /** A name or, of a text, its letters. */
        byte[] content;

        Attribute attributes;
        Node first;
        Node last;
        boolean isElement;
        int children;

        Node(byte[] content, boolean isElement) {
            this.content = content;
            this.isElement = isElement;
        }

        /** Gets another child. */
        void append(Node child) {
            child.parent = this;
            if (last == null) {
                first = child;
            } else {
                last.next = child;
            }
            last = child;
            children++;
        }
    }

    private static final class Attribute {
        Attribute next;
        byte[] name;
        byte[] text;
    }

    private static final class Name {
        /** In its place of the table. */
        Name next;

        byte[] letters;
    }

    private static final class Buffer {
        Buffer next;
        byte[] bytes;
        int used;
    }

    private final XmlDocument document;
    private final int passes;

    /** The whole document eight times, or 300 elements of it twice. */
    Xml(Scale scale) {
        document = new XmlDocument(scale);
        passes = scale.of(8, 2);
        // What reading left is not part of the workload.
        System.gc();
    }

    /** A number made of what was written. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        facts.put("bytes", document.length);
        facts.put("elements", document.elements);
        return mutators.sum(
                thread -> {
                    long sum = 0;
                    for (int i = 0; i < passes; i++) {
                        sum = Numbers.chained(sum, pass());
                    }
                    return sum;
                });
    }

    private long pass() {
        Reading reading = new Reading();
        document.parts(reading);
        Node tree = reading.root;
        reading = null;
        long hash = written(transformed(tree));
        Rival.require(elements(tree, null) == document.elements, "the tree is whole");
        return hash;
    }

    /** How many elements a tree has, in which each node knows its parent. */
    private static int elements(Node node, Node parent) {
        Rival.require(node.parent == parent, "a node knows its parent");
        int elements = node.isElement ? 1 : 0;
        for (Node child = node.first; child != null; child = child.next) {
            elements += elements(child, node);
        }
        return elements;
    }

    /** Builds the tree of a document. */
    private static final class Reading extends XmlDocument.Visitor {
        private final Name[] names = new Name[PLACES];
        private final Utf8 letters = new Utf8();
        private Node root;
        /** The innermost element, and its last attribute. */
        private Node at;

        private Attribute last;

        /** The letters of a name, the same object for the same name. */
        private byte[] name(String prefix, String text) {
            letters.clear();
            if (prefix != null && !prefix.isEmpty()) {
                letters.append(prefix);
                letters.append(":");
            }
            letters.append(text);
            int length = letters.length;
            int place =
                    (int) Numbers.hashOn(Numbers.NO_BYTES, letters.bytes, length) & PLACES - 1;
            for (Name name = names[place]; name != null; name = name.next) {
                int own = name.letters.length;
                if (Arrays.equals(name.letters, 0, own, letters.bytes, 0, length)) {
                    return name.letters;
                }
            }
            byte[] copy = letters.copy();
            Name name = new Name();
            name.next = names[place];
            name.letters = copy;
            names[place] = name;
            return copy;
        }

        @Override
        void element(String name) {
            byte[] letters = name(null, name);
            Node element = new Node(letters, true);
            if (at == null) {
                root = element;
            } else {
                at.append(element);
            }
            at = element;
            last = null;
        }

        @Override
        void attribute(String prefix, String name, String text) {
            byte[] letters = name(prefix, name);
            byte[] content = text.getBytes(StandardCharsets.UTF_8);
            Attribute attribute = new Attribute();
            attribute.name = letters;
            attribute.text = content;
            if (last == null) {
                at.attributes = attribute;
            } else {
                last.next = attribute;
            }
            last = attribute;
        }

        @Override
        void text(Utf8 text) {
            byte[] letters = text.copy();
            at.append(new Node(letters, false));
        }

        @Override
        void end() {
            at = at.parent;
        }
    }

    /** The transformed tree of a tree. */
    private static Node transformed(Node node) {
        if (!node.isElement) {
            byte[] text = upper(node.content);
            return new Node(text, false);
        }
        Node fresh = new Node(node.content, true);
        for (Attribute attribute = node.attributes;
                attribute != null;
                attribute = attribute.next) {
            Node element = new Node(attribute.name, true);
            fresh.append(element);
            element.append(new Node(attribute.text, false));
        }
        Node[] children = new Node[node.children];
        int count = 0;
        for (Node child = node.first; child != null; child = child.next) {
            children[count++] = child;
        }
        Arrays.sort(children, Xml::compare);
        for (Node child : children) {
            fresh.append(transformed(child));
        }
        return fresh;
    }

    /** Texts first, then elements by their names. */
    private static int compare(Node left, Node right) {
        return left.isElement && right.isElement
                ? Arrays.compareUnsigned(left.content, right.content)
                : Boolean.compare(left.isElement, right.isElement);
    }

    /** A text in upper case. */
    private static byte[] upper(byte[] text) {
        byte[] fresh = text.clone();
        for (int i = 0; i < fresh.length; i++) {
            byte letter = fresh[i];
            fresh[i] = (byte) (letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
        }
        return fresh;
    }

    /** The number of a tree as it is written. */
    private static long written(Node tree) {
        Writer writer = new Writer();
        writer.write(tree);
        long hash = Numbers.NO_BYTES;
        for (Buffer buffer = writer.first; buffer != null; buffer = buffer.next) {
            hash = Numbers.hashOn(hash, buffer.bytes, buffer.used);
        }
        return hash;
    }

    /** What is written, in a list of buffers. */
    private static final class Writer extends Apart {
        final Buffer first = newBuffer();
        private Buffer last = first;

        private static Buffer newBuffer() {
            byte[] bytes = new byte[BUFFER];
            Buffer buffer = new Buffer();
            buffer.bytes = bytes;
            return buffer;
        }

        void write(Node node) {
            if (!node.isElement) {
                writeContent(node.content);
                return;
            }
            write(OPEN, 0, OPEN.length);
            writeContent(node.content);
            write(CLOSE, 0, CLOSE.length);
            for (Node child = node.first; child != null; child = child.next) {
                write(child);
            }
            write(OPEN_END, 0, OPEN_END.length);
            writeContent(node.content);
            write(CLOSE, 0, CLOSE.length);
        }

        /** A name or a text, with what XML needs escaped. */
        private void writeContent(byte[] content) {
            int from = 0;
            for (int i = 0; i < content.length; i++) {
                byte[] escape = escaped(content[i]);
                if (escape != null) {
                    write(content, from, i);
                    write(escape, 0, escape.length);
                    from = i + 1;
                }
            }
            write(content, from, content.length);
        }

        /** How XML writes a letter that it needs for itself, or null. */
        private static byte[] escaped(byte letter) {
            switch (letter) {
                case '&':
                    return AMPERSAND;
                case '<':
                    return LESS;
                case '>':
                    return GREATER;
                default:
                    return null;
            }
        }

        private void write(byte[] text, int from, int to) {
            while (from < to) {
                Buffer buffer = last;
                if (buffer.used == BUFFER) {
                    buffer.next = newBuffer();
                    last = buffer.next;
                    continue;
                }
                int now = Math.min(to - from, BUFFER - buffer.used);
                System.arraycopy(text, from, buffer.bytes, buffer.used, now);
                buffer.used += now;
                from += now;
            }
        }
    }
}
