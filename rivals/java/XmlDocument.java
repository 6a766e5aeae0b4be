import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

/**
 * An XML document, which lies outside of the heap, and its parts one after the other.
 *
 * <p>The reader of events is Java's StAX; here they become what a tree is built of. Entities are those that XML defines
 * itself, and white space alone is no text. Comments, instructions and the document type are passed over.
 */
final class XmlDocument {
    /** Documents of Debian's packages; the first that is there is read. */
    private static final List<Path> PLACES =
            List.of(
                    Path.of("/usr/share/mime/packages/freedesktop.org.xml"),
                    Path.of("/usr/share/xml/iso-codes/iso_639-3.xml"));

    /** Who is given the parts. */
    abstract static class Visitor extends Apart {
        abstract void element(String name);

        /** Of the element that has just begun; the prefix of its name may be null or empty. */
        abstract void attribute(String prefix, String name, String text);

        abstract void text(Utf8 text);

        /** The innermost element ends. */
        abstract void end();
    }

    /** Bytes of it. */
    final int length;

    final int elements;
    private final ByteBuffer bytes;
    /** How many elements are read at most, from the first on, with all that they are in. */
    private final int most;

    /** Reads it once; an error when it is not well-formed. */
    XmlDocument(Scale scale) {
        Path path = scale.input() != null ? scale.input() : found();
        most = scale.of(Integer.MAX_VALUE, 300);
        try (FileChannel file = FileChannel.open(path)) {
            bytes = ByteBuffer.allocateDirect(Math.toIntExact(file.size()));
            while (file.read(bytes) > 0) {}
            bytes.flip();
        } catch (IOException error) {
            throw new IllegalArgumentException(path + ": " + error);
        }
        length = bytes.limit();
        Count count = new Count();
        try {
            read(count);
        } catch (XMLStreamException error) {
            throw new IllegalArgumentException(
                    path + ": not well-formed: " + error.getMessage()
                            + "; name another with --input");
        }
        elements = count.elements;
    }

    private static Path found() {
        for (Path path : PLACES) {
            if (Files.isRegularFile(path)) {
                return path;
            }
        }
        throw new IllegalArgumentException(
                "xml: none of " + PLACES + " is there: install the package shared-mime-info or"
                        + " iso-codes, or name a document with --input");
    }

    private static final class Count extends Visitor {
        int elements;

        @Override
        void element(String name) {
            elements++;
        }

        @Override
        void attribute(String prefix, String name, String text) {}

        @Override
        void text(Utf8 text) {}

        @Override
        void end() {}
    }

    /** Gives all parts to {@code visitor}. */
    void parts(Visitor visitor) {
        try {
            read(visitor);
        } catch (XMLStreamException error) {
            throw new AssertionError("it was read before", error);
        }
    }

    private void read(Visitor visitor) throws XMLStreamException {
        XMLInputFactory factory = XMLInputFactory.newDefaultFactory();
        factory.setProperty(XMLInputFactory.IS_NAMESPACE_AWARE, false);
        factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
        XMLStreamReader reader =
                factory.createXMLStreamReader(new Stream(bytes.duplicate()), "UTF-8");
        Utf8 pending = new Utf8();
        int begun = 0;
        while (reader.hasNext()) {
            switch (reader.next()) {
                case XMLStreamConstants.START_ELEMENT:
                    flush(pending, visitor);
                    if (begun == most) {
                        skip(reader);
                        break;
                    }
                    begun++;
                    visitor.element(reader.getLocalName());
                    for (int i = 0; i < reader.getAttributeCount(); i++) {
                        visitor.attribute(
                                reader.getAttributePrefix(i),
                                reader.getAttributeLocalName(i),
                                reader.getAttributeValue(i));
                    }
                    break;
                case XMLStreamConstants.END_ELEMENT:
                    flush(pending, visitor);
                    visitor.end();
                    break;
                case XMLStreamConstants.CHARACTERS:
                case XMLStreamConstants.CDATA:
                case XMLStreamConstants.SPACE:
                    pending.append(
                            reader.getTextCharacters(),
                            reader.getTextStart(),
                            reader.getTextLength());
                    break;
                case XMLStreamConstants.ENTITY_REFERENCE:
                    throw new XMLStreamException("no entity is named " + reader.getLocalName());
                default:
                    break;
            }
        }
        reader.close();
    }

    private static void flush(Utf8 pending, Visitor visitor) {
        if (!pending.blank) {
            visitor.text(pending);
        }
        pending.clear();
    }

    /** Passes over the rest of an element. */
    private static void skip(XMLStreamReader reader) throws XMLStreamException {
        for (int depth = 1; depth > 0; ) {
            int event = reader.next();
            if (event == XMLStreamConstants.START_ELEMENT) {
                depth++;
            } else if (event == XMLStreamConstants.END_ELEMENT) {
                depth--;
            }
        }
    }

    private static final class Stream extends InputStream {
        private final ByteBuffer bytes;

        Stream(ByteBuffer bytes) {
            this.bytes = bytes;
        }

        @Override
        public int read() {
            return bytes.hasRemaining() ? bytes.get() & 0xff : -1;
        }

        @Override
        public int read(byte[] to, int from, int length) {
            if (length > 0 && !bytes.hasRemaining()) {
                return -1;
            }
            int count = Math.min(length, bytes.remaining());
            bytes.get(to, from, count);
            return count;
        }
    }
}
