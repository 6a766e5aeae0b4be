//! A real XML document is read into objects, transformed, and written again, several times, step by step as in
//! `gleaner-bench native`.

use std::cell::Cell;

use crate::context::{Context, Mode};
use crate::mutators;
use crate::object::{References, length};
use crate::records::{Record, copied};
use crate::shared::Scale;
use crate::shared::document::{Document, Part};
use crate::shared::random::{NO_BYTES, chained, hash_of, hash_on};

/// Places of the table of names.
const PLACES: usize = 256;
/// Bytes of a buffer that is written to.
const BUFFER: usize = 4096;

/// See the constants below; whether it is an element, and how many children it has.
const NODE: Record = Record::new(6, 8);
/// The next attribute, the name, the value.
const ATTRIBUTE: Record = Record::new(3, 0);
/// The next name in its place, its letters.
const NAME: Record = Record::new(2, 0);
/// The next buffer, the bytes; how many are used.
const WRITTEN: Record = Record::new(2, 4);

/// The references of a node.
const NEXT: usize = 0;
const PARENT: usize = 1;
/// A name, or, of a text, its letters.
const CONTENT: usize = 2;
const ATTRIBUTES: usize = 3;
const FIRST: usize = 4;
const LAST: usize = 5;

/// Roots while a document is read.
struct Reading<'a> {
    /// The innermost element.
    at: &'a Cell<usize>,
    /// Its last attribute.
    last: &'a Cell<usize>,
    /// The table of names.
    names: &'a Cell<usize>,
}

/// Runs once: the whole document eight times, or what was read of it twice; a number made of what was written.
pub fn xml<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    document: &Document,
    scale: &Scale,
) -> u64 {
    mutators::own(context, threads, |context, _| {
        (0..scale.of(8, 2)).fold(0, |sum, _| chained(sum, pass(context, document)))
    })
}

fn pass<R: References, M: Mode>(context: &mut Context<R, M>, document: &Document) -> u64 {
    context.with_roots([0, 0], |context, [tree, other]| {
        tree.set(read(context, document));
        other.set(transformed(context, tree.get()));
        let hash = written(context, other.get());
        let elements = elements(context, tree.get(), 0);
        assert_eq!(elements, document.elements, "the tree is whole");
        hash
    })
}

/// How many elements a tree has, in which each node knows its parent.
fn elements<R: References, M: Mode>(context: &Context<R, M>, node: usize, parent: usize) -> usize {
    assert!(
        context.get(node, PARENT) == parent,
        "a node knows its parent"
    );
    let mut all = NODE.number(context, node, 0) as usize;
    let mut child = context.get(node, FIRST);
    while child != 0 {
        all += elements(context, child, node);
        child = context.get(child, NEXT);
    }
    all
}

/// A node with a content, as the last child of another.
fn add<R: References, M: Mode>(
    context: &mut Context<R, M>,
    parent: &Cell<usize>,
    content: usize,
    is_element: bool,
) -> usize {
    context.with_roots([content], |context, [content]| {
        let node = NODE.fresh(context);
        context.set(node, CONTENT, content.get());
        NODE.set_number(context, node, 0, u32::from(is_element));
        if parent.get() != 0 {
            append(context, parent.get(), node);
        }
        node
    })
}

fn append<R: References, M: Mode>(context: &mut Context<R, M>, parent: usize, node: usize) {
    context.set(node, PARENT, parent);
    let last = context.get(parent, LAST);
    if last == 0 {
        context.set(parent, FIRST, node);
    } else {
        context.set(last, NEXT, node);
    }
    context.set(parent, LAST, node);
    let children = NODE.number(context, parent, 1);
    NODE.set_number(context, parent, 1, children + 1);
}

/// The tree of the document.
fn read<R: References, M: Mode>(context: &mut Context<R, M>, document: &Document) -> usize {
    let names = context.references(PLACES);
    context.with_roots([0, names, 0, 0], |context, [at, names, last, root]| {
        let reading = &Reading { at, last, names };
        let read = document.parts(&mut |part| {
            match part {
                Part::Element(name) => {
                    let name = named(context, names, name);
                    let element = add(context, at, name, true);
                    at.set(element);
                    last.set(0);
                    if root.get() == 0 {
                        root.set(element);
                    }
                }
                Part::Attribute(name, text) => add_attribute(context, reading, name, text),
                Part::Text(text) => {
                    let text = copied(context, text.as_bytes());
                    add(context, at, text, false);
                }
                Part::End => at.set(context.get(at.get(), PARENT)),
            }
            Ok::<(), String>(())
        });
        read.unwrap_or_else(|error| unreachable!("it was read before: {error}"));
        root.get()
    })
}

