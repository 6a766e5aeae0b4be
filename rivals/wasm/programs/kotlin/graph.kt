// A directed graph of objects: shortest paths by a heap, and strongly connected components.

class Vertex(val number: Int) {
    val edges = ArrayList<Edge>()
    var distance = Int.MAX_VALUE
    var index = -1
    var low = 0
    var isOnStack = false
}

class Edge(val to: Vertex, val length: Int)

class Visit(val vertex: Vertex, val distance: Int) : Comparable<Visit> {
    override fun compareTo(other: Visit) = distance.compareTo(other.distance)
}

/** A binary heap. */
class Heap<T : Comparable<T>> {
    private val items = ArrayList<T>()

    val isEmpty get() = items.isEmpty()

    fun add(item: T) {
        items.add(item)
        var at = items.lastIndex
        while (at > 0) {
            val above = (at - 1) / 2
            if (items[above] <= items[at]) break
            swap(at, above)
            at = above
        }
    }

    fun take(): T {
        val least = items[0]
        val last = items.removeAt(items.lastIndex)
        if (items.isNotEmpty()) {
            items[0] = last
            var at = 0
            while (2 * at + 1 < items.size) {
                var below = 2 * at + 1
                if (below + 1 < items.size && items[below + 1] < items[below]) below++
                if (items[at] <= items[below]) break
                swap(at, below)
                at = below
            }
        }
        return least
    }

    private fun swap(one: Int, other: Int) {
        val item = items[one]
        items[one] = items[other]
        items[other] = item
    }
}

class Graph(vertices: Int, edges: Int, private var random: Int) {
    private val vertices = List(vertices) { Vertex(it) }

    init {
        for (edge in 1..edges) {
            val from = this.vertices[next(vertices)]
            from.edges.add(Edge(this.vertices[next(vertices)], 1 + next(1000)))
        }
    }

    private fun next(below: Int): Int {
        random = random * 1103515245 + 12345
        return (random ushr 4) % below
    }

    fun paths(): String {
        val heap = Heap<Visit>()
        heap.add(Visit(vertices[0], 0))
        while (!heap.isEmpty) {
            val (vertex, distance) = heap.take().run { vertex to distance }
            if (distance >= vertex.distance) continue
            vertex.distance = distance
            for (edge in vertex.edges) {
                if (distance + edge.length < edge.to.distance) heap.add(Visit(edge.to, distance + edge.length))
            }
        }
        val reached = vertices.filter { it.distance < Int.MAX_VALUE }
        return "${reached.size} reached, farthest ${reached.maxOf { it.distance }}"
    }

    /** Tarjan's algorithm with a stack of its own. */
    fun components(): String {
        class Frame(val vertex: Vertex, val edges: Iterator<Edge>)
        val stack = ArrayList<Vertex>()
        var count = 0
        var found = 0
        var largest = 0
        fun enter(vertex: Vertex): Frame {
            vertex.index = count
            vertex.low = count++
            vertex.isOnStack = true
            stack.add(vertex)
            return Frame(vertex, vertex.edges.iterator())
        }
        for (start in vertices) {
            if (start.index >= 0) continue
            val frames = arrayListOf(enter(start))
            while (frames.isNotEmpty()) {
                val frame = frames.last()
                val vertex = frame.vertex
                if (frame.edges.hasNext()) {
                    val to = frame.edges.next().to
                    if (to.index < 0) frames.add(enter(to)) else if (to.isOnStack) vertex.low = minOf(vertex.low, to.index)
                    continue
                }
                frames.removeAt(frames.lastIndex)
                frames.lastOrNull()?.vertex?.let { it.low = minOf(it.low, vertex.low) }
                if (vertex.low != vertex.index) continue
                var size = 0
                do {
                    val member = stack.removeAt(stack.lastIndex)
                    member.isOnStack = false
                    size++
                } while (member != vertex)
                found++
                largest = maxOf(largest, size)
            }
        }
        return "$found components, the largest of $largest"
    }
}

fun main() {
    val (vertices, turns) = if (isTiny()) 200 to 1 else 40_000 to 3
    for (turn in 1..turns) {
        val graph = Graph(vertices, 3 * vertices, turn)
        println("${graph.paths()}; ${graph.components()}")
    }
}
