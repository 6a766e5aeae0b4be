//! A real XML document is read into objects, transformed, and written again, several times.
//!
//! The tree is what a parser builds: elements that know their parent, lists of attributes, texts, names that occur
//! once. The transformation is a small style sheet: attributes become elements, texts become upper case, and elements
//! of one parent are sorted by their names. It makes a second tree, which is written into a list of buffers. Then all
//! three die together, when the largest part of them is old.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::document::{Document, Part};
use super::mutators::Mutators;
use super::objects::{Allocated, Code, Numbers, Record, Slots, frame, object, put, value};
use super::random::{NO_BYTES, chained, hash_of, hash_on};
use super::{Facts, Prepared, Scale, Workload, failed};

/// Places of the table of names.
const PLACES: usize = 256;
/// Bytes of a buffer that is written to.
const BUFFER: usize = 4096;

/// The references of a node.
const NEXT: usize = 0;
const PARENT: usize = 1;
/// A name, or, of a text, its letters.
const CONTENT: usize = 2;
const ATTRIBUTES: usize = 3;
const FIRST: usize = 4;
const LAST: usize = 5;

struct Xml<F> {
    document: Document,
    passes: u32,
    /// See the constants; whether it is an element, and how many children it has.
    node: Record<F, 6, 8>,
    /// The next attribute, the name, the value.
    attribute: Record<F, 3, 0>,
    /// The next name in its place, its letters.
    name: Record<F, 2, 0>,
    /// The next buffer, the bytes; how many are used.
    buffer: Record<F, 2, 4>,
    slots: Slots<F>,
    bytes: Numbers<F, u8>,
}

/// Roots while a document is read.
struct Reading<'a> {
    /// The innermost element.
    at: &'a Cell<Value>,
    /// Its last attribute.
    last: &'a Cell<Value>,
    /// The table of names.
    names: &'a Cell<Value>,
}

/// Why a document was not read to its end.
enum Stopped {
    Full(OutOfMemory),
    Malformed(String),
}

impl From<String> for Stopped {
    fn from(error: String) -> Stopped {
        Stopped::Malformed(error)
    }
}

impl From<OutOfMemory> for Stopped {
    fn from(full: OutOfMemory) -> Stopped {
        Stopped::Full(full)
    }
}

/// The whole document eight times, or 300 elements of it twice.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Xml::<F> {
        document: Document::read(scale)?,
        passes: scale.of(8, 2),
        node: Record::register(heap).map_err(failed)?,
        attribute: Record::register(heap).map_err(failed)?,
        name: Record::register(heap).map_err(failed)?,
        buffer: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
    }))
}

impl<F: Code> Workload for Xml<F> {
    /// A number made of what was written.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let sums = mutators.run(mutator, |mutator, _| {
            let mut sum = 0;
            for _ in 0..self.passes {
                sum = chained(sum, self.pass(mutator)?);
            }
            Ok(sum)
        })?;
        facts.insert("bytes".into(), self.document.text.len().into());
        facts.insert("elements".into(), self.document.elements.into());
        Ok(sums.into_iter().fold(0, u64::wrapping_add))
    }
}

impl<F: Code> Xml<F> {
    fn pass(&self, mutator: &mut Mutator) -> Result<u64, OutOfMemory> {
        frame(mutator, [Address::NULL; 2], |mutator, [tree, other]| {
            tree.set(value(self.read(mutator)?));
            other.set(value(self.transformed(mutator, object(tree))?));
            let hash = self.written(mutator, object(other))?;
            let elements = self.elements(mutator, object(tree), Address::NULL);
            assert_eq!(elements, self.document.elements, "the tree is whole");
            Ok(hash)
        })
    }

    /// How many elements a tree has, in which each node knows its parent.
    fn elements(&self, mutator: &Mutator, node: Address, parent: Address) -> usize {
        assert!(
            self.node.get(mutator, node, PARENT) == parent,
            "a node knows its parent"
        );
        let mut elements = self.node.number(node, 0) as usize;
        let mut child = self.node.get(mutator, node, FIRST);
        while child != Address::NULL {
            elements += self.elements(mutator, child, node);
            child = self.node.get(mutator, child, NEXT);
        }
        elements
    }

