import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * An inverted index over real text, in the manner of luindex and lusearch: built by one thread, queried by all.
 *
 * <p>A query reuses its arrays; a wasteful one makes all of them anew, and a hit for each document that matches.
 */
final class Index implements Workload {
    /** Places of the table of terms, at first. */
    private static final int FIRST_PLACES = 1024;
    /** Postings of the first chunk of a term and of its largest one. */
    private static final int SMALLEST_CHUNK = 4;

    private static final int LARGEST_CHUNK = 512;
    /** Words of a query, at most. */
    private static final int WORDS = 3;
    /** Hits that a query gives. */
    private static final int BEST = 10;
    /** Queries that a thread takes at a time. */
    private static final int BATCH = 16;

    private static final class Term {
        /** In its place of the table. */
        Term next;

        byte[] word;
        Chunk first;
        Chunk last;
        int hash;
        int documents;
    }

    /** Postings: document and frequency in turn. */
    private static final class Chunk {
        Chunk next;
        int[] entries;
        int used;
    }

    private static final class Document {
        byte[] name;
        int number;
        int length;
    }

    private static final class Hit {
        Hit next;
        Document document;
        long score;
    }

    /** Words to look for, any of them or all, outside of the heap. */
    private static final class Queries {
        final ByteBuffer bytes;
        /** Where the words of each begin; negated if all of them are looked for. */
        final IntBuffer starts;

        /** Made of words that follow one another somewhere in the texts. */
        Queries(Texts texts, int count) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            starts = ByteBuffer.allocateDirect(4 * (count + 1)).asIntBuffer();
            long random = 12_000;
            for (int query = 0; query < count; query++) {
                random = Numbers.next(random);
                Texts.Text text = texts.list.get(Numbers.of(random) % texts.list.size());
                random = Numbers.next(random);
                int from = Numbers.of(random) % (text.end() - text.start());
                random = Numbers.next(random);
                int left = 1 + Numbers.of(random) % WORDS;
                int start = all.size();
                Texts.Words words = new Texts.Words(texts.bytes, text, from);
                for (; left > 0 && words.next(); left--) {
                    if (all.size() > start) {
                        all.write(' ');
                    }
                    for (int at = words.from; at < words.to; at++) {
                        all.write(texts.bytes.get(at));
                    }
                }
                random = Numbers.next(random);
                starts.put(Numbers.of(random) % 2 == 0 ? ~start : start);
            }
            starts.put(all.size());
            bytes = ByteBuffer.allocateDirect(all.size());
            bytes.put(all.toByteArray());
        }

        int count() {
            return starts.capacity() - 1;
        }

        boolean all(int query) {
            return starts.get(query) < 0;
        }

        private int start(int query) {
            int start = starts.get(query);
            return start < 0 ? ~start : start;
        }

