import java.util.Map;

/** Many threads that each keep a few short lists, and replace one of them at each step, in a heap of a few MB. */
final class Tiny implements Workload {
    /** Lists of each thread. */
    private static final int LISTS = 64;
    /** Nodes of a list, at most. */
    private static final int LONGEST = 16;

    private static final class Node {
        Node next;
        long number;
    }

    private final int steps;

    /** A million steps of each thread, or 2000. */
    Tiny(Scale scale) {
        steps = scale.of(1_000_000, 2000);
    }

    /** A number made of all lists of all threads. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        return mutators.sum(thread -> replace(6000 + thread));
    }

    /** A number made of all lists, when they are dropped or left. */
    private long replace(long random) {
        Node[] lists = new Node[LISTS];
        long sum = 0;
        for (long step = 0; step < steps; step++) {
            random = Numbers.next(random);
            int length = 1 + Numbers.of(random) % LONGEST;
            Node list = null;
            for (int number = 0; number < length; number++) {
                Node node = new Node();
                node.number = step << 8 | number;
                node.next = list;
                list = node;
            }
            random = Numbers.next(random);
            int index = Numbers.of(random) % LISTS;
            sum = Numbers.chained(sum, added(lists[index]));
            lists[index] = list;
        }
        for (Node left : lists) {
            sum = Numbers.chained(sum, added(left));
        }
        return sum;
    }

    /** The numbers of a list. */
    private static long added(Node list) {
        long sum = 0;
        for (Node node = list; node != null; node = node.next) {
            sum = Numbers.chained(sum, node.number);
        }
        return sum;
    }
}
