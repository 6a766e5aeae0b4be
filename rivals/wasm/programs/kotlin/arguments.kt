// What each program has beside its own file.

@file:OptIn(ExperimentalWasmInterop::class, UnsafeWasmMemoryApi::class)

import kotlin.wasm.ExperimentalWasmInterop
import kotlin.wasm.WasmImport
import kotlin.wasm.unsafe.UnsafeWasmMemoryApi
import kotlin.wasm.unsafe.withScopedMemoryAllocator

@WasmImport("wasi_snapshot_preview1", "args_sizes_get")
private external fun argsSizesGet(count: Int, bytes: Int): Int

@WasmImport("wasi_snapshot_preview1", "args_get")
private external fun argsGet(addresses: Int, bytes: Int): Int

/** The bytes of all words of the command line. */
fun commandLine(): String = withScopedMemoryAllocator { allocator ->
    val sizes = allocator.allocate(8)
    check(argsSizesGet(sizes.address.toInt(), (sizes + 4).address.toInt()) == 0)
    val (count, bytes) = sizes.loadInt() to (sizes + 4).loadInt()
    val addresses = allocator.allocate(4 * count + 4)
    val text = allocator.allocate(bytes + 1)
    check(argsGet(addresses.address.toInt(), text.address.toInt()) == 0)
    (0 until bytes).map { (text + it).loadByte().toInt().toChar() }.joinToString("")
}

/** Whether the last word of the command line is `--tiny`: the program then does little, to show that it runs. */
fun isTiny(): Boolean = commandLine().endsWith("\u0000--tiny\u0000")