        /** A string of its words. */
        byte[] text(int query) {
            int start = start(query);
            byte[] text = new byte[start(query + 1) - start];
            bytes.get(start, text);
            return text;
        }
    }

    private final Texts texts;
    private final Queries queries;
    private final boolean wasteful;

    /** 12 MB of text and 60,000 queries, or 192 KB and 300. */
    Index(Scale scale) {
        texts = new Texts(scale);
        queries = new Queries(texts, scale.of(60_000, 300));
        wasteful = scale.wasteful();
        // What reading left is not part of the workload.
        System.gc();
    }

    /** A number made of the hits of all queries. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        long started = System.nanoTime();
        Built built = new Built(texts);
        long ready = System.nanoTime();
        AtomicInteger next = new AtomicInteger();
        long sum = mutators.sum(thread -> new Searcher(built).search(next));
        double seconds = (System.nanoTime() - ready) * 1e-9;
        facts.put("files", texts.list.size());
        facts.put("bytes", texts.bytes.position());
        facts.put("terms", built.terms);
        facts.put("build_s", (ready - started) * 1e-9);
        facts.put("queries_per_s", queries.count() / seconds);
        built.check();
        return Numbers.chained(sum, built.terms);
    }

    /** What is built: a table of terms, and the documents. */
    private static final class Built {
        Term[] table = new Term[FIRST_PLACES];
        final Document[] documents;
        int terms;

        Built(Texts texts) {
            documents = new Document[texts.list.size()];
            for (int number = 0; number < documents.length; number++) {
                Texts.Text text = texts.list.get(number);
                int length = 0;
                Texts.Words words = new Texts.Words(texts.bytes, text, 0);
                while (words.next()) {
                    post(findOrAdd(words.lower()), number);
                    length++;
                }
                byte[] name = text.name().clone();
                Document document = new Document();
                document.name = name;
                document.number = number;
                document.length = length;
                documents[number] = document;
            }
        }

        /** The term of a word, or null. */
        Term find(byte[] word, int hash) {
            Term term = table[hash & table.length - 1];
            while (term != null && !(term.hash == hash && Arrays.equals(term.word, word))) {
                term = term.next;
            }
            return term;
        }

        private Term findOrAdd(byte[] word) {
            int hash = (int) Numbers.hashOf(word);
            Term found = find(word, hash);
            if (found != null) {
                return found;
            }
            Term term = new Term();
            term.word = word;
            term.hash = hash;
            terms++;
            if (terms > table.length) {
                grow();
            }
            insert(table, term);
            return term;
        }

        private static void insert(Term[] table, Term term) {
            int place = term.hash & table.length - 1;
            term.next = table[place];
            table[place] = term;
        }

        /** Makes the table twice as long. */
        private void grow() {
            Term[] larger = new Term[2 * table.length];
            for (Term term : table) {
                while (term != null) {
                    Term next = term.next;
                    insert(larger, term);
                    term = next;
                }
            }
            table = larger;
        }

        /** A document has a term once more. */
        private static void post(Term term, int document) {
            Chunk chunk = term.last;
            if (chunk == null) {
                chunk = addChunk(term, SMALLEST_CHUNK);
            } else {
                int[] entries = chunk.entries;
                int end = 2 * chunk.used;
                if (entries[end - 2] == document) {
                    entries[end - 1]++;
                    return;
                }
                if (end == entries.length) {
                    chunk = addChunk(term, Math.min(entries.length, LARGEST_CHUNK));
                }
            }
            chunk.entries[2 * chunk.used] = document;
            chunk.entries[2 * chunk.used + 1] = 1;
            chunk.used++;
            term.documents++;
        }

        /** A term gets another chunk. */
        private static Chunk addChunk(Term term, int capacity) {
            int[] entries = new int[2 * capacity];
            Chunk chunk = new Chunk();
            chunk.entries = entries;
            if (term.last == null) {
                term.first = chunk;
            } else {
                term.last.next = chunk;
            }
            term.last = chunk;
            return chunk;
        }

        /** The postings come to all words of all documents. */
        void check() {
            int count = 0;
            long posted = 0;
            for (Term first : table) {
                for (Term term = first; term != null; term = term.next) {
                    int entries = 0;
                    for (Chunk chunk = term.first; chunk != null; chunk = chunk.next) {
                        entries += chunk.used;
                        for (int i = 0; i < chunk.used; i++) {
                            posted += chunk.entries[2 * i + 1];
                        }
                    }
                    Rival.require(entries == term.documents, "a term has its documents");
                    count++;
                }
            }
            long expected = 0;
            for (Document document : documents) {
                expected += document.length;
            }
            Rival.require(count == terms, "the table has all terms");
            Rival.require(posted == expected, "each word is posted once");
        }
    }

    /** A thread that queries, and what it reuses from one query to the next. */
    private final class Searcher extends Apart {
        private final Built built;
        /** [i]: the score of document i. */
        private int[] scores;
        /** [i]: how many of the words document i has. */
        private byte[] counts;
        /** The best hits of a query, how many there are, and the score of the last. */
        private Hit hits;

        private int kept;
        private long worst;
        /** What was shown last. */
        private byte[][] titles;

        Searcher(Built built) {
            this.built = built;
            freshArrays();
        }

        /** Does queries until there are no more; the sum of what they found. */
        long search(AtomicInteger next) {
            long sum = 0;
            int count = queries.count();
            while (true) {
                int first = next.getAndAdd(BATCH);
                if (first >= count) {
                    return sum;
                }
                for (int number = first; number < Math.min(first + BATCH, count); number++) {
                    if (wasteful) {
                        freshArrays();
                    }
                    sum += Numbers.scattered(query(number) ^ (long) number << 32);
                }
            }
        }

        private void freshArrays() {
            scores = new int[built.documents.length];
            counts = new byte[built.documents.length];
        }

        /** A number made of the best hits of a query. */
        private long query(int number) {
            byte[] text = queries.text(number);
            int count = 0;
            for (int from = 0; from < text.length; count++) {
                int to = from;
                while (to < text.length && text[to] != ' ') {
                    to++;
                }
                byte[] word = Arrays.copyOfRange(text, from, to);
                for (int i = 0; i < word.length; i++) {
                    word[i] = Texts.lower(word[i]);
                }
                score(word);
                from = to + 1;
            }
            best(queries.all(number) ? count : 1);
            return shown();
        }

        /** Adds to the scores of the documents that have a word. */
        private void score(byte[] word) {
            Term term = built.find(word, (int) Numbers.hashOf(word));
            if (term == null) {
                return;
            }
            Document[] documents = built.documents;
            int[] scores = this.scores;
            byte[] counts = this.counts;
            int rare = 32 - Integer.numberOfLeadingZeros(documents.length / term.documents);
            for (Chunk chunk = term.first; chunk != null; chunk = chunk.next) {
                int[] entries = chunk.entries;
                int end = 2 * chunk.used;
                for (int i = 0; i < end; i += 2) {
                    int number = entries[i];
                    int length = documents[number].length;
                    scores[number] += 1024 * entries[i + 1] * rare / (64 + (length >>> 4));
                    counts[number]++;
                }
            }
        }

        /** Collects the hits, the best first, and clears the arrays. */
        private void best(int least) {
            Document[] documents = built.documents;
            int[] scores = this.scores;
            byte[] counts = this.counts;
            hits = null;
            kept = 0;
            worst = 0;
            for (int number = 0; number < documents.length; number++) {
                int count = counts[number];
                int score = scores[number];
                counts[number] = 0;
                scores[number] = 0;
                if (count < least) {
                    continue;
                }
                boolean better = kept < BEST || score > worst;
                if (better || wasteful) {
                    Hit hit = new Hit();
                    hit.document = documents[number];
                    hit.score = score;
                    if (better) {
                        keep(hit);
                    }
                }
            }
        }

        /** Puts a hit into the list, behind those that are as good. */
        private void keep(Hit hit) {
            Hit before = null;
            Hit after = hits;
            int count = 1;
            while (after != null && after.score >= hit.score) {
                before = after;
                after = after.next;
                count++;
            }
            hit.next = after;
            if (before == null) {
                hits = hit;
            } else {
                before.next = hit;
            }
            Hit last = hit;
            while (after != null && count < BEST) {
                last = after;
                after = after.next;
                count++;
            }
            last.next = null;
            kept = count;
            worst = last.score;
        }

        /** What is shown of the hits: a number made of titles and scores. */
        private long shown() {
            titles = new byte[kept][];
            long sum = kept;
            Hit hit = hits;
            for (int i = 0; i < kept; i++) {
                byte[] title = hit.document.name.clone();
                titles[i] = title;
                sum = Numbers.chained(sum, Numbers.hashOf(title));
                sum = Numbers.chained(sum, hit.score);
                hit = hit.next;
            }
            Rival.require(hit == null, "the list has so many hits");
            return sum;
        }
    }
}
