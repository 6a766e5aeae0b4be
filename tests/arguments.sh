# What the run.sh of the suites do with their arguments, in sh.

# value COUNT OPTION: ends the script, if the option is the last of so many arguments.
value() { [ "$1" -gt 1 ] || { echo "run.sh: $2 needs a value" >&2; exit 2; }; }

# libgc FILE: its whole name; ends with 2 if it is no libgc. The loader would only warn, and the system's library be tested.
libgc() {
    nm -D --defined-only "$1" 2>/dev/null | grep ' GC_init$' >/dev/null || { echo "run.sh: $1 is no libgc" >&2; return 2; }
    realpath "$1"
}