    /// A node with a content, as the last child of another.
    fn add(
        &self,
        mutator: &mut Mutator,
        parent: &Cell<Value>,
        content: Address,
        is_element: bool,
    ) -> Allocated {
        frame(mutator, [content], |mutator, [content]| {
            let node = self.node.fresh(mutator)?;
            self.node.set(mutator, node, CONTENT, object(content));
            self.node.set_number(node, 0, u32::from(is_element));
            let parent = object(parent);
            if parent != Address::NULL {
                self.append(mutator, parent, node);
            }
            Ok(node)
        })
    }

    fn append(&self, mutator: &Mutator, parent: Address, node: Address) {
        self.node.set(mutator, node, PARENT, parent);
        let last = self.node.get(mutator, parent, LAST);
        if last == Address::NULL {
            self.node.set(mutator, parent, FIRST, node);
        } else {
            self.node.set(mutator, last, NEXT, node);
        }
        self.node.set(mutator, parent, LAST, node);
        let children = self.node.number(parent, 1);
        self.node.set_number(parent, 1, children + 1);
    }
}

/// Reading.
impl<F: Code> Xml<F> {
    /// The tree of the document.
    fn read(&self, mutator: &mut Mutator) -> Allocated {
        let names = self.slots.fresh(mutator, PLACES)?;
        let roots = [Address::NULL, names, Address::NULL, Address::NULL];
        frame(mutator, roots, |mutator, [at, names, last, root]| {
            let reading = &Reading { at, last, names };
            let read = self.document.parts(&mut |part| {
                match part {
                    Part::Element(name) => {
                        let name = self.name(mutator, names, name)?;
                        let element = value(self.add(mutator, at, name, true)?);
                        at.set(element);
                        last.set(Value::NULL);
                        if object(root) == Address::NULL {
                            root.set(element);
                        }
                    }
                    Part::Attribute(name, text) => {
                        self.add_attribute(mutator, reading, name, text)?;
                    }
                    Part::Text(text) => {
                        let text = self.bytes.copied(mutator, text.as_bytes())?;
                        self.add(mutator, at, text, false)?;
                    }
                    Part::End => at.set(value(self.node.get(mutator, object(at), PARENT))),
                }
                Ok(())
            });
            match read {
                Ok(()) => Ok(object(root)),
                Err(Stopped::Full(full)) => Err(full),
                Err(Stopped::Malformed(error)) => unreachable!("it was read before: {error}"),
            }
        })
    }

    /// The letters of a name, the same object for the same name.
    fn name(&self, mutator: &mut Mutator, names: &Cell<Value>, text: &str) -> Allocated {
        let place = hash_of(text.as_bytes()) as usize % PLACES;
        let mut name = self.slots.get(mutator, object(names), place);
        while name != Address::NULL {
            let letters = self.name.get(mutator, name, 1);
            if self
                .bytes
                .look(mutator, letters, |letters| letters == text.as_bytes())
            {
                return Ok(letters);
            }
            name = self.name.get(mutator, name, 0);
        }
        let letters = self.bytes.copied(mutator, text.as_bytes())?;
        frame(mutator, [letters], |mutator, [letters]| {
            let name = self.name.fresh(mutator)?;
            let first = self.slots.get(mutator, object(names), place);
            self.name.set(mutator, name, 0, first);
            self.name.set(mutator, name, 1, object(letters));
            self.slots.set(mutator, object(names), place, name)?;
            Ok(object(letters))
        })
    }

    /// An attribute of the innermost element, behind the last one.
    fn add_attribute(
        &self,
        mutator: &mut Mutator,
        reading: &Reading<'_>,
        name: &str,
        text: &str,
    ) -> Result<(), OutOfMemory> {
        let name = self.name(mutator, reading.names, name)?;
        frame(
            mutator,
            [name, Address::NULL],
            |mutator, [name, content]| {
                content.set(value(self.bytes.copied(mutator, text.as_bytes())?));
                let fresh = self.attribute.fresh(mutator)?;
                self.attribute.set(mutator, fresh, 1, object(name));
                self.attribute.set(mutator, fresh, 2, object(content));
                if object(reading.last) == Address::NULL {
                    self.node
                        .set(mutator, object(reading.at), ATTRIBUTES, fresh);
                } else {
                    self.attribute.set(mutator, object(reading.last), 0, fresh);
                }
                reading.last.set(value(fresh));
                Ok(())
            },
        )
    }
}

