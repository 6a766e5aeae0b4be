//! The page of text: what lives, what keeps it, what may be kept by mistake, and the objects that hold most.

use std::fmt::Write as _;
use std::path::Path;

use gleaner_heapgraph::{Node, Suspects, Tally};

use super::facts::{Facts, Keeper};
use super::names;
use crate::words::{counted, percent, shown, size};

/// Kinds and sizes that are shown.
const MOST_CLASSES: usize = 15;
/// Sites of allocation that are shown.
const MOST_SITES: usize = 10;
/// Roots that are shown of those that keep something together.
const MOST_SHARING: usize = 4;
/// Doubtful words that are shown.
pub(super) const MOST_SUSPECTS: usize = 10;
/// Large objects that are shown.
pub(super) const MOST_LARGE: usize = 5;
/// Objects that hold much and are shown.
pub(super) const MOST_HOLDERS: usize = 10;

/// The page.
pub(super) fn text(facts: &Facts<'_>, path: &Path) -> String {
    let mut page = Page {
        facts,
        text: String::new(),
    };
    page.totals();
    if facts.reached.objects > 0 {
        page.census();
        page.keepers();
        page.suspects();
        page.objects(path);
    }
    page.text
}

struct Page<'a> {
    facts: &'a Facts<'a>,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// A heading, with what the columns are.
    fn head(&mut self, heading: &str, what: &str) {
        let _ = writeln!(
            self.text,
            "\n{heading}\n{:>12} {:>8} {:>10}  {what}",
            "bytes", "share", "objects"
        );
    }

    fn row(&mut self, tally: Tally, what: &str) {
        let share = tally.bytes as f64 / self.facts.reached.bytes.max(1) as f64 * 100.0;
        let _ = writeln!(
            self.text,
            "{:>12} {:>8} {:>10}  {what}",
            size(tally.bytes),
            format!("{share:.1} %"),
            tally.objects
        );
    }

    fn totals(&mut self) {
        let Facts {
            snapshot,
            reached,
            unreached,
            ..
        } = *self.facts;
        let when = match shown(&snapshot.when) {
            when if when.is_empty() => when,
            when => format!(", at {when}"),
        };
        let name = match shown(&snapshot.name) {
            name if name.is_empty() => name,
            name => format!("{name}, "),
        };
        self.line(&format!("{name}process {}{when}", snapshot.process));
        self.line(&format!(
            "  lives  {} in {}: roots lead to them, directly or through others",
            size(reached.bytes),
            counted(reached.objects, "object")
        ));
        if unreached.objects > 0 {
            self.line(&format!(
                "  other  {} in {}: no root leads to them. They wait for their finalizers, are free cells that \
                 threads hold ready, or garbage of which a collection kept the marks",
                size(unreached.bytes),
                counted(unreached.objects, "object")
            ));
        }
        if snapshot.capacity > 0 {
            self.line(&format!(
                "  heap   {}, of which {} lives",
                size(snapshot.capacity),
                percent(reached.bytes, snapshot.capacity)
            ));
        }
    }

    /// The first rows, and the rest as one.
    fn rows<T>(
        &mut self,
        rows: &[(T, Tally)],
        most: usize,
        name: impl Fn(&T) -> String,
        rest: &str,
    ) {
        for (what, tally) in rows.iter().take(most) {
            self.row(*tally, &name(what));
        }
        let more = rows.get(most..).unwrap_or_default();
        if !more.is_empty() {
            let tally = more.iter().map(|(_, tally)| *tally).sum();
            self.row(tally, &format!("{} more {rest}", more.len()));
        }
    }

    fn census(&mut self) {
        let census = &self.facts.census;
        let what = names::of_classes(self.facts.snapshot);
        self.head("What lives", what);
        self.rows(
            &census.classes,
            MOST_CLASSES,
            names::class,
            match self.facts.snapshot.is_precise {
                true => "types",
                false => "kinds and sizes",
            },
        );
        if !census.sites.is_empty() {
            self.head("Where it was allocated", "site");
            self.rows(&census.sites, MOST_SITES, |site| shown(site), "sites");
            let with_site: Tally = census.sites.iter().map(|(_, tally)| *tally).sum();
            let without = self.facts.reached.without(with_site);
            if without.objects > 0 {
                self.row(without, "not by debugging allocation, so that nobody knows");
            }
        }
    }

    fn keepers(&mut self) {
        let keepers = self.facts.keepers();
        self.head(
            "What keeps it: what would be garbage without this root or this one word of it",
            "root, and its words -> the objects that they lead to",
        );
        for keeper in &keepers.roots {
            self.keeper(keeper);
        }
        if keepers.by_more_roots.objects > 0 {
            let name = more(keepers.more_roots, "root");
            self.row(keepers.by_more_roots, &name);
        }
        if keepers.by_several.objects > 0 {
            self.row(
                keepers.by_several,
                "kept by several roots: garbage only without all of these",
            );
            let least = self.facts.least();
            let leading = keepers.sharing.iter().take(MOST_SHARING);
            for (root, first) in leading.filter(|(_, first)| first.bytes > least) {
                let name = names::root(self.facts.snapshot, *root);
                self.row(*first, &format!("    of these, {name} leads to first"));
            }
        }
    }

    fn keeper(&mut self, keeper: &Keeper) {
        let snapshot = self.facts.snapshot;
        self.row(keeper.alone, &names::root(snapshot, keeper.root));
        for (word, kept) in &keeper.words {
            let place = names::place(snapshot, *word).map_or(String::new(), |place| place + " ");
            let object = snapshot.words[*word as usize].object;
            let name = format!("    {place}-> {}", names::object(snapshot, object));
            self.row(*kept, &name);
        }
        let least = self.facts.least();
        if keeper.by_more_words.bytes > least {
            let name = format!("    {}, each for itself", more(keeper.more_words, "word"));
            self.row(keeper.by_more_words, &name);
        }
        if keeper.by_several.bytes > least {
            self.row(keeper.by_several, "    kept by several of its words");
        }
    }

    fn suspects(&mut self) {
        let Facts {
            graph,
            retained,
            reached,
            ..
        } = self.facts;
        let suspects = Suspects::new(graph, retained, MOST_SUSPECTS);
        let variables = suspects.by_variables;
        if variables.objects > 0 {
            self.line(&format!(
                "\nWhat only stacks keep\n  {} in {} ({}) live only because of words of stacks that lead to where pointers do. \
                 Such a word is a\n  variable that is in use, or left over from a call that has returned.",
                size(variables.bytes),
                counted(variables.objects, "object"),
                percent(variables.bytes, reached.bytes),
            ));
        }
        if suspects.words == 0 {
            return;
        }
        self.line(&format!(
            "\nWhat may be kept by mistake\n  {} in {} ({}) live only because of {} \
             of roots that may be no pointers:\n  they lead to places inside of objects that no object refers to.",
            size(suspects.all.bytes),
            counted(suspects.all.objects, "object"),
            percent(suspects.all.bytes, reached.bytes),
            counted(suspects.words, "word"),
        ));
        if suspects.all.bytes < self.facts.least() {
            return;
        }
        self.line(DOUBT);
        if suspects.worst.is_empty() {
            self.line("  None of these words keeps much.");
            return;
        }
        self.head("Of these words keep most", "word, and its value");
        for (node, kept) in &suspects.worst {
            self.row(*kept, &self.suspect(*node));
        }
        let unsaid = suspects.heavy - suspects.worst.len() as u64;
        if unsaid > 0 {
            self.line(&format!("  and {}", more(unsaid, "such row")));
        }
        self.line(REMEDY);
    }

    /// A doubtful word, or several that lead to one object.
    fn suspect(&self, node: Node) -> String {
        let Facts {
            snapshot,
            graph,
            retained,
            ..
        } = self.facts;
        match node {
            Node::Word(word) => {
                let slot = snapshot.words[word as usize].slot.unwrap_or_default();
                format!(
                    "{} at {slot:x} = {}",
                    names::word(snapshot, word),
                    names::value(snapshot, word)
                )
            }
            Node::Object(object) => {
                let above = retained.dominator(graph.number(node));
                let which = match above.map(|above| graph.node(above)) {
                    Some(Node::Root(root)) => names::root(snapshot, root),
                    _ => "several roots".into(),
                };
                format!(
                    "several words of {which}, by ways that meet in {}",
                    names::object(snapshot, object)
                )
            }
            Node::All | Node::Root(_) => String::new(),
        }
    }

    fn objects(&mut self, path: &Path) {
        let snapshot = self.facts.snapshot;
        let largest = self.facts.largest(MOST_LARGE);
        if !largest.is_empty() {
            self.head("The largest objects", "object");
        }
        for (bytes, object) in &largest {
            self.row(Tally::of(*bytes), &names::object(snapshot, *object));
        }
        let holders = self.facts.holders(MOST_HOLDERS);
        if !holders.is_empty() {
            self.head(
                "The objects that retain most: what would be garbage without them",
                "object",
            );
        }
        for (_, object) in &holders {
            let kept = self.facts.kept_by(gleaner_heapgraph::Node::Object(*object));
            self.row(kept, &names::object(snapshot, *object));
        }
        if let Some((_, object)) = holders.first().or(largest.first()) {
            self.line(&format!(
                "\nWhy one of them is alive: gleaner heap {} --path {:x}",
                path.display(),
                snapshot.base(*object)
            ));
        }
    }
}

const DOUBT: &str = "  \
  Such a word may well be a pointer, as to an element of an array; it may also be left over from a call that has returned, or
  a number that looks like an address.";
const REMEDY: &str = "  \
  If a word is no pointer: allocate data without pointers by GC_malloc_atomic, so that its numbers are not scanned; set
  pointers to NULL before a long call, and let large work be done in a function of its own, so that its stack goes; allocate
  large objects by GC_malloc_ignore_off_page, or call GC_set_all_interior_pointers(0) before GC_INIT and
  GC_register_displacement for the offsets that the program uses, so that words into their middle do not count.";

/// "COUNT more NAMEs".
fn more(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} more {name}{plural}")
}
