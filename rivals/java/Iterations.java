import com.sun.management.HotSpotDiagnosticMXBean;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The iterations of a workload in one process, timed; one line of JSON at the end. */
final class Iterations {
    private Iterations() {}

    /** What the clocks say, in seconds. */
    private static final class Moment {
        private static final OperatingSystemMXBean SYSTEM =
                ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        final double wall = System.nanoTime() * 1e-9;
        final double cpu = SYSTEM.getProcessCpuTime() * 1e-9;

        /** The fields of the line. */
        String since(Moment from) {
            return String.format(
                    "\"wall_s\":%.6f,\"cpu_s\":%.6f", wall - from.wall, cpu - from.cpu);
        }
    }

    /** How many collections there were, and how long they took in milliseconds. */
    private static final class Collections {
        long count;
        long time;

        Collections() {
            for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
                count += bean.getCollectionCount();
                time += bean.getCollectionTime();
            }
        }
    }

    /** The kernel's high-water mark of resident memory; 0 if unknown. */
    private static long peakKb() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            String[] words = line.split("\\s+");
            if (words[0].equals("VmHWM:")) {
                return Long.parseLong(words[1]);
            }
        }
        return 0;
    }

    /** What the heap may have. */
    private static long heapMb() {
        var options = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        return Long.parseLong(options.getVMOption("MaxHeapSize").getValue()) >> 20;
    }

    /** Runs and prints. */
    static void run(String name, int iterations, Mutators mutators, Workload workload)
            throws IOException {
        Map<String, Object> facts = new LinkedHashMap<>();
        long result = 0;
        List<String> list = new ArrayList<>();
        long heap = heapMb();
        Collections before = new Collections();
        Moment start = new Moment();
        for (int i = 0; i < iterations; i++) {
            Moment began = new Moment();
            result = workload.run(mutators, facts);
            list.add("{" + new Moment().since(began) + ",\"heap_mb\":" + heap + "}");
        }
        String whole = new Moment().since(start);
        Collections after = new Collections();
        StringBuilder more = new StringBuilder();
        facts.forEach((fact, value) -> more.append(",\"" + fact + "\":" + value));
        System.out.printf(
                "{\"benchmark\":\"%s\",\"result\":\"%016x\",%s,\"peak_kb\":%d,\"collections\":%d,"
                        + "\"total_pause_s\":%.3f,\"mutators\":%d%s%s}%n",
                name,
                result,
                whole,
                peakKb(),
                after.count - before.count,
                (after.time - before.time) * 1e-3,
                mutators.threads(),
                more,
                iterations > 1 ? ",\"iterations\":[" + String.join(",", list) + "]" : "");
    }
}
