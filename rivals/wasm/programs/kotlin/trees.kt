// Binary trees: one that lives long, and many that are built, counted and dropped.

class Node(val left: Node?, val right: Node?) {
    fun count(): Int = 1 + (left?.count() ?: 0) + (right?.count() ?: 0)
}

fun tree(depth: Int): Node = if (depth == 0) Node(null, null) else Node(tree(depth - 1), tree(depth - 1))

fun main() {
    val deepest = if (isTiny()) 8 else 17
    println("a tree of depth ${deepest + 1}: ${tree(deepest + 1).count()} nodes")
    val long = tree(deepest)
    for (depth in 4..deepest step 4) {
        val trees = 1 shl (deepest - depth + 4)
        var nodes = 0
        for (turn in 1..trees) nodes += tree(depth).count()
        println("$trees trees of depth $depth: $nodes nodes")
    }
    println("the long-lived tree: ${long.count()} nodes")
}