/// Transforming.
impl<F: Code> Xml<F> {
    /// The transformed tree of a tree.
    fn transformed(&self, mutator: &mut Mutator, node: Address) -> Allocated {
        if self.node.number(node, 0) == 0 {
            let text = self.upper(mutator, self.node.get(mutator, node, CONTENT))?;
            return self.alone(mutator, text, false);
        }
        frame(mutator, [node; 3], |mutator, [node, fresh, children]| {
            let name = self.node.get(mutator, object(node), CONTENT);
            fresh.set(value(self.alone(mutator, name, true)?));
            self.attributes(mutator, object(node), fresh)?;
            let count = self.node.number(object(node), 1) as usize;
            children.set(value(self.sorted(mutator, node, count)?));
            for index in 0..count {
                let child = self.slots.get(mutator, object(children), index);
                let child = self.transformed(mutator, child)?;
                self.append(mutator, object(fresh), child);
            }
            Ok(object(fresh))
        })
    }

    /// A node without a parent.
    fn alone(&self, mutator: &mut Mutator, content: Address, is_element: bool) -> Allocated {
        frame(mutator, [Address::NULL], |mutator, [parent]| {
            self.add(mutator, parent, content, is_element)
        })
    }

    /// Makes the attributes of a node elements of another.
    fn attributes(
        &self,
        mutator: &mut Mutator,
        node: Address,
        fresh: &Cell<Value>,
    ) -> Result<(), OutOfMemory> {
        let first = self.node.get(mutator, node, ATTRIBUTES);
        frame(
            mutator,
            [first, Address::NULL],
            |mutator, [attribute, element]| {
                while object(attribute) != Address::NULL {
                    let name = self.attribute.get(mutator, object(attribute), 1);
                    element.set(value(self.add(mutator, fresh, name, true)?));
                    let text = self.attribute.get(mutator, object(attribute), 2);
                    self.add(mutator, element, text, false)?;
                    attribute.set(value(self.attribute.get(mutator, object(attribute), 0)));
                }
                Ok(())
            },
        )
    }

    /// The `count` children of a node, sorted by name, texts first.
    fn sorted(&self, mutator: &mut Mutator, node: &Cell<Value>, count: usize) -> Allocated {
        self.slots.filled(mutator, count, |into| {
            // Nothing is collected while the array is filled, so addresses hold.
            let mutator = into.mutator();
            let mut children = Vec::new();
            let mut child = self.node.get(mutator, object(node), FIRST);
            while child != Address::NULL {
                children.push(child);
                child = self.node.get(mutator, child, NEXT);
            }
            children.sort_by(|&left, &right| {
                let [left_name, right_name] =
                    [left, right].map(|node| self.node.get(mutator, node, CONTENT));
                match [left, right].map(|node| self.node.number(node, 0)) {
                    [1, 1] => self.bytes.look(mutator, left_name, |left| {
                        self.bytes
                            .look(mutator, right_name, |right| left.cmp(right))
                    }),
                    [left, right] => left.cmp(&right),
                }
            });
            for child in children {
                put(into, child);
            }
        })
    }

    /// A text in upper case.
    fn upper(&self, mutator: &mut Mutator, text: Address) -> Allocated {
        frame(mutator, [text], |mutator, [text]| {
            let length = self.bytes.length(mutator, object(text));
            self.bytes.filled(mutator, length, |mutator, fresh| {
                self.bytes
                    .look(mutator, object(text), |text| fresh.copy_from_slice(text));
                fresh.make_ascii_uppercase();
            })
        })
    }
}

