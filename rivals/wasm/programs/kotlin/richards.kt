// Richards: the kernel of an operating system that schedules tasks, by Martin Richards. Its counts are known.

const val IDLE = 0
const val WORKER = 1
const val HANDLER_A = 2
const val HANDLER_B = 3
const val DEVICE_A = 4
const val DEVICE_B = 5
const val TASKS = 6
const val FOR_DEVICE = 0
const val FOR_WORK = 1
const val DATA = 4

class Packet(var link: Packet?, var owner: Int, val kind: Int) {
    var datum = 0
    val data = IntArray(DATA)

    fun appendedTo(queue: Packet?): Packet {
        link = null
        if (queue == null) return this
        var last: Packet = queue
        while (true) last = last.link ?: break
        last.link = this
        return queue
    }
}

abstract class Work {
    abstract fun run(packet: Packet?): Task?
}

class Task(val link: Task?, val id: Int, val priority: Int, var queue: Packet?, val work: Work) {
    var waits = true
    var ready = queue != null
    var held = false

    val cannotRun get() = held || (waits && !ready)

    fun run(): Task? {
        var packet: Packet? = null
        if (waits && ready) {
            packet = queue
            queue = packet?.link
            waits = false
            ready = queue != null
        }
        return work.run(packet)
    }

    /** Which of two tasks goes on when this one got a packet. */
    fun receive(packet: Packet, other: Task): Task {
        if (queue == null) {
            queue = packet
            ready = true
            if (priority > other.priority) return this
        } else {
            queue = packet.appendedTo(queue)
        }
        return other
    }
}

class Scheduler {
    var queued = 0
    var holds = 0
    private val tasks = arrayOfNulls<Task>(TASKS)
    private var list: Task? = null
    private var current: Task? = null

    fun add(id: Int, priority: Int, queue: Packet?, work: Work): Task {
        val task = Task(list, id, priority, queue, work)
        list = task
        tasks[id] = task
        return task
    }

    fun schedule() {
        current = list
        while (true) {
            val task = current ?: break
            current = if (task.cannotRun) task.link else task.run()
        }
    }

    fun release(id: Int): Task {
        val task = tasks[id]!!
        task.held = false
        return if (task.priority > current!!.priority) task else current!!
    }

    fun hold(): Task? {
        holds++
        current!!.held = true
        return current!!.link
    }

    fun wait(): Task {
        current!!.waits = true
        return current!!
    }

    fun send(packet: Packet): Task {
        val task = tasks[packet.owner]!!
        queued++
        packet.link = null
        packet.owner = current!!.id
        return task.receive(packet, current!!)
    }
}

class Idle(private val scheduler: Scheduler, private var bits: Int, private var turns: Int) : Work() {
    override fun run(packet: Packet?): Task? {
        turns--
        if (turns == 0) return scheduler.hold()
        if (bits and 1 == 0) {
            bits = bits shr 1
            return scheduler.release(DEVICE_A)
        }
        bits = (bits shr 1) xor 0xD008
        return scheduler.release(DEVICE_B)
    }
}

class Device(private val scheduler: Scheduler) : Work() {
    private var pending: Packet? = null

    override fun run(packet: Packet?): Task? {
        if (packet == null) {
            val sent = pending ?: return scheduler.wait()
            pending = null
            return scheduler.send(sent)
        }
        pending = packet
        return scheduler.hold()
    }
}

class Worker(private val scheduler: Scheduler) : Work() {
    private var handler = HANDLER_A
    private var letter = 0

    override fun run(packet: Packet?): Task? {
        if (packet == null) return scheduler.wait()
        handler = if (handler == HANDLER_A) HANDLER_B else HANDLER_A
        packet.owner = handler
        packet.datum = 0
        for (index in 0 until DATA) {
            letter = if (letter == 26) 1 else letter + 1
            packet.data[index] = letter
        }
        return scheduler.send(packet)
    }
}

class Handler(private val scheduler: Scheduler) : Work() {
    private var work: Packet? = null
    private var devices: Packet? = null

    override fun run(packet: Packet?): Task? {
        if (packet != null) {
            if (packet.kind == FOR_WORK) work = packet.appendedTo(work) else devices = packet.appendedTo(devices)
        }
        val now = work ?: return scheduler.wait()
        if (now.datum >= DATA) {
            work = now.link
            return scheduler.send(now)
        }
        val device = devices ?: return scheduler.wait()
        devices = device.link
        device.datum = now.data[now.datum++]
        return scheduler.send(device)
    }
}

fun richards(): Pair<Int, Int> {
    val scheduler = Scheduler()
    scheduler.add(IDLE, 0, null, Idle(scheduler, 1, 10_000)).apply {
        waits = false
        ready = false
    }
    fun packets(count: Int, owner: Int, kind: Int): Packet? {
        var queue: Packet? = null
        for (turn in 1..count) queue = Packet(queue, owner, kind)
        return queue
    }
    scheduler.add(WORKER, 1000, packets(2, WORKER, FOR_WORK), Worker(scheduler))
    scheduler.add(HANDLER_A, 2000, packets(3, DEVICE_A, FOR_DEVICE), Handler(scheduler))
    scheduler.add(HANDLER_B, 3000, packets(3, DEVICE_B, FOR_DEVICE), Handler(scheduler))
    scheduler.add(DEVICE_A, 4000, null, Device(scheduler))
    scheduler.add(DEVICE_B, 5000, null, Device(scheduler))
    scheduler.schedule()
    return scheduler.queued to scheduler.holds
}

fun main() {
    val expected = 23246 to 9297
    val turns = if (isTiny()) 2 else 300
    for (turn in 1..turns) {
        val found = richards()
        check(found == expected) { "$found, not $expected" }
    }
    println("$turns turns, each with ${expected.first} packets and ${expected.second} holds")
}
