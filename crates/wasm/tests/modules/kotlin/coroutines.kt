// Coroutines: generators, tasks in turns, a channel between them, and what one throws.

import kotlin.coroutines.*

class Tree(val left: Tree?, val value: Int, val right: Tree?) {
    /** All values in order, from a coroutine for each node. */
    fun values(): Sequence<Int> = sequence {
        left?.let { yieldAll(it.values()) }
        yield(value)
        right?.let { yieldAll(it.values()) }
    }
}

fun insert(tree: Tree?, value: Int): Tree = when {
    tree == null -> Tree(null, value, null)
    value < tree.value -> Tree(insert(tree.left, value), tree.value, tree.right)
    else -> Tree(tree.left, tree.value, insert(tree.right, value))
}

/** Runs tasks in turns, one step of each. */
class Scheduler {
    private val ready = ArrayDeque<() -> Unit>()
    val failures = mutableListOf<String>()

    fun start(name: String, task: suspend Scheduler.() -> Unit) {
        val ending = Continuation<Unit>(EmptyCoroutineContext) { result ->
            result.exceptionOrNull()?.let { failures += "$name: ${it.message}" }
        }
        ready += { task.startCoroutine(this, ending) }
    }

    suspend fun pass() = suspendCoroutine { rest -> ready += { rest.resume(Unit) } }

    fun later(step: () -> Unit) { ready += step }

    fun run() {
        while (true) ready.removeFirstOrNull()?.invoke() ?: return
    }
}

class Channel<T>(private val scheduler: Scheduler) {
    private val values = ArrayDeque<T>()
    private val waiting = ArrayDeque<Continuation<T>>()

    fun send(value: T) {
        val next = waiting.removeFirstOrNull() ?: return values.addLast(value)
        scheduler.later { next.resume(value) }
    }

    suspend fun receive(): T = values.removeFirstOrNull() ?: suspendCoroutine { waiting += it }
}

fun primes() = sequence {
    var numbers = generateSequence(2) { it + 1 }.iterator()
    while (true) {
        val prime = numbers.next()
        yield(prime)
        val rest = numbers
        numbers = sequence { for (number in rest) if (number % prime != 0) yield(number) }.iterator()
    }
}

suspend fun deep(scheduler: Scheduler, depth: Int): Int {
    if (depth == 0) {
        scheduler.pass()
        throw IllegalStateException("from below")
    }
    try {
        return 1 + deep(scheduler, depth - 1)
    } finally {
        if (depth % 100 == 0) scheduler.pass()
    }
}

fun main() {
    var tree: Tree? = null
    var state = 7
    repeat(200) {
        state = state * 1103515245 + 12345
        tree = insert(tree, (state ushr 16) % 1000)
    }
    val values = tree!!.values().toList()
    println("${values.size} ${values == values.sorted()} ${values.take(8)}")
    println(primes().drop(40).take(5).toList())

    val scheduler = Scheduler()
    val channel = Channel<String>(scheduler)
    val log = StringBuilder()
    for (name in listOf("a", "b", "c")) scheduler.start(name) {
        repeat(20) { step ->
            if (step % 7 == 6) channel.send("$name$step")
            pass()
        }
    }
    scheduler.start("reader") {
        while (log.count { it == ' ' } < 6) log.append(channel.receive()).append(' ')
    }
    scheduler.start("deep") { deep(this, 1000) }
    scheduler.start("caught") {
        val depth = try {
            deep(this, 300)
        } catch (error: IllegalStateException) {
            -1
        }
        log.append(depth)
    }
    scheduler.run()
    println(log)
    println(scheduler.failures)
}
