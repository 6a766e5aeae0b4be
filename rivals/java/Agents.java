import java.util.Map;

/**
 * Many unequal threads that compute for themselves, share cells under locks, and allocate little.
 *
 * <p>The last agent does sixteen times as many steps as the first. The one that brings a cell's notes to eight takes them.
 */
final class Agents implements Workload {
    /** Threads share the agents among them. */
    private static final int AGENTS = 16;

    private static final int CELLS = 1024;
    private static final int LOCKS = 32;
    private static final int REGISTERS = 64;
    /** Steps from one post to the next. */
    private static final int BETWEEN_POSTS = 4;
    /** Posts from one note to the next. */
    private static final int BETWEEN_NOTES = 4;
    /** Notes of a cell before they are taken. */
    private static final int MOST_NOTES = 8;

    private static final class Cell {
        Note newest;
        /** The sum of all posts. */
        long posts;

        long notes;
    }

    private static final class Note {
        Note next;
        long number;
    }

    /** How many notes somebody took, and a number made of them. */
    private static final class Taken extends Apart {
        long notes;
        long sum;

        void add(Note first) {
            for (Note note = first; note != null; note = note.next) {
                notes++;
                sum += Numbers.scattered(note.number);
            }
        }
    }

    /** What the threads share. Cell i is protected by the monitor of lock i modulo their number. */
    private static final class Field {
        private final Cell[] cells = new Cell[CELLS];
        private final Object[] locks = new Object[LOCKS];

        Field() {
            for (int i = 0; i < LOCKS; i++) {
                locks[i] = new Object();
            }
            for (int i = 0; i < CELLS; i++) {
                cells[i] = new Cell();
            }
        }

        /** Posts a number to a cell, with a note unless it is null; the notes that are taken. */
        Note post(int index, long number, Note note) {
            synchronized (locks[index % LOCKS]) {
                Cell cell = cells[index];
                cell.posts += number;
                if (note == null) {
                    return null;
                }
                note.number = number;
                note.next = cell.newest;
                cell.newest = note;
                cell.notes++;
                if (cell.notes < MOST_NOTES) {
                    return null;
                }
                Note all = cell.newest;
                cell.newest = null;
                cell.notes = 0;
                return all;
            }
        }
    }

    /** Of the first agent. */
    private final int steps;

    /** 200,000 steps of the first agent, or 3000. */
    Agents(Scale scale) {
        steps = scale.of(200_000, 3000);
    }

    /** A number made of all posts and notes, wherever they are. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        Field field = new Field();
        Taken all = new Taken();
        for (Taken part : mutators.run(thread -> work(field, thread, mutators.threads()))) {
            all.notes += part.notes;
            all.sum += part.sum;
        }
        long posts = 0;
        for (Cell cell : field.cells) {
            long before = all.notes;
            all.add(cell.newest);
            Rival.require(all.notes - before == cell.notes, "a cell has its notes");
            posts += cell.posts;
        }
        long expected = 0;
        for (int share = 1; share <= AGENTS; share++) {
            expected += steps * share / BETWEEN_POSTS / BETWEEN_NOTES;
        }
        Rival.require(all.notes == expected, "no note is lost");
        facts.put("notes", all.notes);
        return all.sum + posts;
    }

    private Taken work(Field field, int first, int threads) {
        Taken taken = new Taken();
        for (int agent = first; agent < AGENTS; agent += threads) {
            act(field, agent, taken);
        }
        return taken;
    }

    /** All steps of an agent. Adds the notes that it takes. */
    private void act(Field field, int agent, Taken taken) {
        long random = 8000 + agent;
        int[] registers = new int[REGISTERS];
        int most = steps * (agent + 1);
        for (int step = 1; step <= most; step++) {
            int last = step ^ agent;
            for (int i = 0; i < REGISTERS; i++) {
                last += registers[i] * 5;
                registers[i] = last;
            }
            if (step % BETWEEN_POSTS == 0) {
                boolean withNote = step % (BETWEEN_POSTS * BETWEEN_NOTES) == 0;
                random = Numbers.next(random);
                int cell = Numbers.of(random) % CELLS;
                Note note = withNote ? new Note() : null;
                taken.add(field.post(cell, last & 0xffffffffL, note));
            }
        }
    }
}
