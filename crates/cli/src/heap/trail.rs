//! `--path`: from a word of a root, through each object, to the one that was asked for.

use std::fmt::Write as _;

use gleaner_heapgraph::{Evidence, Node, ObjectId, Path, Snapshot};

use super::facts::Facts;
use super::names;
use crate::failure::Failure;
use crate::words::{counted, percent, shown, size};

/// Objects of a path that are shown, half of them at each end.
const MOST_SHOWN: usize = 24;

/// The objects of a path that are shown: those at its beginning, how many are left out behind them, those at its end.
pub(super) fn ends(objects: &[ObjectId]) -> (&[ObjectId], usize, &[ObjectId]) {
    match objects.len().checked_sub(MOST_SHOWN) {
        None | Some(0) => (objects, 0, &[]),
        Some(left_out) => {
            let (begin, rest) = objects.split_at(MOST_SHOWN / 2);
            (begin, left_out, &rest[left_out..])
        }
    }
}

/// An address as users and debuggers write it.
pub(super) fn address(text: &str) -> Result<u64, Failure> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let digits = digits.unwrap_or(text);
    let is_plain = digits.bytes().all(|letter| letter.is_ascii_hexdigit());
    let address = u64::from_str_radix(digits, 16).ok().filter(|_| is_plain);
    address.ok_or_else(|| {
        Failure::usage(format_args!(
            "--path: '{}' is no address. Give the hexadecimal number of an object, such as 7f3a10c04e40, as the page of \
             the snapshot or a debugger shows it",
            shown(text)
        ))
    })
}

/// The object that was asked for.
pub(super) fn object_at(snapshot: &Snapshot, address: u64) -> Result<ObjectId, Failure> {
    if let Some(object) = snapshot.at(address) {
        return Ok(object);
    }
    let (before, behind) = snapshot.around(address);
    let name = |object: Option<ObjectId>, where_it_is: &str| {
        let name = object.map(|object| names::object(snapshot, object));
        name.map(|name| format!("{name} {where_it_is} it"))
    };
    let nearest: Vec<_> = [name(before, "before"), name(behind, "behind")]
        .into_iter()
        .flatten()
        .collect();
    let nearest = match nearest.is_empty() {
        true => "it has no object at all".into(),
        false => format!("the nearest are {}", nearest.join(" and ")),
    };
    Err(Failure::usage(format_args!(
        "--path: no object of the snapshot has the address {address:x}: {nearest}. The object was garbage when the snapshot \
         was made, or came later, or is none of the collector's"
    )))
}

/// The path as text.
pub(super) fn text(facts: &Facts<'_>, address: u64) -> Result<String, Failure> {
    let Facts {
        snapshot, graph, ..
    } = facts;
    let object = object_at(snapshot, address)?;
    let name = names::object(snapshot, object);
    let mut text = String::new();
    let into = address - snapshot.base(object);
    if into > 0 {
        let _ = writeln!(text, "{address:x} lies {into} bytes into {name}");
    }
    let Some(path) = Path::new(graph, object, false) else {
        let _ = writeln!(
            text,
            "No root leads to {name}: it waits for its finalizer, is a free cell that a thread holds ready, or garbage"
        );
        return Ok(text);
    };
    let _ = writeln!(text, "A shortest path from a root to {name}:");
    text += &steps(snapshot, &path);
    let evidence = snapshot.evidence(&snapshot.words[path.word as usize]);
    if evidence != Evidence::Pointer {
        match Path::new(graph, object, true) {
            Some(sure) => {
                text += "A shortest path from a word that is a pointer without much doubt:\n";
                text += &steps(snapshot, &sure);
            }
            None if evidence == Evidence::Variable => text += "Only stacks lead to it.\n",
            None => text += "Only words that may be no pointers lead to it.\n",
        }
    }
    text += &without_it(facts, object);
    text += &others(facts, &path, object);
    Ok(text)
}

/// The word, and each object.
fn steps(snapshot: &Snapshot, path: &Path) -> String {
    let word = &snapshot.words[path.word as usize];
    let mut text = format!("  {}", names::word(snapshot, path.word));
    if let Some(slot) = word.slot {
        let _ = write!(text, ", the word at {slot:x}");
    }
    if !snapshot.leads_to_beginning(word) {
        let _ = write!(text, ", which leads {} bytes into the object", word.offset);
    }
    text += match snapshot.evidence(word) {
        Evidence::Pointer => "",
        Evidence::Variable => ", a variable, or left over from a call that has returned",
        Evidence::Doubtful => " and may be no pointer",
    };
    text.push('\n');
    let (begin, left_out, end) = ends(&path.objects);
    let line = |object: &ObjectId| format!("  -> {}\n", names::object(snapshot, *object));
    text.extend(begin.iter().map(line));
    if left_out > 0 {
        let left_out = counted(left_out as u64, "object");
        let _ = writeln!(text, "  ... {left_out} in between");
    }
    text.extend(end.iter().map(line));
    text
}

/// What the object retains.
fn without_it(facts: &Facts<'_>, object: ObjectId) -> String {
    let kept = facts.kept_by(Node::Object(object));
    format!(
        "It retains {} in {}, itself included ({} of what lives).\n",
        size(kept.bytes),
        counted(kept.objects, "object"),
        percent(kept.bytes, facts.reached.bytes)
    )
}

/// What else keeps it.
fn others(facts: &Facts<'_>, path: &Path, object: ObjectId) -> String {
    let Facts {
        snapshot, graph, ..
    } = facts;
    let is_direct = path.objects.len() == 1;
    let direct = path.direct - u64::from(is_direct);
    let verb = if direct == 1 { "leads" } else { "lead" };
    let mut text = match direct {
        0 => "No other word of a root leads to it directly. ".to_string(),
        _ => format!(
            "{} of roots {verb} to it directly. ",
            counted(direct, "other word")
        ),
    };
    let above = facts
        .retained
        .dominator(graph.number(Node::Object(object)))
        .map(|number| graph.node(number));
    text += &match above {
        Some(Node::Object(above)) => format!(
            "Each path to it goes through {}.\n",
            names::object(snapshot, above)
        ),
        Some(Node::Word(word)) => {
            format!("Only {} keeps it.\n", names::word(snapshot, word))
        }
        Some(Node::Root(root)) => format!(
            "Several words of one root keep it: {}.\n",
            names::root(snapshot, root)
        ),
        _ => "Several roots keep it.\n".to_string(),
    };
    text
}
