// Sorting: objects by several keys, strings, and numbers by a merge sort of lists.

class Person(val name: String, val age: Int, val number: Int)

class Cell(val value: Int, var next: Cell?)

private var random = 1

fun next(below: Int): Int {
    random = random * 1103515245 + 12345
    return (random ushr 4) % below
}

fun merged(one: Cell?, other: Cell?): Cell? {
    val start = Cell(0, null)
    var last = start
    var left = one
    var right = other
    while (left != null && right != null) {
        if (left.value <= right.value) {
            last.next = left
            last = left
            left = left.next
        } else {
            last.next = right
            last = right
            right = right.next
        }
    }
    last.next = left ?: right
    return start.next
}

/** The first `length` cells of a list in order; the rest stays. */
fun sorted(list: Cell?, length: Int): Cell? {
    if (length == 0) return null
    if (length == 1) return Cell(list!!.value, null)
    val half = length / 2
    var middle = list
    for (turn in 1..half) middle = middle!!.next
    return merged(sorted(list, half), sorted(middle, length - half))
}

fun main() {
    val (size, turns) = if (isTiny()) 100 to 1 else 60_000 to 3
    for (turn in 1..turns) {
        val people = List(size) { Person("name${next(size / 4)}", next(90), it) }
        val ordered = people.sortedWith(compareBy<Person> { it.age }.thenBy { it.name }.thenByDescending { it.number })
        var hash = 0
        for (person in ordered) hash = hash * 31 + person.number
        val names = people.mapTo(HashSet()) { it.name }.sorted()
        var list: Cell? = null
        for (number in 1..4 * size) list = Cell(next(1_000_000), list)
        var cell = sorted(list, 4 * size)
        var sum = 0
        while (cell != null) {
            sum = sum * 31 + cell.value
            cell = cell.next
        }
        println("${names.size} names from ${names.first()} to ${names.last()}, hashes $hash and $sum")
    }
}
