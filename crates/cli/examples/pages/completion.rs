//! The completion of the command's words. The generators know the words of the command line; the items of `--opt` are
//! added here as the values of that argument, from the tables of options.
//!
//! Bash splits words at `=` and its generator offers nothing behind `--`, so what is generated for it is called by a
//! function that knows both.

use clap::builder::PossibleValue;
use clap::{Arg, Command};
use clap_complete::{Generator, Shell, generate};
use gleaner_base::options::{Accepted, HeapKind, TABLE};
use gleaner_place::Settings;

/// Where each script lies, with its text.
pub(crate) fn scripts(command: Command) -> [(String, String); 3] {
    let plain = |shell| script(shell, command.clone());
    let with_items = |shell| script(shell, with_items(command.clone()));
    [
        (
            "bash-completion/completions/gleaner".into(),
            plain(Shell::Bash) + &bash_items(),
        ),
        ("zsh/site-functions/_gleaner".into(), with_items(Shell::Zsh)),
        (
            "fish/vendor_completions.d/gleaner.fish".into(),
            with_items(Shell::Fish) + FISH_PROGRAM,
        ),
    ]
}

fn script(shell: impl Generator, mut command: Command) -> String {
    let mut text = Vec::new();
    generate(shell, &mut command, "gleaner", &mut text);
    String::from_utf8(text).expect("scripts are made of texts")
}

/// The subcommands that take `--opt`, with what it accepts.
fn subcommands() -> [(&'static str, Vec<Item>); 4] {
    let libgc = |serves: gleaner_base::options::Serves| serves.includes(HeapKind::Libgc);
    [
        ("exec", heap_items(libgc)),
        ("compare", heap_items(libgc)),
        ("options", heap_items(|_| true)),
        ("place", place_items()),
    ]
}

/// One thing that may follow `--opt`.
struct Item {
    /// `NAME=VALUE`, or `NAME=` if any of many values may follow.
    text: String,
    /// What it does.
    help: &'static str,
}

impl Item {
    /// An item for each of the words, or one for the name alone.
    fn all(name: &str, words: &[&str], help: &'static str) -> Vec<Item> {
        let words = if words.is_empty() { &[""][..] } else { words };
        words
            .iter()
            .map(|word| Item {
                text: format!("{name}={word}"),
                help,
            })
            .collect()
    }
}

/// The options of those heaps. One of which two tables have a row is there once for each value.
fn heap_items(serves: impl Fn(gleaner_base::options::Serves) -> bool) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for info in TABLE.iter().filter(|info| serves(info.serves)) {
        let words = match info.accepted {
            Accepted::Choice(words) => words,
            _ => &[],
        };
        for item in Item::all(info.name, words, info.doc) {
            if !items.iter().any(|known| known.text == item.text) {
                items.push(item);
            }
        }
    }
    items
}

/// The options of placement.
fn place_items() -> Vec<Item> {
    let items = |name| Item::all(name, &Settings::words(name), "");
    Settings::NAMES.into_iter().flat_map(items).collect()
}

/// The command, with the items as the values of `--opt`.
fn with_items(command: Command) -> Command {
    subcommands()
        .into_iter()
        .fold(command, |command, (name, items)| {
            let values: Vec<_> = items
                .into_iter()
                .map(|item| {
                    // The definitions of a command hold texts that stay, and this program ends soon.
                    let value = PossibleValue::new(&*item.text.leak());
                    match item.help {
                        "" => value,
                        help => value.help(help),
                    }
                })
                .collect();
            let opt = |arg: Arg| arg.value_parser(values);
            command.mut_subcommand(name, |subcommand| subcommand.mut_arg("options", opt))
        })
}

/// The functions for bash, with the items put in.
fn bash_items() -> String {
    let cases: String = subcommands()
        .iter()
        .map(|(name, items)| {
            let items: Vec<_> = items.iter().map(|item| item.text.as_str()).collect();
            format!("        {name}) items=\"{}\" ;;\n", items.join(" "))
        })
        .collect();
    BASH_ITEMS.replace("@CASES@\n", &cases)
}

const BASH_ITEMS: &str = r#"
# Completes the item of --opt in which the cursor is: a name, or the value behind its '='. Readline splits words there, and
# an argument may be a list of items with commas between. Fails where the cursor is in no item.
_gleaner_item() {
    local index=$COMP_CWORD text=${COMP_WORDS[COMP_CWORD]} word=${2#=} item items name kept candidate
    while ((index > 2)) && [[ ${COMP_WORDS[index]} == = || ${COMP_WORDS[index - 1]} == = ]]; do
        ((index--))
        text=${COMP_WORDS[index]}$text
    done
    if [[ $text == --opt=* ]]; then
        text=${text#--opt=}
    elif [[ ${COMP_WORDS[index - 1]} != --opt ]]; then
        return 1
    fi
    case ${COMP_WORDS[1]} in
@CASES@
        *) return 1 ;;
    esac
    item=${text##*,}
    kept=
    if [[ $word == *,* ]]; then kept=${word%,*},; fi
    for candidate in $items; do
        [[ $candidate == "$item"* ]] || continue
        name=${candidate%%=*}
        if [[ $item == *=* ]]; then
            candidate=${candidate#*=}
        else
            candidate=$kept$name=
            compopt -o nospace 2>/dev/null
        fi
        if [[ -n $candidate && " ${COMPREPLY[*]} " != *" $candidate "* ]]; then
            COMPREPLY+=("$candidate")
        fi
    done
}

# Completes words of gleaner up to --, and those of the program behind it.
_gleaner_or_program() {
    local index
    COMPREPLY=()
    for ((index = 2; index < COMP_CWORD; index++)); do
        if [[ ${COMP_WORDS[index]} == -- ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset $((index + 1))
            elif ((COMP_CWORD == index + 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$2")
            fi
            return 0
        fi
    done
    _gleaner_item "$@" || _gleaner "$@"
}
complete -F _gleaner_or_program -o bashdefault -o default gleaner
"#;

const FISH_PROGRAM: &str = r"
# Behind -- are the words of a program.
function __fish_gleaner_program
    set -l words (commandline -opc) (commandline -ct)
    set -l end (contains -i -- -- $words)
    and __fish_complete_subcommand --commandline $words[(math $end + 1)..]
end
complete -c gleaner -n 'contains -- -- (commandline -opc)' -x -a '(__fish_gleaner_program)'
";
