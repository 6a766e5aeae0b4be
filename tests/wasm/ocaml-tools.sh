#!/usr/bin/env bash
# OCaml's own compiler and lexer generator, made into WebAssembly from their bytecode, write byte for byte what the native ones do.
# What the compiler prints of each of its stages is compared, and what the programs print that it links. Interfaces, objects and
# executables are equal but for colour bits, which wasm_of_ocaml's library marshals as 0 where OCaml's own has 3, and digests of
# files with such bits: ocaml_objects.py says more, and compares all other bytes.
#
#     tests/wasm/ocaml-tools.sh GLEANER [DIRECTORY]
#
# DIRECTORY has ocamlc.byte and ocamllex.byte, /usr/bin unless given. ocamlc, ocamllex and wasm_of_ocaml are found by PATH: Debian
# unstable has them in the packages ocaml and js-of-ocaml. The last line is "N passed, N failed".
set -u
gleaner=$(realpath "${1:?the command, built with the feature wasm}")
bytecode=${2:-/usr/bin}
root=$(cd "$(dirname "$0")/../.." && pwd)
for tool in ocamlc ocamllex ocamlrun wasm_of_ocaml; do
    command -v "$tool" > /dev/null || { echo "ocaml-tools.sh: $tool is needed (Debian unstable: ocaml, js-of-ocaml)" >&2; exit 2; }
done
library=$(ocamlc -where)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit
mkdir native wasm
passed=0 failed=0

for tool in ocamllex ocamlc; do
    # The compiler wants to know how large a terminal is.
    wasm_of_ocaml compile --enable wasi "$root/tests/wasm/terminfo.wat" "$bytecode/$tool.byte" -o "$tool.js" 2> "$tool.log" ||
        { cat "$tool.log"; echo "0 passed, 1 failed"; exit 1; }
done

# ours TOOL ARGUMENT...: the tool as a module, in directory wasm.
ours() {
    local tool=$1
    shift
    "$gleaner" run --dir "wasm::." --dir "$library::/ocaml" --env OCAMLLIB=/ocaml --opt heap-limit=1g "$tool.assets/code.wasm" "$@"
}

# same TOOL FILES ARGUMENT...: both tools end and speak alike, and have written the same FILES.
same() {
    local tool=$1 files=$2 file problem=
    shift 2
    (cd native && "$tool" "$@") > native.said 2>&1
    local expected=$?
    ours "$tool" "$@" > wasm.said 2>&1
    local found=$?
    [ "$found" = "$expected" ] || problem="exit status $found, not $expected"
    cmp -s native.said wasm.said || problem="$problem; it said: $(cat wasm.said)"
    for file in $files; do
        cmp "native/$file" "wasm/$file" || problem="$problem; $file differs"
    done
    if [ -z "$problem" ]; then
        passed=$((passed + 1))
        echo "ok: $tool $*"
    else
        failed=$((failed + 1))
        echo "FAILED: $tool $*: $problem"
    fi
}

for program in "$root"/crates/wasm/tests/modules/ocaml/*.ml "$root"/tests/wasm/*.mll; do
    cp "$program" native
    cp "$program" wasm
done
echo 'let wrong = 1 + "text"' | tee native/wrong.ml > wasm/wrong.ml
same ocamllex words.ml words.mll
for program in words.ml "$root"/crates/wasm/tests/modules/ocaml/*.ml; do
    name=$(basename "$program" .ml)
    # A module cannot look into the shared library of unix, which linking wants.
    how=(-o "$name.byte")
    [ "$name" != system ] || how=(-I +unix -c)
    same ocamlc "" -dparsetree -dlambda -dinstr "${how[@]}" "$name.ml"
    objects=$(python3 "$root/tests/wasm/ocaml_objects.py" native wasm "$name") || failed=$((failed + 1))
    echo "$objects"
    passed=$((passed + $(grep -c '^ok:' <<< "$objects")))
done
# The comparison sees one bit that is no colour.
mkdir changed
cp native/text.* changed
printf '\1' | dd of=changed/text.cmo bs=1 seek=100 conv=notrunc status=none
if python3 "$root/tests/wasm/ocaml_objects.py" native changed text > changed.said; then
    failed=$((failed + 1))
    echo "FAILED: a byte of an object was changed, and is not seen"
fi
for name in arrays coroutines exceptions interpreter json text trees; do
    if ocamlrun "wasm/$name.byte" | cmp -s - "$root/crates/wasm/tests/modules/ocaml/$name.expected"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name.byte, as the module linked it, prints something else"
    fi
done
same ocamlc "" -c wrong.ml
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
