// A small Lisp: read, evaluated with closures and tail calls of its own.

sealed class Value
data class Num(val value: Long) : Value()
data class Symbol(val name: String) : Value()
data class Pair(val head: Value, val tail: Value) : Value()
data object Nil : Value()
class Builtin(val call: (List<Value>) -> Value) : Value()
class Closure(val parameters: List<String>, val body: Value, val scope: Scope) : Value()

class Scope(private val outer: Scope?) {
    private val names = HashMap<String, Value>()

    operator fun get(name: String): Value =
        names[name] ?: outer?.get(name) ?: throw NoSuchElementException("'$name' is not defined")

    operator fun set(name: String, value: Value) {
        names[name] = value
    }
}

class Reader(text: String) {
    private val tokens = text.replace("(", " ( ").replace(")", " ) ").split(' ', '\n').filter { it.isNotEmpty() }
    private var at = 0

    fun all(): List<Value> = buildList { while (at < tokens.size) add(next()) }

    private fun next(): Value {
        val token = tokens.getOrNull(at++) ?: throw IllegalStateException("the text ends within a list")
        if (token == ")") throw IllegalStateException("a ) too many")
        if (token != "(") return token.toLongOrNull()?.let { Num(it) } ?: Symbol(token)
        val items = mutableListOf<Value>()
        while (tokens.getOrNull(at) != ")") items.add(next())
        at++
        return list(items)
    }
}

fun list(items: List<Value>): Value = items.foldRight(Nil as Value) { item, rest -> Pair(item, rest) }

fun items(of: Value): List<Value> = buildList {
    var rest = of
    while (rest is Pair) {
        add(rest.head)
        rest = rest.tail
    }
}

fun show(value: Value): String = when (value) {
    is Num -> value.value.toString()
    is Symbol -> value.name
    is Pair, Nil -> items(value).joinToString(" ", "(", ")") { show(it) }
    is Builtin -> "#builtin"
    is Closure -> "#closure/${value.parameters.size}"
}

fun evaluate(start: Value, outermost: Scope): Value {
    var form = start
    var scope = outermost
    while (true) {
        when (form) {
            is Symbol -> return scope[form.name]
            is Pair -> {}
            else -> return form
        }
        val parts = items(form.tail)
        when ((form.head as? Symbol)?.name) {
            "quote" -> return parts[0]
            "define" -> {
                scope[(parts[0] as Symbol).name] = evaluate(parts[1], scope)
                return parts[0]
            }
            "lambda" -> return Closure(items(parts[0]).map { (it as Symbol).name }, parts[1], scope)
            "if" -> {
                form = if (evaluate(parts[0], scope) != Nil) parts[1] else parts[2]
                continue
            }
        }
        val arguments = parts.map { evaluate(it, scope) }
        when (val function = evaluate(form.head, scope)) {
            is Builtin -> return function.call(arguments)
            is Closure -> {
                scope = Scope(function.scope)
                for ((name, value) in function.parameters.zip(arguments)) scope[name] = value
                form = function.body
            }
            else -> throw IllegalStateException("${show(function)} is no function")
        }
    }
}

fun world(): Scope {
    val scope = Scope(null)
    fun number(name: String, call: (Long, Long) -> Long) {
        scope[name] = Builtin { (a, b) -> Num(call((a as Num).value, (b as Num).value)) }
    }
    fun test(name: String, call: (Long, Long) -> Boolean) {
        scope[name] = Builtin { (a, b) -> if (call((a as Num).value, (b as Num).value)) Num(1) else Nil }
    }
    number("+") { a, b -> a + b }
    number("-") { a, b -> a - b }
    number("*") { a, b -> a * b }
    number("mod") { a, b -> a.mod(b) }
    test("<") { a, b -> a < b }
    test("=") { a, b -> a == b }
    scope["cons"] = Builtin { (a, b) -> Pair(a, b) }
    scope["car"] = Builtin { (a) -> (a as Pair).head }
    scope["cdr"] = Builtin { (a) -> (a as Pair).tail }
    scope["null"] = Builtin { (a) -> if (a == Nil) Num(1) else Nil }
    return scope
}

val PROGRAM = """
    (define fact (lambda (n) (if (< n 2) 1 (* n (fact (- n 1))))))
    (fact 20)
    (define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))
    (fib 12)
    (define range (lambda (n rest) (if (= n 0) rest (range (- n 1) (cons n rest)))))
    (define map (lambda (f all) (if (null all) (quote ()) (cons (f (car all)) (map f (cdr all))))))
    (define fold (lambda (f start all) (if (null all) start (fold f (f start (car all)) (cdr all)))))
    (map (lambda (n) (* n n)) (range 12 (quote ())))
    (fold + 0 (range 200 (quote ())))
    (define adder (lambda (n) (lambda (m) (+ n m))))
    ((adder 40) 2)
    (define compose (lambda (f g) (lambda (x) (f (g x)))))
    (map (compose (adder 1) (lambda (n) (mod n 3))) (range 7 (quote ())))
    fold
    (quote (a (b 1 ()) c))
    (car 5)
    (undefined 1)
    (1 2)
"""

fun main() {
    val scope = world()
    for (form in Reader(PROGRAM).all()) {
        val answer = try {
            show(evaluate(form, scope))
        } catch (error: NoSuchElementException) {
            "error: ${error.message}"
        } catch (error: IllegalStateException) {
            "error: ${error.message}"
        } catch (error: ClassCastException) {
            "error: wrong kind of value"
        }
        println(answer)
    }
    try {
        Reader("(1 (2)").all()
    } catch (error: IllegalStateException) {
        println(error.message)
    }
}
