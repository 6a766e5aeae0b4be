// What one operation takes, in nanoseconds: a virtual call, a class test, and an interface test with a call.

import kotlin.time.TimeSource

abstract class Shape {
    abstract fun sides(): Int
}

interface Named {
    fun letters(): Int
}

open class Round : Shape() {
    override fun sides() = 0
}

class Circle : Round(), Named {
    override fun sides() = 1
    override fun letters() = 6
}

class Square : Shape(), Named {
    override fun sides() = 4
    override fun letters() = 6
}

class Triangle : Shape(), Named {
    override fun sides() = 3
    override fun letters() = 8
}

class Blob : Round() {
    override fun sides() = 7
}

fun virtual(shapes: Array<Shape>, turns: Int): Int {
    var sum = 0
    for (turn in 1..turns) for (shape in shapes) sum += shape.sides()
    return sum
}

fun tests(shapes: Array<Shape>, turns: Int): Int {
    var sum = 0
    for (turn in 1..turns) for (shape in shapes) if (shape is Round) sum++
    return sum
}

fun interfaces(shapes: Array<Shape>, turns: Int): Int {
    var sum = 0
    for (turn in 1..turns) for (shape in shapes) if (shape is Named) sum += shape.letters()
    return sum
}

fun main() {
    val turns = if (isTiny()) 10 else 20_000
    val shapes = Array(1000) { number ->
        when (number * 7 % 5) {
            0 -> Round()
            1 -> Circle()
            2 -> Square()
            3 -> Triangle()
            else -> Blob()
        }
    }
    val figures = StringBuilder()
    var result = 0
    fun measure(name: String, body: (Array<Shape>, Int) -> Int) {
        result = result * 31 + body(shapes, turns / 10)
        val start = TimeSource.Monotonic.markNow()
        result = result * 31 + body(shapes, turns)
        val took = start.elapsedNow().inWholeNanoseconds.toDouble()
        figures.append(", \"ns_per_$name\": ${took / (turns * shapes.size.toDouble())}")
    }
    measure("virtual_call", ::virtual)
    measure("class_test", ::tests)
    measure("interface_call", ::interfaces)
    println("""{"result": "$result"$figures}""")
}
