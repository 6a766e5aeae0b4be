// Workloads of `gleaner-bench native`: each comes to the same number here. The command line has the name of one, and `--tiny` as
// its last word where little is to be done. `xml` reads its document from standard input.

@file:OptIn(ExperimentalWasmInterop::class, UnsafeWasmMemoryApi::class)

import kotlin.wasm.ExperimentalWasmInterop
import kotlin.wasm.WasmImport
import kotlin.wasm.unsafe.UnsafeWasmMemoryApi
import kotlin.wasm.unsafe.withScopedMemoryAllocator

fun chained(sum: Long, number: Int): Long = sum * 31 + number.toUInt().toLong()

class Node(var number: Int) {
    var left: Node? = null
    var right: Node? = null
}

/** A tree that stays, and many that do not, half of them built from the root down. */
class Forest {
    private var next = 0
    private var sum = 0L

    private fun node() = Node(++next)

    private fun grow(node: Node, height: Int) {
        if (height == 0) return
        val left = node().also { node.left = it }
        val right = node().also { node.right = it }
        grow(left, height - 1)
        grow(right, height - 1)
    }

    private fun bottomUp(height: Int): Node {
        if (height == 0) return node()
        val left = bottomUp(height - 1)
        val right = bottomUp(height - 1)
        return node().also { it.left = left; it.right = right }
    }

    private fun count(node: Node?): Long {
        if (node == null) return 0
        sum = chained(sum, node.number)
        return 1 + count(node.left) + count(node.right)
    }

    fun run(most: Int, length: Int): Long {
        val kept = node()
        grow(kept, most)
        val numbers = DoubleArray(length) { 1.0 / (it + 1) }
        for (height in 4..most step 2) {
            val trees = 2 * ((8 shl most) - 1) / ((2 shl height) - 1)
            repeat(trees) { grow(node(), height) }
            repeat(trees) { bottomUp(height) }
        }
        check(numbers[99] == 0.01)
        val nodes = count(kept)
        check(nodes == (2L shl most) - 1)
        return nodes xor (sum shl 24)
    }
}

fun queue(length: Int): Long {
    var head = Node(0)
    var tail = head
    var sum = 0L
    for (number in 1..16 * length) {
        val node = Node(number)
        tail.left = node
        tail = node
        if (number > length) {
            sum = chained(sum, head.number)
            head = head.left!!
        }
    }
    check(generateSequence(head) { it.left }.count() == length + 1)
    return sum
}

fun refarray(length: Int): Long {
    var state = 2000L
    val array = Array(length) { Node(it) }
    for (number in 0 until 10 * length) {
        state = state * 6364136223846793005L + 1442695040888963407L
        array[((state ushr 33) % length).toInt()] = Node(number)
    }
    return array.fold(0L) { sum, node -> chained(sum, node.number) }
}

class Quad(val number: Int) {
    val corners = arrayOfNulls<Quad>(4)
}

class Quads {
    private var next = 0
    private var sum = 0L

    private fun tree(depth: Int): Quad {
        val quad = Quad(++next)
        if (depth > 0) for (corner in 0 until 4) quad.corners[corner] = tree(depth - 1)
        return quad
    }

    private fun count(quad: Quad?): Long {
        if (quad == null) return 0
        sum = chained(sum, quad.number)
        return 1 + quad.corners.sumOf { count(it) }
    }

    fun run(depth: Int, trees: Int): Long {
        val kept = tree(depth)
        repeat(trees) { check(count(tree(3)) == 85L) }
        check(count(kept) == ((4L shl (2 * depth)) - 1) / 3)
        return sum
    }
}

@WasmImport("wasi_snapshot_preview1", "fd_read")
private external fun fdRead(file: Int, pieces: Int, count: Int, read: Int): Int

fun standardInput(): ByteArray = withScopedMemoryAllocator { allocator ->
    val piece = allocator.allocate(8)
    val read = allocator.allocate(4)
    val bytes = allocator.allocate(4096)
    piece.storeInt(bytes.address.toInt())
    (piece + 4).storeInt(4096)
    var all = ByteArray(0)
    while (true) {
        check(fdRead(0, piece.address.toInt(), 1, read.address.toInt()) == 0)
        val length = read.loadInt()
        if (length == 0) break
        all += ByteArray(length) { (bytes + it).loadByte() }
    }
    all
}

class Bytes {
    var bytes = ByteArray(64)
    var length = 0

