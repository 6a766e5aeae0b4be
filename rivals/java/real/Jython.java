import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.python.core.PyCode;
import org.python.core.PyObject;
import org.python.util.PythonInterpreter;

/** Jython: threads run a program in Python, each in an interpreter of its own. */
final class Jython implements Workload {
    /** Classes, closures, dictionaries, sorting and strings; `seed` is given, `result` is wanted. */
    private static final String PROGRAM =
            """
            class Random(object):
                def __init__(self, seed):
                    self.state = seed
                def below(self, bound):
                    self.state = (self.state * 1103515245 + 12345) % 2147483648
                    return (self.state >> 8) % bound

            class Node(object):
                def __init__(self, key):
                    self.key, self.left, self.right, self.count = key, None, None, 1

            def insert(root, key):
                if root is None:
                    return Node(key)
                node = root
                while True:
                    if key == node.key:
                        node.count += 1
                        return root
                    side = 'left' if key < node.key else 'right'
                    child = getattr(node, side)
                    if child is None:
                        setattr(node, side, Node(key))
                        return root
                    node = child

            def walk(root):
                stack, node = [], root
                while stack or node:
                    while node:
                        stack.append(node)
                        node = node.left
                    node = stack.pop()
                    yield node.key, node.count
                    node = node.right

            def queens(n, row=0, columns=0, left=0, right=0):
                if row == n:
                    return 1
                found, free = 0, ((1 << n) - 1) & ~(columns | left | right)
                while free:
                    bit = free & -free
                    free ^= bit
                    found += queens(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
                return found

            random = Random(seed)
            words = ['w%d' % random.below(500) for _ in range(4000)]
            root, counts = None, {}
            for word in words:
                root = insert(root, word)
                counts[word] = counts.get(word, 0) + 1
            assert list(walk(root)) == sorted(counts.items())
            best = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:20]
            text = ' '.join('%s:%d' % one for one in best)
            result = queens(6) + len(text)
            for letter in text:
                result = (result * 31 + ord(letter)) % 1000000007
            """;

    private final int runs;
    private final List<Interpreter> interpreters = new ArrayList<>();

    private record Interpreter(PythonInterpreter python, PyCode program) {}

    Jython(Scale scale) {
        runs = scale.of(24, 2);
        Properties own = new Properties();
        own.setProperty("python.import.site", "false");
        own.setProperty("python.cachedir.skip", "true");
        PythonInterpreter.initialize(System.getProperties(), own, new String[0]);
    }

    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        while (interpreters.size() < mutators.threads()) {
            PythonInterpreter python = new PythonInterpreter();
            interpreters.add(new Interpreter(python, python.compile(PROGRAM)));
        }
        return mutators.sum(
                thread -> {
                    Interpreter mine = interpreters.get(thread);
                    long sum = 0;
                    for (int i = thread; i < runs; i += mutators.threads()) {
                        mine.python.set("seed", 9600 + i);
                        mine.python.exec(mine.program);
                        PyObject result = mine.python.get("result");
                        sum += Numbers.scattered(result.asLong());
                    }
                    return sum;
                });
    }
}