/// The letters of a name, the same object for the same name.
fn named<R: References, M: Mode>(
    context: &mut Context<R, M>,
    names: &Cell<usize>,
    text: &str,
) -> usize {
    let place = hash_of(text.as_bytes()) as usize % PLACES;
    let mut name = context.element(names.get(), place);
    while name != 0 {
        let letters = context.get(name, 1);
        if context.look(letters, |letters: &[u8]| letters == text.as_bytes()) {
            return letters;
        }
        name = context.get(name, 0);
    }
    let letters = copied(context, text.as_bytes());
    context.with_roots([letters], |context, [letters]| {
        let name = NAME.fresh(context);
        context.set(name, 0, context.element(names.get(), place));
        context.set(name, 1, letters.get());
        context.set_element(names.get(), place, name);
        letters.get()
    })
}

/// An attribute of the innermost element, behind the last one.
fn add_attribute<R: References, M: Mode>(
    context: &mut Context<R, M>,
    reading: &Reading<'_>,
    name: &str,
    text: &str,
) {
    let name = named(context, reading.names, name);
    context.with_roots([name, 0], |context, [name, content]| {
        content.set(copied(context, text.as_bytes()));
        let fresh = ATTRIBUTE.fresh(context);
        context.set(fresh, 1, name.get());
        context.set(fresh, 2, content.get());
        if reading.last.get() == 0 {
            context.set(reading.at.get(), ATTRIBUTES, fresh);
        } else {
            context.set(reading.last.get(), 0, fresh);
        }
        reading.last.set(fresh);
    });
}

/// The transformed tree of a tree.
fn transformed<R: References, M: Mode>(context: &mut Context<R, M>, node: usize) -> usize {
    if NODE.number(context, node, 0) == 0 {
        let text = upper(context, context.get(node, CONTENT));
        return alone(context, text, false);
    }
    context.with_roots([node; 3], |context, [node, fresh, children]| {
        let name = context.get(node.get(), CONTENT);
        fresh.set(alone(context, name, true));
        attributes(context, node.get(), fresh);
        let count = NODE.number(context, node.get(), 1) as usize;
        children.set(context.references(count));
        sort(context, node.get(), children.get());
        for index in 0..count {
            let child = transformed(context, context.element(children.get(), index));
            append(context, fresh.get(), child);
        }
        fresh.get()
    })
}

/// A node without a parent.
fn alone<R: References, M: Mode>(
    context: &mut Context<R, M>,
    content: usize,
    is_element: bool,
) -> usize {
    context.with_roots([0], |context, [parent]| {
        add(context, parent, content, is_element)
    })
}

/// Makes the attributes of a node elements of another.
fn attributes<R: References, M: Mode>(
    context: &mut Context<R, M>,
    node: usize,
    fresh: &Cell<usize>,
) {
    let first = context.get(node, ATTRIBUTES);
    context.with_roots([first, 0], |context, [attribute, element]| {
        while attribute.get() != 0 {
            let name = context.get(attribute.get(), 1);
            element.set(add(context, fresh, name, true));
            let text = context.get(attribute.get(), 2);
            add(context, element, text, false);
            attribute.set(context.get(attribute.get(), 0));
        }
    });
}

/// The children of a node, sorted by name, texts first.
fn sort<R: References, M: Mode>(context: &mut Context<R, M>, node: usize, into: usize) {
    // Nothing is allocated in the heap meanwhile, so addresses hold.
    let mut children = Vec::new();
    let mut child = context.get(node, FIRST);
    while child != 0 {
        children.push(child);
        child = context.get(child, NEXT);
    }
    children.sort_by(|&left, &right| {
        match [left, right].map(|node| NODE.number(context, node, 0)) {
            [1, 1] => {
                let [left, right] = [left, right].map(|node| context.get(node, CONTENT));
                context.look(left, |left: &[u8]| {
                    context.look(right, |right: &[u8]| left.cmp(right))
                })
            }
            [left, right] => left.cmp(&right),
        }
    });
    for (index, child) in children.into_iter().enumerate() {
        context.set_element(into, index, child);
    }
}

