// A queue: each object lives as long as hundreds of thousands of others take to pass, so all of them survive young collections,
// and die old.

class Message(val number: Int, val text: String) {
    var next: Message? = null
}

class Queue {
    private var first: Message? = null
    private var last: Message? = null

    fun put(message: Message) {
        val before = last
        if (before == null) first = message else before.next = message
        last = message
    }

    fun take(): Message {
        val message = first!!
        first = message.next
        if (first == null) last = null
        return message
    }
}

fun main() {
    val length = if (isTiny()) 1_000 else 300_000
    val queue = Queue()
    val texts = Array(16) { "text $it" }
    for (number in 0 until length) queue.put(Message(number, texts[number % 16]))
    var sum = 0
    for (number in length until 30 * length) {
        val taken = queue.take()
        sum = sum * 31 + taken.number + taken.text.length
        queue.put(Message(number, texts[number % 16]))
    }
    println("the next is ${queue.take().number}, hash $sum")
}
