//! An XML document, and its parts one after the other.
//!
//! The reader of events is the crate `quick-xml`; here they become what a tree is built of. Entities are those that XML
//! defines itself, and white space alone is no text. Comments, instructions and the document type are passed over.

use std::fs;
use std::path::{Path, PathBuf};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::Scale;
use crate::failure::{Failure, Result};

/// Documents of Debian's packages; the first that is there is read.
const PLACES: [&str; 2] = [
    "/usr/share/mime/packages/freedesktop.org.xml",
    "/usr/share/xml/iso-codes/iso_639-3.xml",
];

/// A part of a document.
pub enum Part<'a> {
    /// An element begins.
    Element(&'a str),
    /// An attribute of the element that has just begun.
    Attribute(&'a str, &'a str),
    /// Text.
    Text(&'a str),
    /// The innermost element ends.
    End,
}

/// A document that was read once and is well-formed.
pub struct Document {
    /// Its text.
    pub text: String,
    /// How many elements are read at most, from the first on, with all that they are in.
    pub most: usize,
    /// How many elements are read.
    pub elements: usize,
}

impl Document {
    /// The document for a run.
    pub fn read(scale: &Scale) -> Result<Document> {
        let path = match &scale.input {
            Some(path) => path.clone(),
            None => found()?,
        };
        let text = fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
        let mut document = Document {
            text,
            most: scale.of(usize::MAX, 300),
            elements: 0,
        };
        document.elements = document.count(&path)?;
        Ok(document)
    }

    fn count(&self, path: &Path) -> Result<usize> {
        let (mut depth, mut roots, mut elements) = (0, 0, 0);
        let read = self.parts(&mut |part| {
            match part {
                Part::Element(_) => {
                    roots += usize::from(depth == 0);
                    (depth, elements) = (depth + 1, elements + 1);
                }
                Part::End => depth -= 1,
                Part::Text(_) if depth == 0 => return Err("text outside of an element".to_string()),
                Part::Text(_) | Part::Attribute(..) => {}
            }
            Ok(())
        });
        let whole = read.and_then(|()| match (depth, roots) {
            (0, 1) => Ok(elements),
            (0, _) => Err(format!(
                "{roots} outermost elements, and there is to be one"
            )),
            _ => Err("it ends inside of an element".to_string()),
        });
        whole.map_err(|error| {
            Failure::at(
                path,
                format!("not well-formed: {error}; name another with --input"),
            )
        })
    }

    /// Gives all parts to `visit`, until that fails.
    pub fn parts<E: From<String>>(
        &self,
        visit: &mut dyn FnMut(Part<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut reader = Reader::from_str(&self.text);
        let (mut pending, mut elements) = (String::new(), 0);
        loop {
            let event = reader.read_event().map_err(in_words)?;
            if matches!(
                event,
                Event::Start(_) | Event::Empty(_) | Event::End(_) | Event::Eof
            ) {
                if !pending.trim().is_empty() {
                    visit(Part::Text(&pending))?;
                }
                pending.clear();
            }
            match event {
                Event::Start(start) if elements == self.most => {
                    reader.read_to_end(start.name()).map_err(in_words)?;
                }
                Event::Empty(_) if elements == self.most => {}
                Event::Start(start) => {
                    elements += 1;
                    begin(&start, visit)?;
                }
                Event::Empty(start) => {
                    elements += 1;
                    begin(&start, visit)?;
                    visit(Part::End)?;
                }
                Event::End(_) => visit(Part::End)?,
                Event::Text(text) => pending.push_str(&text.xml10_content()),
                Event::CData(text) => pending.push_str(&text.xml10_content()),
                Event::GeneralRef(entity) => match entity.resolve_char_ref().map_err(in_words)? {
                    Some(letter) => pending.push(letter),
                    None => pending.push_str(
                        resolve_predefined_entity(&entity)
                            .ok_or_else(|| format!("no entity is named {:?}", &*entity))?,
                    ),
                },
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
                Event::Eof => return Ok(()),
            }
        }
    }
}

fn begin<E: From<String>>(
    start: &BytesStart<'_>,
    visit: &mut dyn FnMut(Part<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    visit(Part::Element(start.name().0))?;
    for attribute in start.attributes() {
        let attribute = attribute.map_err(in_words)?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        visit(Part::Attribute(attribute.key.0, &value.map_err(in_words)?))?;
    }
    Ok(())
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn found() -> Result<PathBuf> {
    let mut places = PLACES.iter().map(PathBuf::from);
    places.find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(format!(
            "xml: neither {} is there: install the package shared-mime-info or iso-codes, or name a document with \
             --input",
            PLACES.join(" nor ")
        ))
    })
}
