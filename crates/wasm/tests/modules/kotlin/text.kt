// Words of a text: split, counted in maps, sorted, and put together again.

val TEXT = """
    The heap is divided. Young objects die young, and the old ones
    live on: the old heap is seldom walked, the young heap often.
    Größe, naïve, 東京 and 🎻 are words as well.
"""

fun words(text: String): List<String> =
    text.lowercase().split(' ', '\n', '.', ',', ':').filter { it.isNotEmpty() }

fun main() {
    val words = words(TEXT)
    val counts = mutableMapOf<String, Int>()
    for (word in words) counts[word] = (counts[word] ?: 0) + 1
    for ((word, count) in counts.entries.sortedWith(compareBy({ -it.value }, { it.key })).take(8)) {
        println("${word.padEnd(8, '.')}$count")
    }
    val byLength = words.toSet().groupBy { it.length }
    for (length in byLength.keys.sorted()) {
        println("$length: ${byLength.getValue(length).sorted().joinToString(" ")}")
    }
    println(words.map { it.reversed() }.sorted().first())
    println(words.joinToString("", limit = 12) { it.first().toString() })

    // Numbers: boxed, of each size, and written with a point.
    val mixed: List<Any> = listOf(1, 2L, 3.5, 4.25f, 'x', true, 7.toByte(), 300.toShort(), "text", 255u)
    println(mixed.joinToString("|") { "${it::class.simpleName}=$it" })
    println(listOf(1.0 / 3, 1e21, -0.0, 1e-7, Double.MAX_VALUE, Double.NaN).joinToString())
    println(Long.MIN_VALUE.toString() + " " + ULong.MAX_VALUE + " " + (-17).mod(5) + " " + "ff".toInt(16))

    // A sieve, a matrix, and a table of strings that grows.
    val composite = BooleanArray(1000)
    val primes = (2 until 1000).filter { n ->
        if (!composite[n]) for (k in n * n until 1000 step n) composite[k] = true
        !composite[n]
    }
    println("${primes.size} primes, the last is ${primes.last()}, their sum ${primes.sum()}")
    val square = Array(6) { row -> DoubleArray(6) { column -> (row + 1.0) / (column + 1.0) } }
    println(square.sumOf { row -> row.sum() })
    val builder = StringBuilder()
    repeat(300) { builder.append(it * it).append(if (it % 2 == 0) '-' else '+') }
    println("${builder.length} ${builder.toString().hashCode()}")
    val queue = ArrayDeque<Int>()
    for (n in 1..500) {
        queue.addLast(n)
        if (n % 3 == 0) queue.addLast(queue.removeFirst() + queue.removeFirst())
    }
    println("${queue.size} ${queue.sum()}")
}