    fun add(byte: Byte) {
        if (length == bytes.size) bytes = bytes.copyOf(2 * length)
        bytes[length++] = byte
    }

    fun take(): ByteArray = bytes.copyOf(length).also { length = 0 }
}

class Attribute(val name: ByteArray, val text: ByteArray) {
    var next: Attribute? = null
}

/** An element with its name, or a text. */
class Part(val content: ByteArray, val isElement: Boolean) {
    var next: Part? = null
    var parent: Part? = null
    var attributes: Attribute? = null
    var first: Part? = null
    var last: Part? = null
    var children = 0

    fun append(child: Part) {
        child.parent = this
        if (last == null) first = child else last!!.next = child
        last = child
        children++
    }

    fun elements(parent: Part?): Int {
        check(this.parent === parent)
        var elements = if (isElement) 1 else 0
        var child = first
        while (child != null) {
            elements += child.elements(this)
            child = child.next
        }
        return elements
    }
}

/** Reads the first `most` elements of a document, with all that they are in. */
class Reader(private val text: ByteArray, private val most: Int) {
    private class Name(val letters: ByteArray, val next: Name?)

    private val names = arrayOfNulls<Name>(256)
    private val pending = Bytes()
    private var at = 0
    private var root: Part? = null
    private var inner: Part? = null
    var elements = 0

    private fun letter(): Char = text[at].toInt().toChar()

    private fun starts(word: String): Boolean =
        at + word.length <= text.size && word.indices.all { text[at + it].toInt().toChar() == word[it] }

    private fun passTo(end: String): Int {
        while (!starts(end)) at++
        return at.also { at += end.length }
    }

    private fun nameOf(letters: ByteArray): ByteArray {
        val place = (hashOn(NO_BYTES, letters, letters.size) and 255).toInt()
        var name = names[place]
        while (name != null) {
            if (name.letters.contentEquals(letters)) return name.letters
            name = name.next
        }
        names[place] = Name(letters, names[place])
        return letters
    }

    private fun word(): ByteArray {
        val from = at
        while (letter() !in " \t\r\n/>=") at++
        return nameOf(text.copyOfRange(from, at))
    }

    private fun space() {
        while (letter() in " \t\r\n") at++
    }

    /** A letter of a text, or what stands for one. */
    private fun add(to: Bytes) {
        if (letter() != '&') {
            // The end of a line is one letter.
            if (letter() == '\r') {
                if (at + 1 == text.size || text[at + 1] != '\n'.code.toByte()) to.add('\n'.code.toByte())
                at++
                return
            }
            to.add(text[at++])
            return
        }
        at++
        val from = at
        val name = text.decodeToString(from, passTo(";"))
        val code = when {
            name.startsWith("#x") -> name.substring(2).toInt(16)
            name.startsWith("#") -> name.substring(1).toInt()
            else -> mapOf("amp" to '&', "lt" to '<', "gt" to '>', "quot" to '"', "apos" to '\'').getValue(name).code
        }
        val letters = if (code < 0x10000) code.toChar().toString()
        else charArrayOf((0xd7c0 + (code shr 10)).toChar(), (0xdc00 + (code and 0x3ff)).toChar()).concatToString()
        letters.encodeToByteArray().forEach(to::add)
    }

    private fun flush() {
        val found = pending.take()
        if (found.any { it.toInt().toChar() !in " \t\r\n" }) inner!!.append(Part(found, false))
    }

    private fun attributes(element: Part?) {
        var last: Attribute? = null
        space()
        while (letter() !in "/>") {
            val name = word()
            passTo("=")
            space()
            val quote = letter()
            at++
            val value = Bytes()
            while (letter() != quote) {
                if (letter() in "\t\n") {
                    value.add(' '.code.toByte())
                    at++
                } else add(value)
            }
            at++
            val fresh = Attribute(name, value.take())
            if (last == null) element?.attributes = fresh else last.next = fresh
            last = fresh
            space()
        }
    }

    private fun begin() {
        at++
        val name = word()
        val element = if (elements == most) null else Part(name, true)
        attributes(element)
        val isEmpty = letter() == '/'
        passTo(">")
        if (element == null) {
            if (!isEmpty) skip()
            return
        }
        elements++
        if (inner == null) root = element else inner!!.append(element)
        if (!isEmpty) inner = element
    }

