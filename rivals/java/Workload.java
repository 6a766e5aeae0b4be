import java.util.Map;

/** A workload that is ready to run: its input is read. */
interface Workload {
    /** Runs once; what it comes to. The facts are fields of the line, as JSON has them. */
    long run(Mutators mutators, Map<String, Object> facts);
}
