#!/bin/sh
# Makes the modules anew:
#     make.sh kotlin NAME...    $JARS is a directory with the compiler's jars, $KLIB the library of the target wasm-wasi
#     make.sh ocaml NAME...
#     make.sh text NAME...      from WebAssembly's text form
# README.md says where the compilers come from. Of Kotlin's modules, hello alone is left as the compiler wrote it.
# $PROGRAMS is the directory with the programs of both languages, if it is not this one: rivals/wasm/programs has others, and all
# of those are optimised. In Kotlin each may use arguments.kt there, and so does workloads.kt here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
arguments=$here/../../../../rivals/wasm/programs/kotlin/arguments.kt
cd "${PROGRAMS:-$here}/$1"
language=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compile() {
    java -cp "$JARS/*" org.jetbrains.kotlin.cli.js.KotlinWasmCompiler -Xwasm -Xwasm-target=wasm-wasi \
        -libraries "$KLIB" -ir-output-name "$name" "$@"
}

for name; do
    case $language in
    kotlin)
        shared=
        if [ "$name" = workloads ] || { [ -n "${PROGRAMS:-}" ] && [ "$name" != hello ]; }; then shared=$arguments; fi
        compile -ir-output-dir "$scratch/klib" -Xir-produce-klib-file "$name.kt" ${shared:+"$shared"}
        compile -ir-output-dir "$scratch/out" -Xir-produce-js -Xinclude="$scratch/klib/$name.klib" -Xir-dce -main call
        if [ "$name" = hello ] && [ -z "${PROGRAMS:-}" ]; then
            cp "$scratch/out/$name.wasm" .
        else
            wasm-opt --enable-gc --enable-reference-types --enable-exception-handling --enable-bulk-memory \
                --enable-nontrapping-float-to-int --enable-multivalue --enable-simd --closed-world \
                -O3 --gufa -O3 --type-merging -O3 -Oz "$scratch/out/$name.wasm" -o "$name.wasm"
        fi
        ;;
    ocaml)
        cp "$name.ml" "$scratch"
        unix=
        [ "$name" != system ] || unix="-I +unix unix.cma"
        effects=
        [ "$name" != coroutines ] || effects=--effects=cps
        (
            cd "$scratch"
            # shellcheck disable=SC2086
            ocamlc $unix "$name.ml" -o "$name.byte"
            # shellcheck disable=SC2086
            wasm_of_ocaml compile --enable wasi $effects "$name.byte" -o "$name.js"
        )
        cp "$scratch/$name.assets/code.wasm" "$name.wasm"
        ;;
    text)
        wasm-as --enable-gc --enable-reference-types "$name.wat" -o "$name.wasm"
        ;;
    esac
done
