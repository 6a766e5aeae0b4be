// The least that a program does: how long a process takes to start and end.

fun main() {
    println("Hello from Kotlin")
}
