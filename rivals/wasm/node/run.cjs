// A WebAssembly module with WASI preview 1. The exit status is the program's; 134 after a trap or an uncaught exception, 125 if the
// module cannot be run, 2 for wrong arguments.

const { readFileSync } = require("node:fs");
const { WASI } = require("node:wasi");

function end(status, message) {
    process.stderr.write(`node: ${message}\n`);
    process.exit(status);
}

const words = process.argv.slice(2);
const preopens = {};
while (words[0] === "--dir") {
    const [host, guest = host] = (words[1] ?? "").split("::");
    if (!host || !guest) end(2, "--dir: write HOST, or HOST::GUEST");
    preopens[guest] = host;
    words.splice(0, 2);
}
if (words.length === 0) end(2, "no module is named");
if (words[0].startsWith("--")) end(2, `no option ${words[0]}: there are --heap, which comes first, and --dir`);

let wasi, instance;
try {
    wasi = new WASI({ version: "preview1", args: words, preopens });
    // Where a file has no position, Node answers with an error at which OCaml's library ends: it expects ESPIPE.
    const { fd_seek } = wasi.wasiImport;
    wasi.wasiImport.fd_seek = (file, ...rest) => {
        const status = fd_seek(file, ...rest);
        return status !== 0 && file <= 2 ? 70 : status;
    };
    const module = new WebAssembly.Module(readFileSync(words[0]));
    instance = new WebAssembly.Instance(module, wasi.getImportObject());
} catch (error) {
    end(125, `${words[0]}: ${error.message}`);
}
try {
    process.exitCode = wasi.start(instance);
} catch (error) {
    end(134, `${words[0]}: ${error instanceof WebAssembly.Exception ? "an exception that nothing caught" : error.message}`);
}
