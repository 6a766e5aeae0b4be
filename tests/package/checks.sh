# How the parts of run.sh report.

passed=0 failed=0

# check NAME COMMAND... : the command succeeds. What it prints is shown if it does not.
check() {
    local name=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "ok: $name"
        passed=$((passed + 1))
    else
        echo "FAILED: $name"
        if [ -n "$said" ]; then sed 's/^/    /' <<<"$said"; fi
        failed=$((failed + 1))
    fi
}

# is TEXT WANTED: both are the same.
is() {
    if [ "$1" = "$2" ]; then return 0; fi
    printf "'%s' instead of '%s'\n" "$1" "$2"
    return 1
}

# has TEXT PART... : each part is in the text.
has() {
    local text=$1 part
    shift
    for part in "$@"; do
        if [[ $text != *"$part"* ]]; then
            printf "no '%s' in: %s\n" "$part" "$text"
            return 1
        fi
    done
}

# refuses STATUS PART COMMAND... : the command fails with that status and says the part.
refuses() {
    local wanted=$1 part=$2 status=0 said
    shift 2
    said=$("$@" 2>&1) || status=$?
    is "$status" "$wanted" && has "$said" "$part"
}
