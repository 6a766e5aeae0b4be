// What random modules do on V8, as lines: see crates/wasm/tests/random/. Each comes as its length in four bytes, little end first,
// and its bytes, and then its plan in the same way. The answer to each call is a line, and the last one is a point.

const { readSync, writeSync } = require("node:fs");

// A line that says that memory or the stack was used up.
const RESOURCES = "resources";
// The kinds of traps by what V8 says.
const TRAPS = [
    [/^unreachable/, "unreachable"],
    [/^(memory access|data segment( \d+)?) (is )?out of bounds/, "bounds of a memory"],
    [/^(table|element segment).* out of bounds/, "bounds of a table"],
    [/^array (element access|index|access)? ?(is )?out of bounds/, "bounds of an array"],
    [/^null function|function signature mismatch/, "indirect call"],
    [/^(dereferencing a null pointer|rethrowing null value)/, "null"],
    [/^illegal cast/, "cast"],
    [/^(divide|remainder) by zero/, "division by zero"],
    [/^(divide result|float) unrepresentable/, "overflow"],
];

function read(length) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
        const found = readSync(0, bytes, at, length - at, null);
        if (found === 0) return null;
        at += found;
    }
    return bytes;
}

function part() {
    const length = read(4);
    return length && read(length.readUInt32LE());
}

function trapped(error) {
    if (error instanceof WebAssembly.Exception) return "an exception";
    if (error instanceof RangeError || /too large|allocation failed/.test(error.message)) return RESOURCES;
    const message = error.message.replace("WebAssembly.Instance(): ", "");
    const found = TRAPS.find(([said]) => said.test(message));
    return found ? `trap: ${found[1]}` : `${error.name}: ${error.message}`;
}

function argument(word) {
    const [type, number] = word.split(":");
    if (type === "null") return null;
    return type === "i64" ? BigInt(number) : Number(number);
}

function bits(number, type) {
    if (Number.isNaN(number)) return "nan";
    const view = new DataView(new ArrayBuffer(8));
    if (type === "f32") {
        view.setFloat32(0, number);
        return view.getUint32(0).toString(16);
    }
    view.setFloat64(0, number);
    return view.getBigUint64(0).toString(16);
}

function text(value, type) {
    if (type === "f32" || type === "f64") return bits(value, type);
    if (type !== "ref") return String(value);
    if (value === null) return "null";
    if (typeof value === "number") return `i31:${value}`;
    return typeof value === "function" ? "function" : "object";
}

function hash(words) {
    let sum = 0x811c9dc5;
    for (let at = 0; at < words.length; at++) sum = Math.imul(sum ^ words[at], 0x01000193);
    return sum >>> 0;
}

function answer(exported, words) {
    const [what, number, ...rest] = words;
    const item = exported[Number(number)];
    if (what === "global") return `global ${text(item.value, rest[0])}`;
    if (what === "memory") {
        return `memory ${item.buffer.byteLength} ${hash(new Int32Array(item.buffer))}`;
    }
    const arrow = rest.indexOf(">");
    const types = rest.slice(arrow + 1);
    const values = item(...rest.slice(0, arrow).map(argument));
    const list = types.length === 0 ? [] : types.length === 1 ? [values] : [...values];
    return ["returned", ...list.map((value, at) => text(value, types[at]))].join(" ");
}

function line(module, steps) {
    let exported;
    try {
        const { exports } = new WebAssembly.Instance(module, {});
        exported = WebAssembly.Module.exports(module).map(({ name }) => exports[name]);
    } catch (error) {
        return trapped(error);
    }
    const said = steps.map((words) => {
        try {
            return answer(exported, words);
        } catch (error) {
            return trapped(error);
        }
    });
    return said.includes(RESOURCES) ? RESOURCES : ["instantiated", ...said].join("; ");
}

function outcome(bytes, plan) {
    let module;
    try {
        module = new WebAssembly.Module(bytes);
    } catch (error) {
        return [`refused: ${error.message}`];
    }
    const looks = plan.filter((words) => words[0] !== "call");
    const calls = plan.filter((words) => words[0] === "call");
    return calls.length === 0 ? [line(module, looks)] : calls.map((call) => line(module, [call, ...looks]));
}

for (let bytes = part(); bytes; bytes = part()) {
    const lines = part().toString().split("\n").filter((line) => line !== "");
    const plan = lines.map((line) => line.split(" ").filter((word) => word !== ""));
    writeSync(1, [...outcome(bytes, plan), ".\n"].join("\n"));
}
