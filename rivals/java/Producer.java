import java.util.List;
import java.util.Map;

/**
 * One thread allocates messages, the others consume them, through a ring of a few batches.
 *
 * <p>A producer that is alone consumes what finds no place.
 */
final class Producer implements Workload {
    /** Places of the ring. */
    private static final int PLACES = 64;
    /** Messages of a batch. */
    private static final int BATCH = 16;
    /** Bytes of a message, at most. */
    private static final int LARGEST = 1024;

    private static final class Message {
        Message next;
        byte[] bytes;
        long number;
    }

    /** How many messages somebody consumed, and a number made of them. */
    private static final class Consumed extends Apart {
        long messages;
        long sum;

        void add(Message first) {
            long messages = 0;
            long sum = 0;
            for (Message message = first; message != null; message = message.next) {
                sum += Numbers.scattered(Numbers.hashOf(message.bytes) + message.number);
                messages++;
            }
            this.messages += messages;
            this.sum += sum;
        }
    }

    /** The ring, which its monitor protects: batches from {@code first} on. */
    private static final class Ring {
        private final Message[] places = new Message[PLACES];
        private int first;
        private int count;
        private boolean over;

        /** Puts a batch there, if there is a place. */
        synchronized boolean offer(Message batch) {
            if (count == PLACES) {
                return false;
            }
            places[(first + count) % PLACES] = batch;
            count++;
            notifyAll();
            return true;
        }

        /** Puts a batch there as soon as there is a place. */
        synchronized void put(Message batch) throws InterruptedException {
            while (!offer(batch)) {
                wait();
            }
        }

        /** Takes the first batch as soon as there is one; null when no more will come. */
        synchronized Message take() throws InterruptedException {
            while (count == 0) {
                if (over) {
                    return null;
                }
                wait();
            }
            Message batch = places[first];
            places[first] = null;
            first = (first + 1) % PLACES;
            count--;
            notifyAll();
            return batch;
        }

        /** No more will come. */
        synchronized void end() {
            over = true;
            notifyAll();
        }
    }

    private final int batches;

    /** 64,000 batches, or 640. */
    Producer(Scale scale) {
        batches = scale.of(64_000, 640);
    }

    /** A number made of all messages, whichever thread consumed them. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        Ring ring = new Ring();
        boolean alone = mutators.threads() == 1;
        List<Consumed> all = mutators.run(number -> work(ring, number == 0, alone));
        long messages = 0;
        long sum = 0;
        for (Consumed part : all) {
            messages += part.messages;
            sum += part.sum;
        }
        Rival.require(messages == (long) batches * BATCH, "each message was consumed once");
        facts.put("messages", messages);
        return sum;
    }

    /** What one thread does; what it consumed. */
    private Consumed work(Ring ring, boolean produces, boolean alone) {
        Consumed consumed = new Consumed();
        try {
            if (produces) {
                produce(ring, alone, consumed);
            }
            if (!produces || alone) {
                consumeAll(ring, consumed);
            }
            return consumed;
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    /** Makes all batches. */
    private void produce(Ring ring, boolean alone, Consumed consumed) throws InterruptedException {
        try {
            for (long number = 0; number < batches; number++) {
                Message batch = batch(number * BATCH);
                if (alone) {
                    while (!ring.offer(batch)) {
                        consumed.add(ring.take());
                    }
                } else {
                    ring.put(batch);
                }
            }
        } finally {
            ring.end();
        }
    }

    /** A list of messages. */
    private static Message batch(long from) {
        Message list = null;
        for (long number = from; number < from + BATCH; number++) {
            byte[] bytes = new byte[(int) Numbers.scattered(number) & LARGEST - 1];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) (number + i);
            }
            Message message = new Message();
            message.number = number;
            message.next = list;
            message.bytes = bytes;
            list = message;
        }
        return list;
    }

    /** Consumes until no more will come. */
    private static void consumeAll(Ring ring, Consumed consumed) throws InterruptedException {
        for (Message batch; (batch = ring.take()) != null; ) {
            consumed.add(batch);
        }
    }
}
