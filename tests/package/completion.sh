# What bash offers for a line that somebody is typing. The shell is asked as readline asks it: it splits words at blanks
# and at '=', and inserts what it gets in the place of the last part. zsh and fish are asked only for whether they can
# read their scripts, where they are installed.

# offers LINE WANTED... : what is offered at the end of the line.
offers() {
    local line=$1
    shift
    is "$(bash --norc -c "$ask" bash "$pages/bash-completion/completions/gleaner" "$line" | sort -u | paste -sd' ')" "$*"
}
# shellcheck disable=SC2016
ask='
. "$1"
line=$2
read -ra COMP_WORDS <<<"${line//=/ = }"
if [[ $line == *" " ]]; then COMP_WORDS+=(""); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
word=${COMP_WORDS[COMP_CWORD]}
if [[ $word == = ]]; then word=; fi
completer=$(complete -p gleaner | sed "s/.* -F \([^ ]*\) .*/\1/")
"$completer" gleaner "$word" "${COMP_WORDS[COMP_CWORD - 1]}"
printf "%s\n" "${COMPREPLY[@]}"
'

check "bash: commands" offers "gleaner e" exec
check "bash: what is not for users is not offered" offers "gleaner place" place
check "bash: words of a command" offers "gleaner exec --dr" --dry-run
check "bash: names of options" offers "gleaner exec --opt sw" sweep-ahead= sweep=
check "bash: values" offers "gleaner exec --opt sweep=" eager lazy
check "bash: the beginning of a value" offers "gleaner exec --opt sweep=e" eager
check "bash: a list" offers "gleaner exec --opt sweep=eager,mark-a" eager,mark-arena=
check "bash: a value in a list" offers "gleaner exec --opt markers=2,sweep=l" lazy
check "bash: --opt=" offers "gleaner exec --opt=prefetch-hint=" nta t0
check "bash: an option of the other heap is not offered" offers "gleaner exec --opt tlab"
check "bash: ... but shown" offers "gleaner options --opt tlab" tlab=
check "bash: options of a comparison" offers "gleaner compare --opt sweep=" eager lazy
check "bash: placement" offers "gleaner place --opt placement=pa" paired paper
check "bash: the options of heaps are not those of placement" offers "gleaner place --opt sweep"
check "bash: programs" offers "gleaner exec -- dpkg-div" dpkg-divert
check "bash: words of programs are files" offers "gleaner exec -- guile --o"

reads() { # reads SHELL SCRIPT
    if command -v "$1" >/dev/null; then "$1" -n "$pages/$2"; else grep -q -- "sweep=eager" "$pages/$2"; fi
}
check "zsh reads its script" reads zsh zsh/site-functions/_gleaner
check "fish reads its script" reads fish fish/vendor_completions.d/gleaner.fish
