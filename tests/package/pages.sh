# The manual pages, as `man` shows them; and that make install takes exactly what is made.

# page NAME: the text of a manual page. What the formatter complains about fails it.
page() {
    local complaints
    complaints=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 \
        man --warnings -E UTF-8 -l -Tutf8 -Z "$pages/man/man1/$1.1" 2>&1 >/dev/null)
    if [ -n "$complaints" ]; then
        echo "$complaints"
        return 1
    fi
    LC_ALL=C.UTF-8 MANWIDTH=78 MANROFFOPT='' man --no-hyphenation --no-justification -l "$pages/man/man1/$1.1" | col -bx
}

# shows NAME PART... : the page has each of these.
shows() {
    local name=$1 text
    shift
    text=$(page "$name") || {
        echo "$text"
        return 1
    }
    # Lines end anywhere.
    has "$(tr -s ' \n' ' ' <<<"$text")" "$@"
}

check "gleaner(1) has all commands" shows gleaner "NAME" "gleaner - Run programs that use Boehm's libgc on Gleaner" \
    "gleaner-exec(1)" "gleaner-compare(1)" "gleaner-doctor(1)" "gleaner-options(1)" "gleaner-bench(1)" "gleaner-place(1)" "EXAMPLES" "gleaner $version"
check "gleaner-exec(1)" shows gleaner-exec "gleaner exec [OPTIONS] -- PROGRAM [ARGS]..." "--opt <NAME=VALUE>" \
    "--dry-run" "GLEANER_LIBGC" "EXIT STATUS" "127 if it is not found" "SEE ALSO"
check "gleaner-compare(1)" shows gleaner-compare "gleaner compare [OPTIONS] -- PROGRAM [ARGS]..." "--against <stock|OPTIONS>" \
    "[default: 2m]" "EXIT STATUS" "3 if that is undecided"
check "gleaner-doctor(1)" shows gleaner-doctor "gleaner doctor [-- PROGRAM [ARGS]...]" "EXIT STATUS" "EXAMPLES"
check "gleaner-options(1) has the table" shows gleaner-options "heap-limit=0" "Accepted: eager|lazy." "Heaps: libgc." \
    "[ISMM 2000, section 5]"
check "gleaner-place(1) has the options of placement" shows gleaner-place "OPTIONS OF PLACEMENT (--opt)" \
    "placement=POLICY" "isolated" "on the socket (the default)"
check "gleaner-heap(1)" shows gleaner-heap "gleaner heap" "--path <ADDRESS>" "--since <OLDER>" "EXIT STATUS"
check "gleaner-bench(1)" shows gleaner-bench "gleaner bench [OPTIONS] NAME" "gleaner bench [OPTIONS] -- COMMAND"

# Names of options stand at the left and nothing is missing.
all_options() {
    local text name
    text=$(page gleaner-options)
    for name in $(target/release/gleaner options | sed -n 's/^  \([a-z-]*\)=.*/\1/p'); do
        has "$text" "       $name=" || return 1
    done
}
check "gleaner-options(1) has every option" all_options

hides() { ! grep -rq 'place.guard' "$pages"; }
check "what is not for users is in no page" hides

dest=$out/dest
installs() {
    make --no-print-directory install DESTDIR="$dest" PREFIX=/opt/gleaner
    diff <(cd "$pages" && find . -type f | sort) <(cd "$dest/opt/gleaner/share" && find . -type f | sort)
}
check "make install takes the pages that are made" installs
uninstalls() {
    make --no-print-directory uninstall DESTDIR="$dest" PREFIX=/opt/gleaner
    is "$(ls "$out")" ""
}
check "make uninstall leaves none" uninstalls

# Directories that were there stay, and those in which something else lies; a second installation forgets none.
prefix=$out/prefix/new
removes_directories() {
    mkdir -p "$out/prefix/other"
    for _ in 1 2; do make --no-print-directory install PREFIX="$prefix"; done
    touch "$prefix/share/theirs"
    make --no-print-directory uninstall PREFIX="$prefix"
    is "$(cd "$out/prefix" && find . | sort | xargs)" ". ./new ./new/share ./new/share/theirs ./other"
}
check "make uninstall removes the directories that it made" removes_directories
removes_all() {
    rm -r "$prefix" && mkdir "$prefix" "$prefix/bin"
    make --no-print-directory install PREFIX="$prefix"
    for _ in 1 2; do make --no-print-directory uninstall PREFIX="$prefix"; done
    is "$(cd "$out/prefix" && find . | sort | xargs)" ". ./new ./new/bin ./other"
}
check "make uninstall leaves the directories that were there, and may be repeated" removes_all
