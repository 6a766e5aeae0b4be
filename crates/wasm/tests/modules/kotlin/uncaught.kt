// An exception that nothing catches, and how deep it was thrown.

fun fail(depth: Int): Int = if (depth == 0) throw IllegalStateException("nothing catches this") else fail(depth - 1) + 1

fun main() {
    println("begins")
    // Were a message never read, Binaryen would leave it out.
    try {
        throw UnsupportedOperationException("this is caught")
    } catch (caught: RuntimeException) {
        println(caught.message)
    }
    fail(10)
}
