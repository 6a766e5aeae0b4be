//! `--devtools`: the snapshot in the format of V8, which the developer tools of Chrome and Node open.
//!
//! The format is one object with arrays of numbers: seven for a node, three for an edge, and text in an array of its
//! own; its meaning stands in `meta`. The tools keep each number in 32 bits and show what has one type and one name
//! together, so nodes are named by kind and size. Their numbers are made of their addresses. So the same object has the
//! same number in another snapshot of the process, and the tools can compare two. The number is the address divided by
//! 16, its lowest 32 bits.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use gleaner_heapgraph::{Graph, ObjectId, Snapshot};

use super::names;
use crate::failure::Failure;
use crate::outputs;
use crate::words::{counted, size};

/// What the numbers of nodes and edges mean.
const META: &str = r#"{"node_fields":["type","name","id","self_size","edge_count","trace_node_id","detachedness"],"node_types":[["hidden","array","string","object","code","closure","regexp","number","native","synthetic","concatenated string","sliced string","symbol","bigint","object shape"],"string","number","number","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"],"trace_function_info_fields":["function_id","name","script_name","script_id","line","column"],"trace_node_fields":["id","function_info_index","count","size","children"],"sample_fields":["timestamp_us","last_assigned_id"],"location_fields":["object_index","script_id","line","column"]}"#;
/// Numbers of a node.
const NODE_FIELDS: u64 = 7;
/// Their types, by their place in `META`.
const OBJECT: u32 = 3;
const SYNTHETIC: u32 = 9;
/// Types of edges, the same.
const ELEMENT: u32 = 1;
const PROPERTY: u32 = 2;
/// An address as a number that is different for each object of 64 GiB.
const GRANULE_SHIFT: u32 = 4;

/// Writes the file, and returns what to say of it.
pub(super) fn write(snapshot: &Snapshot, output: &Path) -> Result<String, Failure> {
    let written = outputs::write(output, |to| Writer::new(snapshot, to).write());
    let bytes = written.map_err(|error| {
        Failure::usage(format_args!(
            "the file {} cannot be written: {error}. Name another file with --devtools FILE",
            output.display()
        ))
    })?;
    Ok(format!(
        "{}: {}, {}. In Chrome's developer tools, or those of chrome://inspect: Memory, Load\n",
        output.display(),
        counted(u64::from(snapshot.count()), "object"),
        size(bytes)
    ))
}

