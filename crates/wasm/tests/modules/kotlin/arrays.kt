// Arrays that are large, of all kinds of elements: filled, copied, sorted, and arrays of arrays.

class Box(val number: Int)

fun sieve(limit: Int): Int {
    val composite = BooleanArray(limit)
    for (number in 2 until limit) {
        if (composite[number] || number.toLong() * number >= limit) continue
        for (multiple in number * number until limit step number) composite[multiple] = true
    }
    return (2 until limit).count { !composite[it] }
}

fun transposed(of: Array<DoubleArray>): Array<DoubleArray> =
    Array(of[0].size) { column -> DoubleArray(of.size) { of[it][column] } }

fun product(left: Array<DoubleArray>, right: Array<DoubleArray>): Array<DoubleArray> {
    val columns = transposed(right)
    return Array(left.size) { row ->
        DoubleArray(columns.size) { column ->
            var sum = 0.0
            for (i in columns[column].indices) sum += left[row][i] * columns[column][i]
            sum
        }
    }
}

fun main() {
    println("primes: ${sieve(500_000)}")

    // References, most of them null, each to a box that moves.
    val boxes = arrayOfNulls<Box>(200_000)
    var state = 1
    repeat(3000) {
        state = state * 69069 + 1
        boxes[(state ushr 8) % boxes.size] = Box(it)
    }
    println("boxes: ${boxes.count { it != null }}, ${boxes.sumOf { it?.number ?: 0 }}")
    boxes.copyInto(boxes, 100, 0, boxes.size - 100)
    println("moved: ${boxes.count { it != null }}, ${boxes.indexOfFirst { it != null }}")
    boxes.fill(boxes.last { it != null }, 1000, 2000)
    println("filled: ${boxes.toSet().size}")

    val bytes = ByteArray(1_000_000) { (it * 7).toByte() }
    println("bytes: ${bytes.fold(0) { hash, byte -> hash * 31 + byte }}")
    val shorts = ShortArray(300_000) { (it * it).toShort() }
    shorts.sort()
    println("shorts: ${shorts[0]} ${shorts[150_000]} ${shorts.last()}")
    val longs = LongArray(100_000) { (it.toLong() * 2654435761L) xor (it.toLong() shl 40) }
    longs.sort(1000, 99_000)
    println("longs: ${longs[1000]} ${longs[98_999]}")
    println("copy: ${longs.copyOfRange(500, 600_00).sum()} ${longs.copyOf(200_000)[150_000]}")

    val left = Array(60) { row -> DoubleArray(60) { column -> (row - column) / 8.0 } }
    println("product: ${product(left, transposed(left)).map { it.sum() }.take(3)}")

    val texts = Array(2000) { "text ${(it * 7919) % 2000}" }
    texts.sort()
    println("texts: ${texts.first()}, ${texts.last()}, ${texts.indexOf("text 77")}")

    var list = mutableListOf<IntArray>()
    for (length in 0 until 300) list.add(IntArray(length * 100) { it xor length })
    list = list.filterTo(mutableListOf()) { it.size % 300 == 0 }
    println("list: ${list.size} ${list.sumOf { it.sum() }}")
}
