import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Objects with finalizers in a table, replaced at random; those that are ready are taken, and some are kept once more.
 *
 * <p>What is ready is known to Java's finalizer thread alone: it puts them in a queue, where the mutators take them.
 */
final class Finalizers implements Workload {
    /** After how many steps a mutator looks for what is ready. */
    private static final int BETWEEN = 1000;
    /** How many of the objects that are handed out are kept, the latest ones. */
    private static final int KEPT = 1000;
    /** One in this many is kept; a power of two. */
    private static final int KEEP_ONE_IN = 8;

    private static final Ready READY = new Ready();

    /** The number of its resource, scattered. */
    private static final class Content {
        long number;
    }

    private static final class Resource {
        Content content;
        long number;

        /** The one way by which Java hands out an object as it was. */
        @Override
        @SuppressWarnings("deprecation")
        protected void finalize() {
            READY.add(this);
        }
    }

    /** What is ready. */
    private static final class Ready {
        private ArrayDeque<Resource> list = new ArrayDeque<>();
        /** Why one was lost. */
        private OutOfMemoryError full;

        synchronized void add(Resource resource) {
            try {
                list.add(resource);
            } catch (OutOfMemoryError error) {
                full = error;
            }
        }

        /** Takes all, in exchange for an empty list. */
        synchronized ArrayDeque<Resource> exchange(ArrayDeque<Resource> empty) {
            if (full != null) {
                throw full;
            }
            ArrayDeque<Resource> all = list;
            list = empty;
            return all;
        }
    }

    /** What all mutators know of the objects that were handed out. */
    private static final class Taken {
        private static final VarHandle BITS =
                MethodHandles.arrayElementVarHandle(long[].class);
        /** A bit for each object. */
        private final long[] seen;
        /** Numbers scattered and added. */
        final AtomicLong sum = new AtomicLong();

        final AtomicLong count = new AtomicLong();

        Taken(long objects) {
            seen = new long[(int) (objects + 63 >>> 6)];
        }

        /** Whether an object was handed out. */
        boolean has(long number) {
            return (seen[(int) (number >>> 6)] >>> number & 1) != 0;
        }

        /** It is now; whether it was. */
        boolean mark(long number) {
            long bit = 1L << number;
            return ((long) BITS.getAndBitwiseOr(seen, (int) (number >>> 6), bit) & bit) != 0;
        }
    }

    private final int length;
    private final int steps;

    /** 100,000 objects and three million steps, or a hundredth. */
    Finalizers(Scale scale) {
        length = scale.of(100_000, 1000);
        steps = scale.of(3_000_000, 30_000);
    }

    /** A number made of all objects that were handed out. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        long objects = (long) mutators.threads() * (length + steps);
        Taken taken = new Taken(objects);
        long sum = replaceAll(mutators, taken, objects);
        facts.put("finalized", taken.count.get());
        // Without the tables, the rest is handed out.
        collect(taken, objects);
        return sum;
    }

    private long replaceAll(Mutators mutators, Taken taken, long objects) {
        Resource[][] tables = new Resource[mutators.threads()][];
        mutators.run(
                number -> {
                    tables[number] = new Resource[length];
                    replace(number, tables[number], new Resource[KEPT], taken);
                    return null;
                });
        long live = (long) mutators.threads() * length;
        collect(taken, objects - live);
        for (Resource[] table : tables) {
            for (Resource resource : table) {
                Rival.require(
                        !taken.has(resource.number),
                        "an object in the table was not handed out");
            }
        }
        return taken.sum.get();
    }

    /**
     * Collects, and takes all that died until {@code expected} were handed out in all. The finalizer thread may still
     * be busy with the last ones when nothing waits for it any more.
     */
    private static void collect(Taken taken, long expected) {
        System.gc();
        long started = System.nanoTime();
        ArrayDeque<Resource> spare = new ArrayDeque<>();
        do {
            spare = take(taken, null, spare);
        } while (taken.count.get() < expected
                && System.nanoTime() - started < TimeUnit.MINUTES.toNanos(1));
        Rival.require(taken.count.get() == expected, "all that died was handed out");
    }

    /** What one mutator does. */
    private void replace(int thread, Resource[] table, Resource[] kept, Taken taken) {
        long random = 5000 + thread;
        long first = (long) thread * (length + steps);
        ArrayDeque<Resource> spare = new ArrayDeque<>();
        for (int step = 0; step < length + steps; step++) {
            int index = step;
            if (step >= length) {
                random = Numbers.next(random);
                index = Numbers.of(random) % length;
            }
            try {
                table[index] = fresh(first + step);
            } catch (OutOfMemoryError full) {
                // Java does not wait for its finalizer thread before it gives up.
                spare = take(taken, kept, spare);
                table[index] = fresh(first + step);
            }
            if (step % BETWEEN == 0) {
                spare = take(taken, kept, spare);
            }
        }
    }

    private static Resource fresh(long number) {
        Content content = new Content();
        content.number = Numbers.scattered(number);
        Resource resource = new Resource();
        resource.number = number;
        resource.content = content;
        return resource;
    }

    /** Takes all that is ready, in exchange for an empty list; one that is empty again. */
    private static ArrayDeque<Resource> take(
            Taken taken, Resource[] kept, ArrayDeque<Resource> empty) {
        System.runFinalization();
        ArrayDeque<Resource> ready = READY.exchange(empty);
        for (Resource resource; (resource = ready.poll()) != null; ) {
            long number = resource.number;
            Rival.require(
                    resource.content.number == Numbers.scattered(number),
                    "an object that is handed out is whole");
            Rival.require(!taken.mark(number), "an object is handed out once");
            long before = taken.count.getAndIncrement();
            taken.sum.getAndAdd(Numbers.scattered(number));
            if (kept != null && number % KEEP_ONE_IN == 0) {
                kept[(int) (before % KEPT)] = resource;
            }
        }
        return ready;
    }
}
