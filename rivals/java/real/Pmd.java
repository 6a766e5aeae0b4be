import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import net.sourceforge.pmd.PMDConfiguration;
import net.sourceforge.pmd.PmdAnalysis;
import net.sourceforge.pmd.Report;
import net.sourceforge.pmd.RuleViolation;
import net.sourceforge.pmd.lang.LanguageRegistry;

/** PMD looks for faults in sources of Java, by its own threads; ours, if no directory is given. */
final class Pmd implements Workload {
    private static final String RULES = "rulesets/java/quickstart.xml";

    /** How many sources are checked, in the order of their names; FEW of them where little is to be done. */
    private static final int MOST = 6;

    private static final int FEW = 2;

    private final List<Path> sources = new ArrayList<>();

    Pmd(Scale scale) throws IOException {
        if (scale.input() == null) {
            throw new IllegalArgumentException("pmd: a directory of sources is needed: --input");
        }
        try (Stream<Path> files = Files.list(scale.input())) {
            files.filter(file -> file.toString().endsWith(".java")).sorted().forEach(sources::add);
        }
        if (sources.isEmpty()) {
            throw new IllegalArgumentException("pmd: no source in " + scale.input());
        }
        int many = Math.min(scale.of(MOST, FEW), sources.size());
        sources.subList(many, sources.size()).clear();
    }

    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        if (mutators.threads() > 1) {
            return analysed(mutators.threads(), facts);
        }
        return mutators.sum(thread -> analysed(0, facts));
    }

    /** By so many threads of its own, which each analysis starts anew; by the calling one with 0. */
    private long analysed(int threads, Map<String, Object> facts) {
        PMDConfiguration config = new PMDConfiguration();
        config.setThreads(threads);
        config.setIgnoreIncrementalAnalysis(true);
        config.setDefaultLanguageVersion(
                LanguageRegistry.getLanguage("Java").getVersion("17"));
        config.addRuleSet(RULES);
        Report report;
        try (PmdAnalysis analysis = PmdAnalysis.create(config)) {
            sources.forEach(file -> analysis.files().addFile(file));
            report = analysis.performAnalysisAndCollectReport();
        }
        Rival.require(report.getProcessingErrors().isEmpty(), "all sources are read");
        List<String> found = new ArrayList<>();
        for (RuleViolation one : report.getViolations()) {
            String file = Path.of(one.getFilename()).getFileName().toString();
            found.add(file + ":" + one.getBeginLine() + ":" + one.getBeginColumn() + ":"
                    + one.getRule().getName());
        }
        Collections.sort(found);
        facts.put("violations", found.size());
        return Numbers.scattered(found.hashCode());
    }
}
