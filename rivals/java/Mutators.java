import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.function.IntFunction;

/**
 * The mutator threads of a process: the same body on each. They are started once, and run all iterations: what places
 * threads from outside finds a new one only after a while.
 */
final class Mutators {
    private final int threads;
    /** A single mutator has a thread of its own, too. */
    private final boolean apart;
    /** As many as were needed so far. */
    private final List<Mutator> started = new ArrayList<>();

    Mutators(int threads, boolean apart) {
        this.threads = threads;
        this.apart = apart;
    }

    int threads() {
        return threads;
    }

    /** A thread that runs one task after the other. */
    private static final class Mutator extends Thread {
        final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
        /** A permit for each task that was left: as long as a thread is in one it may refer to what it worked on. */
        final Semaphore left = new Semaphore(0);

        @Override
        public void run() {
            try {
                while (true) {
                    tasks.take().run();
                    left.release();
                }
            } catch (InterruptedException error) {
                throw new AssertionError(error);
            }
        }
    }

    /**
     * Runs {@code body} on all of them, with their numbers from 0, and gives what it returns in that order. One thread
     * is the calling one, unless it is to be apart.
     */
    <R> List<R> run(IntFunction<R> body) {
        if (threads == 1 && !apart) {
            return Collections.singletonList(body.apply(0));
        }
        while (started.size() < threads) {
            Mutator mutator = new Mutator();
            // So that the process ends when one of them fails.
            mutator.setDaemon(true);
            mutator.start();
            started.add(mutator);
        }
        List<FutureTask<R>> tasks = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int number = thread;
            tasks.add(new FutureTask<>(() -> body.apply(number)));
        }
        for (int thread = 0; thread < threads; thread++) {
            started.get(thread).tasks.add(tasks.get(thread));
        }
        try {
            List<R> results = new ArrayList<>();
            for (FutureTask<R> task : tasks) {
                results.add(result(task));
            }
            for (Mutator mutator : started) {
                mutator.left.acquire();
            }
            return results;
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    /** The same, and the sum of what it returns. */
    long sum(IntFunction<Long> body) {
        long sum = 0;
        for (long part : run(body)) {
            sum += part;
        }
        return sum;
    }

    private static <R> R result(FutureTask<R> task) throws InterruptedException {
        try {
            return task.get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof Error cause) {
                throw cause;
            }
            throw new AssertionError(error.getCause());
        }
    }
}
