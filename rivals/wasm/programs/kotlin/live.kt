// Many objects that live, under many more that do not, and the longest time that a few hundred allocations took: a stop of the
// collector, if it has any.

import kotlin.time.TimeSource

class Node(val left: Node?, val right: Node?) {
    fun count(): Int = 1 + (left?.count() ?: 0) + (right?.count() ?: 0)
}

class Cell(val value: Int, val next: Cell?)

fun tree(depth: Int): Node = if (depth == 0) Node(null, null) else Node(tree(depth - 1), tree(depth - 1))

fun main() {
    val tiny = isTiny()
    val live = tree(if (tiny) 10 else 20)
    val cells = if (tiny) 30_000 else 30_000_000
    var last: Cell? = null
    var sum = 0
    var longest = 0L
    var before = TimeSource.Monotonic.markNow()
    for (n in 1..cells) {
        last = Cell(n, if (n % 16 == 0) null else last)
        if (n % 500 == 0) {
            var cell = last
            while (cell != null) {
                sum = sum * 31 + cell.value
                cell = cell.next
            }
            val now = TimeSource.Monotonic.markNow()
            longest = maxOf(longest, (now - before).inWholeNanoseconds)
            before = now
        }
    }
    println("""{"result": "${live.count()} $sum", "longest_gap_s": ${longest / 1e9}}""")
}