    /** Passes over the rest of an element. */
    private fun skip() {
        var depth = 1
        while (depth > 0) {
            passTo("<")
            when {
                starts("!--") -> passTo("-->")
                starts("![CDATA[") -> passTo("]]>")
                starts("/") -> depth--
                else -> if (text[passTo(">") - 1] != '/'.code.toByte()) depth++
            }
        }
        passTo(">")
    }

    fun read(): Part {
        while (at < text.size) when {
            starts("<!--") -> passTo("-->")
            starts("<![CDATA[") -> {
                at += 9
                while (!starts("]]>")) pending.add(text[at++])
                at += 3
            }
            starts("<?") -> passTo("?>")
            starts("<!") -> passTo(">")
            starts("</") -> {
                flush()
                passTo(">")
                inner = inner!!.parent
            }
            starts("<") -> {
                flush()
                begin()
            }
            else -> add(pending)
        }
        return root!!
    }
}

fun compare(left: Part, right: Part): Int {
    if (!left.isElement || !right.isElement) return left.isElement.compareTo(right.isElement)
    for (i in 0 until minOf(left.content.size, right.content.size)) {
        val order = left.content[i].toUByte().compareTo(right.content[i].toUByte())
        if (order != 0) return order
    }
    return left.content.size.compareTo(right.content.size)
}

/** Attributes become elements, texts become upper case, and the elements of one parent are in the order of their names. */
fun transformed(part: Part): Part {
    if (!part.isElement) {
        val upper = ByteArray(part.content.size) {
            val letter = part.content[it]
            if (letter in 'a'.code..'z'.code) (letter - 32).toByte() else letter
        }
        return Part(upper, false)
    }
    val fresh = Part(part.content, true)
    var attribute = part.attributes
    while (attribute != null) {
        val element = Part(attribute.name, true)
        fresh.append(element)
        element.append(Part(attribute.text, false))
        attribute = attribute.next
    }
    val children = generateSequence(part.first) { it.next }.toList()
    for (child in children.sortedWith(::compare)) fresh.append(transformed(child))
    return fresh
}

class Buffer {
    val bytes = ByteArray(4096)
    var used = 0
    var next: Buffer? = null
}

class Writer {
    val first = Buffer()
    private var last = first

    private fun write(byte: Byte) {
        if (last.used == last.bytes.size) {
            val fresh = Buffer()
            last.next = fresh
            last = fresh
        }
        last.bytes[last.used++] = byte
    }

    private fun write(text: String) = text.forEach { write(it.code.toByte()) }

    private fun content(content: ByteArray) {
        for (byte in content) when (byte.toInt().toChar()) {
            '&' -> write("&amp;")
            '<' -> write("&lt;")
            '>' -> write("&gt;")
            else -> write(byte)
        }
    }

    fun write(part: Part) {
        if (!part.isElement) return content(part.content)
        write("<")
        content(part.content)
        write(">")
        var child = part.first
        while (child != null) {
            write(child)
            child = child.next
        }
        write("</")
        content(part.content)
        write(">")
    }
}

const val NO_BYTES = -0x340d631b7bdddcdbL

fun hashOn(hash: Long, bytes: ByteArray, length: Int): Long {
    var mixed = hash
    for (i in 0 until length) mixed = (mixed xor (bytes[i].toLong() and 255)) * 0x100000001b3L
    return mixed
}

fun xml(passes: Int, most: Int): Long {
    val text = standardInput()
    var sum = 0L
    repeat(passes) {
        val reader = Reader(text, most)
        val tree = reader.read()
        val writer = Writer()
        writer.write(transformed(tree))
        var hash = NO_BYTES
        var buffer: Buffer? = writer.first
        while (buffer != null) {
            hash = hashOn(hash, buffer.bytes, buffer.used)
            buffer = buffer.next
        }
        check(tree.elements(null) == reader.elements)
        sum = sum * 31 + hash
    }
    return sum
}

fun main() {
    val words = commandLine().split('\u0000')
    val isTiny = isTiny()
    val length = if (isTiny) 1000 else 1_000_000
    val result = when (val name = words[1]) {
        "gcbench" -> if (isTiny) Forest().run(8, 500) else Forest().run(18, 500_000)
        "queue" -> queue(length)
        "refarray" -> refarray(length)
        "quads" -> if (isTiny) Quads().run(5, 400) else Quads().run(10, 400_000)
        "xml" -> if (isTiny) xml(2, 300) else xml(8, Int.MAX_VALUE)
        else -> error("there is no workload $name")
    }
    println(result.toULong())
}
