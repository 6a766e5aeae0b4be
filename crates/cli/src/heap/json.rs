//! `--json`: the same for programs. Sizes are bytes, addresses hexadecimal text as everywhere.

use gleaner_heapgraph::{Change, Node, ObjectId, Path, Suspects, Tally, WordId};
use serde_json::{Value, json};

use super::facts::Facts;
use super::{growth, page, trail};
use crate::failure::Failure;

/// Kinds and sizes, and sites, that are given.
const MOST_CLASSES: usize = 100;

/// What lives, and what keeps it.
pub(super) fn page(facts: &Facts<'_>) -> String {
    let Facts {
        snapshot,
        graph,
        retained,
        ..
    } = facts;
    let keepers = facts.keepers();
    let suspects = Suspects::new(graph, retained, page::MOST_SUSPECTS);
    let classes = facts.census.classes.iter().take(MOST_CLASSES);
    let sites = facts.census.sites.iter().take(MOST_CLASSES);
    let roots = keepers.roots.iter().map(|keeper| {
        let words = keeper
            .words
            .iter()
            .map(|(word, kept)| word_value(facts, *word, *kept));
        json!({
            "root": snapshot.roots[keeper.root as usize].to_string(),
            "retained": tally(keeper.alone),
            "words": words.collect::<Vec<_>>(),
        })
    });
    let worst = suspects.worst.iter();
    let worst = worst.map(|(node, kept)| match node {
        Node::Word(word) => word_value(facts, *word, *kept),
        Node::Object(object) => object_value(facts, *object),
        Node::All | Node::Root(_) => Value::Null,
    });
    let objects = |found: Vec<(u64, ObjectId)>| -> Vec<_> {
        let values = found.iter().map(|(_, object)| object_value(facts, *object));
        values.collect()
    };
    line(&json!({
        "process": snapshot.process,
        "name": snapshot.name,
        "when": snapshot.when,
        "heap_bytes": snapshot.capacity,
        "whole": snapshot.ending == gleaner_heapgraph::Ending::Whole,
        "reached": tally(facts.reached),
        "unreached": tally(facts.unreached),
        "classes": classes.map(|(class, count)| json!({
            "kind": class.kind, "size": class.bytes, "bytes": count.bytes, "objects": count.objects,
        })).collect::<Vec<_>>(),
        "sites": sites.map(|(site, count)| json!({
            "site": site, "bytes": count.bytes, "objects": count.objects,
        })).collect::<Vec<_>>(),
        "roots": roots.collect::<Vec<_>>(),
        "several_roots": tally(keepers.by_several),
        "suspects": {
            "bytes": suspects.all.bytes,
            "objects": suspects.all.objects,
            "words": suspects.words,
            "variables": tally(suspects.by_variables),
            "worst": worst.collect::<Vec<_>>(),
        },
        "largest": objects(facts.largest(page::MOST_LARGE)),
        "holders": objects(facts.holders(page::MOST_HOLDERS)),
    }))
}

/// A path, of a long one its ends; without a word and objects if no root leads there.
pub(super) fn path(facts: &Facts<'_>, address: u64) -> Result<String, Failure> {
    let object = trail::object_at(facts.snapshot, address)?;
    let path = Path::new(&facts.graph, object, false);
    let word = path.as_ref().map(|path| {
        let kept = facts.kept_by(Node::Word(path.word));
        word_value(facts, path.word, kept)
    });
    let (begin, left_out, end) = path
        .as_ref()
        .map_or((&[][..], 0, &[][..]), |path| trail::ends(&path.objects));
    let objects = path.as_ref().map(|_| {
        let objects = begin.iter().chain(end);
        let values = objects.map(|object| object_value(facts, *object));
        values.collect::<Vec<_>>()
    });
    Ok(line(&json!({
        "object": object_value(facts, object),
        "word": word,
        "path": objects,
        "left_out": left_out,
        "direct_words": path.map_or(0, |path| path.direct),
    })))
}

/// What grew.
pub(super) fn growth(older: &Facts<'_>, newer: &Facts<'_>) -> String {
    let growth = growth::growth(older, newer);
    let changed = |change: &Change| change.then != change.now;
    let classes = growth.classes.iter().filter(|(_, change)| changed(change));
    let sites = growth.sites.iter().filter(|(_, change)| changed(change));
    let roots = growth.roots.iter().filter(|(_, change)| changed(change));
    let values = |change: &Change| (tally(change.then), tally(change.now));
    line(&json!({
        "then": tally(growth.all.then),
        "now": tally(growth.all.now),
        "new": growth.new.map(tally),
        "classes": classes.take(MOST_CLASSES).map(|(class, change)| {
            let (then, now) = values(change);
            json!({"kind": class.kind, "size": class.bytes, "then": then, "now": now})
        }).collect::<Vec<_>>(),
        "sites": sites.take(MOST_CLASSES).map(|(site, change)| {
            let (then, now) = values(change);
            json!({"site": site, "then": then, "now": now})
        }).collect::<Vec<_>>(),
        "roots": roots.map(|(root, change)| {
            let (then, now) = values(change);
            json!({"root": root, "then": then, "now": now})
        }).collect::<Vec<_>>(),
    }))
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn tally(tally: Tally) -> Value {
    json!({"bytes": tally.bytes, "objects": tally.objects})
}

fn address(address: u64) -> String {
    format!("{address:x}")
}

fn word_value(facts: &Facts<'_>, number: WordId, kept: Tally) -> Value {
    let snapshot = facts.snapshot;
    let word = &snapshot.words[number as usize];
    json!({
        "root": snapshot.roots[snapshot.root_of(word) as usize].to_string(),
        "slot": word.slot.map(address),
        "object": address(snapshot.base(word.object)),
        "offset": word.offset,
        "retained": tally(kept),
    })
}

fn object_value(facts: &Facts<'_>, object: ObjectId) -> Value {
    let snapshot = facts.snapshot;
    json!({
        "address": address(snapshot.base(object)),
        "bytes": snapshot.bytes(object),
        "kind": snapshot.kind_name(snapshot.kind(object)),
        "site": snapshot.site_of(object),
        "retained": tally(facts.kept_by(Node::Object(object))),
    })
}
