#!/bin/sh
# Makes the modules anew:
#     make.sh kotlin NAME...    $JARS is a directory with the compiler's jars, $KLIB the library of the target wasm-wasi
#     make.sh ocaml NAME...
# README.md says where the compilers come from. Of Kotlin's modules, hello alone is left as the compiler wrote it.
# $PROGRAMS is the directory with the programs of both languages, if it is not this one: rivals/wasm/programs has others, and all
# of those are optimised. In Kotlin each may use arguments.kt there.
set -eu
cd "${PROGRAMS:-$(dirname "$0")}/$1"
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
        shared=arguments.kt
        [ -f "$shared" ] && [ "$name" != hello ] || shared=
        # shellcheck disable=SC2086
        compile -ir-output-dir "$scratch/klib" -Xir-produce-klib-file "$name.kt" $shared
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
        (
            cd "$scratch"
            # shellcheck disable=SC2086
            ocamlc $unix "$name.ml" -o "$name.byte"
            wasm_of_ocaml compile --enable wasi "$name.byte" -o "$name.js"
        )
        cp "$scratch/$name.assets/code.wasm" "$name.wasm"
        ;;
    esac
done