struct Writer<'a, W> {
    snapshot: &'a Snapshot,
    graph: Graph<'a>,
    to: W,
    strings: Vec<String>,
    numbers: HashMap<String, u32>,
    written: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(snapshot: &'a Snapshot, to: W) -> Writer<'a, W> {
        Writer {
            snapshot,
            graph: Graph::new(snapshot),
            to,
            strings: Vec::new(),
            numbers: HashMap::new(),
            written: 0,
        }
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.written += text.len() as u64;
        self.to.write_all(text.as_bytes())
    }

    fn string(&mut self, text: String) -> u32 {
        let next = self.strings.len() as u32;
        let number = *self.numbers.entry(text.clone()).or_insert(next);
        if number == next {
            self.strings.push(text);
        }
        number
    }

    /// All nodes, then all edges in the order of their nodes: those of the virtual root, of the roots, of the objects.
    fn write(&mut self) -> io::Result<u64> {
        let snapshot = self.snapshot;
        let roots = snapshot.roots.len() as u64;
        let edges = roots + snapshot.words.len() as u64 + snapshot.edge_count();
        let nodes = 1 + roots + u64::from(snapshot.count());
        self.put(&format!(
            "{{\"snapshot\":{{\"meta\":{META},\"node_count\":{nodes},\"edge_count\":{edges},\"trace_function_count\":0}},\n\"nodes\":["
        ))?;
        self.nodes()?;
        self.put("],\n\"edges\":[")?;
        self.edges()?;
        self.put(
            "],\n\"trace_function_infos\":[],\n\"trace_tree\":[],\n\"samples\":[],\n\"locations\":[],\n\"strings\":[",
        )?;
        let strings = std::mem::take(&mut self.strings);
        for (at, text) in strings.iter().enumerate() {
            let comma = if at == 0 { "" } else { ",\n" };
            self.put(&format!(
                "{comma}{}",
                serde_json::Value::from(text.as_str())
            ))?;
        }
        self.put("]}\n")?;
        Ok(self.written)
    }

    fn nodes(&mut self) -> io::Result<()> {
        let snapshot = self.snapshot;
        let ids = Ids::new(snapshot);
        let name = self.string(String::new());
        self.put(&format!(
            "{SYNTHETIC},{name},{},0,{},0,0",
            ids.of_root(0),
            snapshot.roots.len()
        ))?;
        for root in 0..snapshot.roots.len() as u32 {
            let words = self.graph.words_of(root).len();
            let name = self.string(names::root(snapshot, root));
            let id = ids.of_root(u64::from(root) + 1);
            self.put(&format!(",\n{SYNTHETIC},{name},{id},0,{words},0,0"))?;
        }
        for object in snapshot.objects() {
            let bytes = snapshot.bytes(object);
            let name = self.string(self.object_name(object));
            let edges = snapshot.targets(object).len();
            let line = format!(
                ",\n{OBJECT},{name},{},{},{edges},0,0",
                ids.of(object),
                bytes.min(u64::from(u32::MAX))
            );
            self.put(&line)?;
        }
        Ok(())
    }

    fn object_name(&self, object: ObjectId) -> String {
        let snapshot = self.snapshot;
        let kind = snapshot.kind_name(snapshot.kind(object));
        match snapshot.site_of(object) {
            Some(site) => format!("{site} ({kind})"),
            None => format!("{kind}, {}", size(snapshot.bytes(object))),
        }
    }

    fn edges(&mut self) -> io::Result<()> {
        let snapshot = self.snapshot;
        let roots = snapshot.roots.len() as u64;
        let to_object = |object: ObjectId| (1 + roots + u64::from(object)) * NODE_FIELDS;
        let mut comma = "";
        for root in 0..roots {
            let to = (1 + root) * NODE_FIELDS;
            self.put(&format!("{comma}{ELEMENT},{root},{to}"))?;
            comma = ",\n";
        }
        for root in 0..roots as u32 {
            for (word, at) in self.graph.words_of(root).zip(0..) {
                let to = to_object(snapshot.words[word as usize].object);
                let edge = match snapshot.words[word as usize].slot {
                    Some(slot) => {
                        let place = names::place(snapshot, word).unwrap_or_default();
                        let name = self.string(format!("{slot:x} ({place})"));
                        format!("{comma}{PROPERTY},{name},{to}")
                    }
                    None => format!("{comma}{ELEMENT},{at},{to}"),
                };
                self.put(&edge)?;
            }
        }
        for object in snapshot.objects() {
            for (at, target) in snapshot.targets(object).iter().enumerate() {
                let to = to_object(*target);
                self.put(&format!("{comma}{ELEMENT},{at},{to}"))?;
            }
        }
        Ok(())
    }
}

/// Numbers of nodes.
struct Ids<'a> {
    snapshot: &'a Snapshot,
    /// Whether they are made of addresses: these are multiples of 16 in 64 GiB.
    are_addresses: bool,
    /// Behind those of all objects.
    end: u64,
}

impl<'a> Ids<'a> {
    fn new(snapshot: &'a Snapshot) -> Ids<'a> {
        let bases = || snapshot.objects().map(|object| snapshot.base(object));
        let low = bases().min().unwrap_or(0) >> GRANULE_SHIFT;
        let high = bases().max().unwrap_or(0) >> GRANULE_SHIFT;
        let roots = snapshot.roots.len() as u64 + 1;
        let are_whole = bases().all(|base| base % (1 << GRANULE_SHIFT) == 0);
        let are_addresses = are_whole && high - low < u64::from(u32::MAX) - roots;
        Ids {
            snapshot,
            are_addresses,
            end: if are_addresses {
                high + 1
            } else {
                u64::from(snapshot.count()) + 1
            },
        }
    }

    fn of(&self, object: ObjectId) -> u32 {
        if self.are_addresses {
            (self.snapshot.base(object) >> GRANULE_SHIFT) as u32
        } else {
            object + 1
        }
    }

    fn of_root(&self, root: u64) -> u32 {
        (self.end + root) as u32
    }
}
