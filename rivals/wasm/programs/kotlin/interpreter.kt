// An interpreter: a small language with functions, whose program is a tree of objects that evaluate themselves.

sealed class Value
class Num(val value: Int) : Value()
class Cons(val head: Value, val tail: Value) : Value()
data object Nil : Value()
class Closure(val parameters: Int, val locals: Int, val body: Node, val captured: Frame?) : Value()

class Frame(size: Int, val outer: Frame?) {
    val slots = arrayOfNulls<Value>(size)
}

abstract class Node {
    abstract fun evaluate(frame: Frame): Value
    fun number(frame: Frame): Int = (evaluate(frame) as Num).value
}

class Constant(private val value: Value) : Node() {
    override fun evaluate(frame: Frame) = value
}

class Local(private val slot: Int, private val depth: Int) : Node() {
    override fun evaluate(frame: Frame): Value {
        var at = frame
        for (level in 1..depth) at = at.outer!!
        return at.slots[slot]!!
    }
}

class Function(private val parameters: Int, private val locals: Int, private val body: () -> Node) : Node() {
    private val made by lazy(LazyThreadSafetyMode.NONE) { body() }
    override fun evaluate(frame: Frame) = Closure(parameters, locals, made, frame)
}

class Call(private val function: Node, private val arguments: List<Node>) : Node() {
    override fun evaluate(frame: Frame): Value {
        val called = function.evaluate(frame) as Closure
        val inner = Frame(called.locals, called.captured)
        for (index in arguments.indices) inner.slots[index] = arguments[index].evaluate(frame)
        return called.body.evaluate(inner)
    }
}

class If(private val test: Node, private val yes: Node, private val no: Node) : Node() {
    override fun evaluate(frame: Frame) = if (test.evaluate(frame) !is Nil) yes.evaluate(frame) else no.evaluate(frame)
}

class Binary(private val name: String, private val left: Node, private val right: Node) : Node() {
    private val truth = Num(1)

    override fun evaluate(frame: Frame): Value {
        if (name == "cons") return Cons(left.evaluate(frame), right.evaluate(frame))
        val one = left.number(frame)
        val other = right.number(frame)
        return when (name) {
            "+" -> Num(one + other)
            "-" -> Num(one - other)
            "*" -> Num(one * other)
            "mod" -> Num(one % other)
            "<" -> if (one < other) truth else Nil
            "=" -> if (one == other) truth else Nil
            else -> throw IllegalStateException("$name is no operation")
        }
    }
}

class Unary(private val name: String, private val of: Node) : Node() {
    override fun evaluate(frame: Frame): Value {
        val value = of.evaluate(frame)
        return when (name) {
            "head" -> (value as Cons).head
            "tail" -> (value as Cons).tail
            else -> throw IllegalStateException("$name is no operation")
        }
    }
}

/** Text to nodes; names are known by scope, innermost last. */
class Reader(text: String) {
    private val tokens = text.replace("(", " ( ").replace(")", " ) ").split(' ', '\n').filter { it.isNotEmpty() }
    private var at = 0

    val isAtEnd get() = at == tokens.size

    fun next(scopes: List<List<String>>): Node {
        val token = tokens[at++]
        if (token != "(") return named(token, scopes)
        val node = when (val head = tokens[at]) {
            "fun" -> {
                at += 2
                val names = ArrayList<String>()
                while (tokens[at] != ")") names.add(tokens[at++])
                at++
                // The body is read now, since the reader is here.
                val body = next(scopes + listOf(names))
                Function(names.size, names.size) { body }
            }
            "if" -> {
                at++
                If(next(scopes), next(scopes), next(scopes))
            }
            "+", "-", "*", "mod", "<", "=", "cons" -> {
                at++
                Binary(head, next(scopes), next(scopes))
            }
            "head", "tail" -> {
                at++
                Unary(head, next(scopes))
            }
            else -> {
                val function = next(scopes)
                val arguments = ArrayList<Node>()
                while (tokens[at] != ")") arguments.add(next(scopes))
                Call(function, arguments)
            }
        }
        check(tokens[at++] == ")")
        return node
    }

    private fun named(token: String, scopes: List<List<String>>): Node {
        token.toIntOrNull()?.let { return Constant(Num(it)) }
        if (token == "nil") return Constant(Nil)
        for ((depth, names) in scopes.asReversed().withIndex()) {
            val slot = names.indexOf(token)
            if (slot >= 0) return Local(slot, depth)
        }
        throw IllegalStateException("$token is not defined")
    }
}

/** Functions of a program know each other by the slots of the outermost frame. */
val FUNCTIONS = listOf(
    "fib" to "(fun (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))",
    "range" to "(fun (from to) (if (= from to) nil (cons from (range (+ from 1) to))))",
    "map" to "(fun (f list) (if list (cons (f (head list)) (map f (tail list))) nil))",
    "fold" to "(fun (f sum list) (if list (fold f (f sum (head list)) (tail list)) sum))",
    "filter" to "(fun (f list) (if list (if (f (head list)) (cons (head list) (filter f (tail list))) (filter f (tail list))) nil))",
    "sieve" to "(fun (list) (if list (cons (head list) (sieve (filter (fun (n) (if (= (mod n (head list)) 0) nil 1)) (tail list)))) nil))",
    "squares" to "(fun (n) (fold (fun (a b) (mod (+ a b) 1000003)) 0 (map (fun (m) (mod (* m m) 1000)) (range 0 n))))",
    "repeat" to "(fun (n f) (if (= n 1) (f n) (fold (fun (a b) (repeat (- n 1) f)) 0 (cons (f n) nil))))",
)

fun main() {
    val tiny = isTiny()
    val names = FUNCTIONS.map { it.first }
    val world = Frame(names.size, null)
    for ((slot, function) in FUNCTIONS.withIndex()) {
        world.slots[slot] = Reader(function.second).next(listOf(names)).evaluate(world)
    }
    val (fib, primes, squares) = if (tiny) listOf(8, 30, 10) else listOf(30, 1200, 300)
    val lines = listOf(
        "(fib $fib)",
        "(fold (fun (a b) (mod (+ (* a 31) b) 1000003)) 0 (sieve (range 2 $primes)))",
        "(repeat ${if (tiny) 3 else 100} (fun (n) (squares $squares)))",
    )
    for (line in lines) println("$line = ${Reader(line).next(listOf(names)).number(world)}")
}