/// Writing.
impl<F: Code> Xml<F> {
    /// The number of a tree as it is written.
    fn written(&self, mutator: &mut Mutator, tree: Address) -> Result<u64, OutOfMemory> {
        frame(mutator, [tree; 3], |mutator, [tree, first, last]| {
            first.set(value(self.new_buffer(mutator)?));
            last.set(first.get());
            self.write_node(mutator, last, object(tree))?;
            let (mut hash, mut buffer) = (NO_BYTES, object(first));
            while buffer != Address::NULL {
                let used = self.buffer.number(buffer, 0) as usize;
                let bytes = self.buffer.get(mutator, buffer, 1);
                hash = self
                    .bytes
                    .look(mutator, bytes, |bytes| hash_on(hash, &bytes[..used]));
                buffer = self.buffer.get(mutator, buffer, 0);
            }
            Ok(hash)
        })
    }

    fn new_buffer(&self, mutator: &mut Mutator) -> Allocated {
        let bytes = self.bytes.fresh(mutator, BUFFER)?;
        frame(mutator, [bytes], |mutator, [bytes]| {
            let buffer = self.buffer.fresh(mutator)?;
            self.buffer.set(mutator, buffer, 1, object(bytes));
            Ok(buffer)
        })
    }

    fn write_node(
        &self,
        mutator: &mut Mutator,
        last: &Cell<Value>,
        node: Address,
    ) -> Result<(), OutOfMemory> {
        frame(mutator, [node, Address::NULL], |mutator, [node, child]| {
            if self.node.number(object(node), 0) == 0 {
                return self.write_content(mutator, last, node);
            }
            self.write(mutator, last, b"<")?;
            self.write_content(mutator, last, node)?;
            self.write(mutator, last, b">")?;
            child.set(value(self.node.get(mutator, object(node), FIRST)));
            while object(child) != Address::NULL {
                self.write_node(mutator, last, object(child))?;
                child.set(value(self.node.get(mutator, object(child), NEXT)));
            }
            self.write(mutator, last, b"</")?;
            self.write_content(mutator, last, node)?;
            self.write(mutator, last, b">")
        })
    }

    /// A name or a text, with what XML needs escaped.
    fn write_content(
        &self,
        mutator: &mut Mutator,
        last: &Cell<Value>,
        node: &Cell<Value>,
    ) -> Result<(), OutOfMemory> {
        let mut from = 0;
        loop {
            let content = self.node.get(mutator, object(node), CONTENT);
            // The longest piece without an escape, or an escape; never more than a buffer.
            let mut piece = [0; 64];
            let (length, escape) = self.bytes.look(mutator, content, |bytes| {
                let rest = &bytes[from.min(bytes.len())..];
                let plain = rest.iter().take(piece.len());
                let length = plain.take_while(|&&byte| escaped(byte).is_none()).count();
                piece[..length].copy_from_slice(&rest[..length]);
                (length, rest.first().and_then(|&byte| escaped(byte)))
            });
            match escape {
                Some(escape) => self.write(mutator, last, escape)?,
                None if length == 0 => return Ok(()),
                None => self.write(mutator, last, &piece[..length])?,
            }
            from += length.max(1);
        }
    }

    fn write(
        &self,
        mutator: &mut Mutator,
        last: &Cell<Value>,
        mut text: &[u8],
    ) -> Result<(), OutOfMemory> {
        while !text.is_empty() {
            let used = self.buffer.number(object(last), 0) as usize;
            if used == BUFFER {
                let fresh = self.new_buffer(mutator)?;
                self.buffer.set(mutator, object(last), 0, fresh);
                last.set(value(fresh));
                continue;
            }
            let (now, later) = text.split_at(text.len().min(BUFFER - used));
            let bytes = self.buffer.get(mutator, object(last), 1);
            self.bytes.write(mutator, bytes, used, now)?;
            self.buffer
                .set_number(object(last), 0, (used + now.len()) as u32);
            text = later;
        }
        Ok(())
    }
}

/// How XML writes a letter that it needs for itself.
fn escaped(byte: u8) -> Option<&'static [u8]> {
    match byte {
        b'&' => Some(b"&amp;"),
        b'<' => Some(b"&lt;"),
        b'>' => Some(b"&gt;"),
        _ => None,
    }
}
