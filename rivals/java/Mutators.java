import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.IntFunction;

/** The mutator threads of a run: the same body on each. {@code apart}: one has a thread of its own, too. */
record Mutators(int threads, boolean apart) {
    /**
     * Runs {@code body} on all of them, with their numbers from 0, and gives what it returns in that order. One thread
     * is the calling one, unless it is to be apart.
     */
    <R> List<R> run(IntFunction<R> body) {
        if (threads == 1 && !apart) {
            return Collections.singletonList(body.apply(0));
        }
        List<FutureTask<R>> tasks = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int number = thread;
            tasks.add(new FutureTask<>(() -> body.apply(number)));
        }
        List<Thread> started = new ArrayList<>();
        for (FutureTask<R> task : tasks) {
            Thread thread = new Thread(task);
            // So that the process ends when one of them fails.
            thread.setDaemon(true);
            thread.start();
            started.add(thread);
        }
        try {
            List<R> results = new ArrayList<>();
            for (FutureTask<R> task : tasks) {
                results.add(result(task));
            }
            // Until its end a thread may refer to what it worked on.
            for (Thread thread : started) {
                thread.join();
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
