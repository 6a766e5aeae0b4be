// Binary trees: some that live long, many that do not, and one with shared and mutable nodes.

class Node(val left: Node?, val right: Node?) {
    fun count(): Int = 1 + (left?.count() ?: 0) + (right?.count() ?: 0)
}

fun tree(depth: Int): Node = if (depth == 0) Node(null, null) else Node(tree(depth - 1), tree(depth - 1))

/** A set of numbers that is written all the time: old nodes get young children. */
class Treap<T : Comparable<T>> {
    private class Entry<T>(val key: T, val priority: Int) {
        var left: Entry<T>? = null
        var right: Entry<T>? = null
    }

    private var root: Entry<T>? = null
    private var random = 12345
    var size = 0
        private set

    private fun next(): Int {
        random = random * 1103515245 + 12345
        return (random ushr 8) and 0xffff
    }

    fun add(key: T) {
        root = insert(root, key)
    }

    private fun insert(at: Entry<T>?, key: T): Entry<T> {
        if (at == null) {
            size++
            return Entry(key, next())
        }
        val order = key.compareTo(at.key)
        if (order < 0) {
            val child = insert(at.left, key)
            at.left = child
            if (child.priority > at.priority) {
                at.left = child.right
                child.right = at
                return child
            }
        } else if (order > 0) {
            val child = insert(at.right, key)
            at.right = child
            if (child.priority > at.priority) {
                at.right = child.left
                child.left = at
                return child
            }
        }
        return at
    }

    fun walk(visit: (T) -> Unit) {
        fun from(at: Entry<T>?) {
            if (at == null) return
            from(at.left)
            visit(at.key)
            from(at.right)
        }
        from(root)
    }
}

fun main() {
    val long = tree(9)
    for (depth in 2..8 step 2) {
        val trees = 1 shl (10 - depth)
        var nodes = 0
        for (turn in 1..trees) nodes += tree(depth).count()
        println("$trees trees of depth $depth: $nodes nodes")
    }
    println("the long-lived tree has ${long.count()} nodes")
    val treap = Treap<Int>()
    for (n in 0 until 2000) treap.add(n * 7919 % 1009)
    var last = -1
    var sum = 0L
    treap.walk {
        check(it > last)
        last = it
        sum = sum * 31 + it
    }
    println("${treap.size} keys up to $last, hash $sum")
    val names = Treap<String>()
    for (n in 0 until 300) names.add("name${n * 37 % 101}")
    val all = mutableListOf<String>()
    names.walk { all.add(it) }
    println("${all.size} ${all.first()} ${all.last()} ${all == all.sorted()}")
}