/// A text in upper case.
fn upper<R: References, M: Mode>(context: &mut Context<R, M>, text: usize) -> usize {
    context.with_roots([text], |context, [text]| {
        let fresh = context.bytes(length(text.get()));
        context.look(text.get(), |text: &[u8]| {
            context.change(fresh, |fresh: &mut [u8]| {
                fresh.copy_from_slice(text);
                fresh.make_ascii_uppercase();
            });
        });
        fresh
    })
}

/// The number of a tree as it is written.
fn written<R: References, M: Mode>(context: &mut Context<R, M>, tree: usize) -> u64 {
    context.with_roots([tree; 3], |context, [tree, first, last]| {
        first.set(new_buffer(context));
        last.set(first.get());
        write_node(context, last, tree.get());
        let (mut hash, mut buffer) = (NO_BYTES, first.get());
        while buffer != 0 {
            let used = WRITTEN.number(context, buffer, 0) as usize;
            hash = context.look(context.get(buffer, 1), |bytes: &[u8]| {
                hash_on(hash, &bytes[..used])
            });
            buffer = context.get(buffer, 0);
        }
        hash
    })
}

fn new_buffer<R: References, M: Mode>(context: &mut Context<R, M>) -> usize {
    let bytes = context.bytes(BUFFER);
    context.with_roots([bytes], |context, [bytes]| {
        let buffer = WRITTEN.fresh(context);
        context.set(buffer, 1, bytes.get());
        buffer
    })
}

fn write_node<R: References, M: Mode>(
    context: &mut Context<R, M>,
    last: &Cell<usize>,
    node: usize,
) {
    context.with_roots([node, 0], |context, [node, child]| {
        if NODE.number(context, node.get(), 0) == 0 {
            return write_content(context, last, node);
        }
        write(context, last, b"<");
        write_content(context, last, node);
        write(context, last, b">");
        child.set(context.get(node.get(), FIRST));
        while child.get() != 0 {
            write_node(context, last, child.get());
            child.set(context.get(child.get(), NEXT));
        }
        write(context, last, b"</");
        write_content(context, last, node);
        write(context, last, b">");
    });
}

/// A name or a text, with what XML needs escaped.
fn write_content<R: References, M: Mode>(
    context: &mut Context<R, M>,
    last: &Cell<usize>,
    node: &Cell<usize>,
) {
    let mut from = 0;
    loop {
        let content = context.get(node.get(), CONTENT);
        // The longest piece without an escape, or an escape; never more than a buffer.
        let mut piece = [0; 64];
        let (length, escape) = context.look(content, |bytes: &[u8]| {
            let rest = &bytes[from.min(bytes.len())..];
            let plain = rest.iter().take(piece.len());
            let length = plain.take_while(|&&byte| escaped(byte).is_none()).count();
            piece[..length].copy_from_slice(&rest[..length]);
            (length, rest.first().and_then(|&byte| escaped(byte)))
        });
        match escape {
            Some(escape) => write(context, last, escape),
            None if length == 0 => return,
            None => write(context, last, &piece[..length]),
        }
        from += length.max(1);
    }
}

fn write<R: References, M: Mode>(context: &mut Context<R, M>, last: &Cell<usize>, mut text: &[u8]) {
    while !text.is_empty() {
        let used = WRITTEN.number(context, last.get(), 0) as usize;
        if used == BUFFER {
            let fresh = new_buffer(context);
            context.set(last.get(), 0, fresh);
            last.set(fresh);
            continue;
        }
        let (now, later) = text.split_at(text.len().min(BUFFER - used));
        context.change(context.get(last.get(), 1), |bytes: &mut [u8]| {
            bytes[used..used + now.len()].copy_from_slice(now);
        });
        WRITTEN.set_number(context, last.get(), 0, (used + now.len()) as u32);
        text = later;
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
