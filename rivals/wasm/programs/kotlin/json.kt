// JSON: a document is printed, read again, changed and printed, a few times.

sealed class Json {
    abstract fun print(to: StringBuilder)
    override fun toString() = StringBuilder().also { print(it) }.toString()
}

data object Null : Json() {
    override fun print(to: StringBuilder) { to.append("null") }
}

class Truth(val value: Boolean) : Json() {
    override fun print(to: StringBuilder) { to.append(value) }
}

class Whole(val value: Long) : Json() {
    override fun print(to: StringBuilder) { to.append(value) }
}

class Text(val value: String) : Json() {
    override fun print(to: StringBuilder) {
        to.append('"')
        for (character in value) when (character) {
            '"', '\\' -> to.append('\\').append(character)
            '\n' -> to.append("\\n")
            else -> to.append(character)
        }
        to.append('"')
    }
}

class Items(val values: List<Json>) : Json() {
    override fun print(to: StringBuilder) {
        to.append('[')
        for ((number, value) in values.withIndex()) {
            if (number > 0) to.append(',')
            value.print(to)
        }
        to.append(']')
    }
}

class Fields(val values: Map<String, Json>) : Json() {
    override fun print(to: StringBuilder) {
        to.append('{')
        var separator = ""
        for ((name, value) in values) {
            to.append(separator)
            Text(name).print(to)
            to.append(':')
            value.print(to)
            separator = ","
        }
        to.append('}')
    }
}

class Reader(private val text: String) {
    private var at = 0

    fun whole(): Json = value().also { check(at == text.length) { "something follows at $at" } }

    private fun value(): Json = when (val character = text[at]) {
        '{' -> fields()
        '[' -> items()
        '"' -> Text(string())
        'n' -> word("null", Null)
        't' -> word("true", Truth(true))
        'f' -> word("false", Truth(false))
        else -> number(character)
    }

    private fun word(word: String, value: Json): Json {
        check(text.startsWith(word, at)) { "no value at $at" }
        at += word.length
        return value
    }

    private fun number(first: Char): Json {
        val start = at
        if (first == '-') at++
        while (at < text.length && text[at] in '0'..'9') at++
        return Whole(text.substring(start, at).toLong())
    }

    private fun string(): String {
        val found = StringBuilder()
        at++
        while (text[at] != '"') {
            if (text[at] == '\\') {
                at++
                found.append(if (text[at] == 'n') '\n' else text[at])
            } else {
                found.append(text[at])
            }
            at++
        }
        at++
        return found.toString()
    }

    private fun items(): Json {
        val found = mutableListOf<Json>()
        at++
        while (text[at] != ']') {
            if (text[at] == ',') at++
            found.add(value())
        }
        at++
        return Items(found)
    }

    private fun fields(): Json {
        val found = LinkedHashMap<String, Json>()
        at++
        while (text[at] != '}') {
            if (text[at] == ',') at++
            val name = string()
            check(text[at] == ':') { "no colon at $at" }
            at++
            found[name] = value()
        }
        at++
        return Fields(found)
    }
}

fun document(people: Int): Json = Items((0 until people).map { number ->
    Fields(
        linkedMapOf(
            "id" to Whole(number.toLong()),
            "name" to Text("Person \"$number\"\nof many"),
            "active" to Truth(number % 3 == 0),
            "friends" to Items((1..6).map { Whole((number * 7919L + it * 104729L) % people) }),
            "address" to Fields(linkedMapOf("city" to Text("City ${number % 100}"), "box" to Null)),
        )
    )
})

/** The document with each number made greater by one. */
fun raised(value: Json): Json = when (value) {
    is Whole -> Whole(value.value + 1)
    is Items -> Items(value.values.map { raised(it) })
    is Fields -> Fields(value.values.mapValues { (_, inner) -> raised(inner) })
    else -> value
}

fun main() {
    val (people, turns) = if (isTiny()) 20 to 2 else 5_000 to 10
    var document = document(people)
    for (turn in 1..turns) {
        val text = document.toString()
        val read = Reader(text).whole()
        check(read.toString() == text)
        document = raised(read)
        if (turn == 1 || turn == turns) println("turn $turn: ${text.length} characters, hash ${text.hashCode()}")
    }
}
