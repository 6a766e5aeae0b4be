import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.queryparser.classic.ParseException;
import org.apache.lucene.queryparser.classic.QueryParser;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.store.Directory;

/** Lucene: documents are put into an index in memory, and threads search it. */
final class Lucene {
    private Lucene() {}

    private static List<String> documents(Scale scale) {
        List<String> documents = new ArrayList<>();
        Prose prose = new Prose(9000);
        for (int i = 0; i < scale.of(3000, 60); i++) {
            documents.add(prose.words(40 + prose.below(160)));
        }
        return documents;
    }

    /** An index of these documents, by one thread and in one segment, so that it is always the same. */
    private static Directory index(List<String> documents) throws IOException {
        Directory directory = new ByteBuffersDirectory();
        IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
        config.setMergeScheduler(new SerialMergeScheduler());
        config.setRAMBufferSizeMB(4);
        try (IndexWriter writer = new IndexWriter(directory, config)) {
            int number = 0;
            for (String text : documents) {
                Document document = new Document();
                document.add(new StringField("number", Integer.toString(number), Field.Store.YES));
                document.add(new TextField("text", text, Field.Store.YES));
                writer.addDocument(document);
                number++;
            }
            writer.forceMerge(1);
        }
        return directory;
    }

    /** The best ten of a query, by their numbers and the text of the first. */
    private static long search(IndexSearcher searcher, String words) {
        try {
            QueryParser parser = new QueryParser("text", new StandardAnalyzer());
            ScoreDoc[] best = searcher.search(parser.parse(words), 10).scoreDocs;
            long sum = best.length;
            for (ScoreDoc one : best) {
                Document document = searcher.storedFields().document(one.doc);
                sum = Numbers.chained(sum, Integer.parseInt(document.get("number")));
                byte[] text = document.get("text").getBytes(StandardCharsets.UTF_8);
                sum = Numbers.chained(sum, Numbers.hashOf(text));
            }
            return sum;
        } catch (IOException | ParseException error) {
            throw Real.broken(error);
        }
    }

    private static List<String> queries(int count) {
        List<String> queries = new ArrayList<>();
        Prose prose = new Prose(9100);
        for (int i = 0; i < count; i++) {
            String first = prose.word();
            String second = prose.word();
            switch (i % 4) {
                case 0:
                    queries.add(first);
                    break;
                case 1:
                    queries.add(first + " " + second);
                    break;
                case 2:
                    queries.add("+" + first + " +" + second);
                    break;
                default:
                    queries.add("\"" + first + " " + second + "\"~8 " + prose.word());
                    break;
            }
        }
        return queries;
    }

    private static long searchAll(Directory directory, List<String> queries, Mutators mutators) {
        try (DirectoryReader reader = DirectoryReader.open(directory)) {
            IndexSearcher searcher = new IndexSearcher(reader);
            // Else whether a query is counted or cached hangs on the order of the threads.
            searcher.setQueryCache(null);
            return mutators.sum(
                    thread -> {
                        long sum = 0;
                        for (int i = thread; i < queries.size(); i += mutators.threads()) {
                            sum += Numbers.scattered(i + search(searcher, queries.get(i)));
                        }
                        return sum;
                    });
        } catch (IOException error) {
            throw Real.broken(error);
        }
    }

    /** Makes the index; some queries say whether it is right. */
    static final class Indexing implements Workload {
        private final List<String> documents;

        Indexing(Scale scale) {
            documents = documents(scale);
        }

        @Override
        public long run(Mutators mutators, Map<String, Object> facts) {
            try {
                return searchAll(index(documents), queries(40), mutators);
            } catch (IOException error) {
                throw Real.broken(error);
            }
        }
    }

    /** Searches: each thread has a share of the queries. */
    static final class Searching implements Workload {
        private final Directory directory;
        private final List<String> queries;

        Searching(Scale scale) throws IOException {
            directory = index(documents(scale));
            queries = queries(scale.of(1500, 80));
        }

        @Override
        public long run(Mutators mutators, Map<String, Object> facts) {
            return searchAll(directory, queries, mutators);
        }
    }
}
