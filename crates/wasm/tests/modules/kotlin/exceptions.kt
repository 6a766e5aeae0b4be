// Exceptions: through deep stacks, with what must be done on the way, and from one kind of failure to another.

class Refused(val depth: Int, val path: List<String>) : Exception("refused at depth $depth")

var undone = 0

/** Goes down, with an object on each level that lives until the level ends. */
fun descend(depth: Int, most: Int, path: List<String>): Int {
    val here = path + "level$depth"
    if (depth == most) throw Refused(depth, here.takeLast(3))
    try {
        return descend(depth + 1, most, here.takeLast(4)) + here.size
    } finally {
        undone += here.size
    }
}

fun classify(action: () -> Any?): String =
    try {
        "value ${action()}"
    } catch (refused: Refused) {
        "refused ${refused.path.joinToString("/")}"
    } catch (wrong: IllegalArgumentException) {
        "argument ${wrong.message}"
    } catch (error: ArithmeticException) {
        "arithmetic"
    } catch (error: RuntimeException) {
        "runtime ${error::class.simpleName} ${error.message}, for ${error.cause?.message}"
    }

sealed interface Shape
data class Circle(val radius: Int) : Shape
data class Box(val width: Int, val height: Int) : Shape

fun main() {
    println(classify { descend(0, 200, emptyList()) })
    println("undone $undone")
    println(classify { "12x".toInt() })
    println(classify { require(undone < 0) { "undone is $undone" } })
    println(classify { 1 / (undone - undone) })
    println(classify { mutableListOf(1, 2, 3)[3] })
    val shapes: List<Any> = listOf(Circle(2), Box(3, 4), "none")
    println(classify { shapes.sumOf { (it as Shape).hashCode() } })
    println(classify { shapes.filterIsInstance<Shape>().joinToString() })
    println(classify { mapOf(1 to 2).getValue(3) })
    println(classify { emptyList<Int>().iterator().next() })
    println(classify {
        try {
            descend(0, 30, emptyList())
        } catch (refused: Refused) {
            throw IllegalStateException("the state is wrong", refused)
        }
    })
    // One on each turn of a loop, with garbage between.
    var caught = 0
    for (turn in 1..300) {
        try {
            val garbage = List(turn % 7) { "$it" }
            if (turn % 3 != 0) throw Refused(turn, garbage)
            caught += 1000
        } catch (refused: Refused) {
            caught += refused.path.size
        }
    }
    println("caught $caught")
    val results = listOf("1", "two", "3").map { runCatching { it.toInt() } }
    println(results.map { it.getOrDefault(-1) })
}
