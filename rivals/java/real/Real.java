import java.nio.file.Path;
import java.util.Map;

/**
 * Real Java programs under a harness of ours, on inputs that are made from seeds; one line of JSON at the end.
 *
 * <p>The programs are artifacts that Maven fetches (pom.xml); some are of the kind that DaCapo drives. The launcher
 * {@code java-real} turns {@code --heap} and its like into options of the virtual machine; here they are read over.
 */
public final class Real {
    private static final String NAMES = "luindex, lusearch, xalan, pmd, h2 or jython";
    /** How many mutators those have that are not as many as asked for. */
    private static final Map<String, Integer> MUTATORS = Map.of("luindex", 1);

    private Real() {}

    /** Runs and prints. */
    public static void main(String[] words) throws Exception {
        try {
            measure(words);
        } catch (IllegalArgumentException error) {
            System.err.println(error.getMessage());
            System.exit(2);
        } catch (OutOfMemoryError error) {
            System.err.println("out of memory: a larger --heap may do");
            System.exit(2);
        }
        // Jython leaves threads behind.
        System.exit(0);
    }

    private static void measure(String[] words) throws Exception {
        if (words.length == 0) {
            throw Rival.refused("the first argument", NAMES);
        }
        String name = words[0];
        String given = System.getenv("ITERATIONS");
        int iterations = given == null ? 1 : Rival.iterations(given);
        int threads = MUTATORS.getOrDefault(name, 2);
        boolean tiny = false;
        boolean apart = false;
        Path input = null;
        for (int i = 1; i < words.length; i++) {
            String next = i + 1 < words.length ? words[i + 1] : "";
            switch (words[i]) {
                case "--tiny":
                    tiny = true;
                    break;
                case "--iterations":
                    i++;
                    iterations = Rival.iterations(next);
                    break;
                case "--threads":
                    i++;
                    threads = Rival.number(next, 1, 256, "mutators");
                    break;
                case "--input":
                    i++;
                    input = Path.of(next);
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
                    throw Rival.refused(
                            words[i],
                            "--heap MB, --young MB, --workers N, --threads N, --apart, --compressed,"
                                    + " --input DIRECTORY, --iterations K or --tiny");
            }
        }
        if (threads > 1 && name.equals("luindex")) {
            throw new IllegalArgumentException(name + " has one mutator here");
        }
        Scale scale = new Scale(tiny, false, input, 0);
        Iterations.run(name, iterations, new Mutators(threads, apart), prepare(name, scale));
    }

    private static Workload prepare(String name, Scale scale) throws Exception {
        switch (name) {
            case "luindex":
                return new Lucene.Indexing(scale);
            case "lusearch":
                return new Lucene.Searching(scale);
            case "xalan":
                return new Xalan(scale);
            case "pmd":
                return new Pmd(scale);
            case "h2":
                return new H2(scale);
            case "jython":
                return new Jython(scale);
            default:
                throw Rival.refused(name, NAMES);
        }
    }

    /** Failures of a program are ours. */
    static AssertionError broken(Exception error) {
        return new AssertionError(error);
    }
}
