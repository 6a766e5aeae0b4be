//! One line of a snapshot: its words, and what they say.

/// What a line says. Numbers that follow an object's own are read where they are stored.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Record<'a> {
    Process {
        pid: u64,
        name: &'a [u8],
    },
    When(&'a [u8]),
    Heap(u64),
    /// The heap is precise: kinds are types of the program, and objects may lie elsewhere in another snapshot.
    Precise,
    Kind {
        number: u16,
        name: &'a [u8],
    },
    Static {
        low: u64,
        path: &'a [u8],
    },
    Stack {
        thread: u64,
        low: u64,
        name: &'a [u8],
    },
    Root(&'a [u8]),
    Word {
        slot: u64,
        base: u64,
        offset: u64,
    },
    Target(u64),
    Object {
        base: u64,
        bytes: u64,
        kind: u16,
        targets: Words<'a>,
    },
    Site(&'a [u8]),
    Held(u64),
    End {
        objects: u64,
        edges: u64,
    },
}

/// What is left of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Words<'a>(&'a [u8]);

/// A size has to leave room for the kind beside it.
pub(crate) const MOST_BYTES: u64 = (1 << 48) - 1;

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.0;
        if line.is_empty() {
            return None;
        }
        let end = line.iter().position(|letter| *letter == b' ');
        let end = end.unwrap_or(line.len());
        self.0 = line.get(end + 1..).unwrap_or_default();
        Some(&line[..end])
    }

    fn address(&mut self, what: &str) -> Result<u64, String> {
        let word = self.next().ok_or_else(|| format!("{what} is missing"))?;
        hexadecimal(word).ok_or_else(|| wrong(what, word, "a hexadecimal number without 0x"))
    }

    fn count(&mut self, what: &str) -> Result<u64, String> {
        let word = self.next().ok_or_else(|| format!("{what} is missing"))?;
        decimal(word).ok_or_else(|| wrong(what, word, "a decimal number"))
    }

    fn kind(&mut self) -> Result<u16, String> {
        let number = self.count("the number of the kind")?;
        u16::try_from(number).map_err(|_| format!("there is no kind {number}"))
    }

    fn end(&self) -> Result<(), String> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(format!("too much stands in it: '{}'", text(self.0)))
    }

    /// The next of a list of addresses.
    pub(crate) fn target(&mut self) -> Result<Option<u64>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        self.address("a target").map(Some)
    }
}

fn wrong(what: &str, word: &[u8], wanted: &str) -> String {
    format!("{what} is '{}' and not {wanted}", text(word))
}

/// A piece of a line in a message.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(40).collect()
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    let mut value = 0;
    for letter in word {
        value = value << 4 | u64::from((*letter as char).to_digit(16)?);
    }
    Some(value)
}

fn decimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for letter in word {
        let digit = (*letter as char).to_digit(10)?;
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// What a line says, which has no end of a line any more; or why it says nothing.
pub(crate) fn parse(line: &[u8]) -> Result<Record<'_>, String> {
    let mut words = Words(line);
    let record = match words.next().unwrap_or_default() {
        b"o" => {
            return Ok(Record::Object {
                base: words.address("the address of the object")?,
                bytes: size(&mut words)?,
                kind: words.kind()?,
                targets: words,
            });
        }
        b"w" => Record::Word {
            slot: words.address("the address of the word")?,
            base: words.address("the address of the object")?,
            offset: words.count("the offset")?,
        },
        b"t" => Record::Target(words.address("the address of the object")?),
        b"a" => return Ok(Record::Site(words.0)),
        b"root" => return root(words),
        b"process" => {
            return Ok(Record::Process {
                pid: words.count("the number of the process")?,
                name: words.0,
            });
        }
        b"when" => return Ok(Record::When(words.0)),
        b"precise" => Record::Precise,
        b"heap" => Record::Heap(words.count("the size of the heap")?),
        b"kind" => {
            return Ok(Record::Kind {
                number: words.kind()?,
                name: words.0,
            });
        }
        b"held" => Record::Held(words.address("the address that objects hold")?),
        b"end" => Record::End {
            objects: words.count("the number of objects")?,
            edges: words.count("the number of references")?,
        },
        other => return Err(format!("'{}' begins no line of a snapshot", text(other))),
    };
    words.end()?;
    Ok(record)
}

fn size(words: &mut Words<'_>) -> Result<u64, String> {
    let bytes = words.count("the size of the object")?;
    if bytes > MOST_BYTES {
        return Err(format!("no object has {bytes} bytes"));
    }
    Ok(bytes)
}

/// A root: two have a range, and any other is only a name.
fn root(words: Words<'_>) -> Result<Record<'_>, String> {
    let mut rest = words;
    match rest.next() {
        Some(b"static") => {
            let low = range(&mut rest)?;
            Ok(Record::Static { low, path: rest.0 })
        }
        Some(b"stack") => {
            let thread = rest.count("the number of the thread")?;
            let low = range(&mut rest)?;
            let name = rest.0;
            Ok(Record::Stack { thread, low, name })
        }
        Some(_) => Ok(Record::Root(words.0)),
        None => Err("the name of the root is missing".into()),
    }
}

/// The beginning of a range whose end is not in front of it.
fn range(words: &mut Words<'_>) -> Result<u64, String> {
    let low = words.address("the beginning of the range")?;
    let high = words.address("the end of the range")?;
    if high < low {
        return Err(format!("the range ends at {high:x}, before it begins"));
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_says_what_it_says() {
        let targets = |line: &str| {
            let Record::Object { mut targets, .. } = parse(line.as_bytes()).unwrap() else {
                panic!("{line}");
            };
            let mut found = vec![];
            while let Some(target) = targets.target().unwrap() {
                found.push(target);
            }
            found
        };
        assert_eq!(
            targets("o 7F10 48 1 7f10 a0 ffffffffffffffff"),
            [0x7f10, 0xa0, u64::MAX]
        );
        assert_eq!(targets("o 10 16 0"), []);
        assert_eq!(
            parse(b"w ff0 10 8").unwrap(),
            Record::Word {
                slot: 0xff0,
                base: 0x10,
                offset: 8
            }
        );
        assert_eq!(
            parse(b"root stack 7 10 20 my thread").unwrap(),
            Record::Stack {
                thread: 7,
                low: 0x10,
                name: b"my thread"
            }
        );
        assert_eq!(
            parse(b"root static 10 20 ").unwrap(),
            Record::Static {
                low: 0x10,
                path: b""
            }
        );
        assert_eq!(
            parse(b"root thread-results").unwrap(),
            Record::Root(b"thread-results")
        );
        assert_eq!(parse(b"precise").unwrap(), Record::Precise);
        assert_eq!(
            parse(b"a a file.c:12").unwrap(),
            Record::Site(b"a file.c:12")
        );
        assert_eq!(
            parse(b"kind 5 of the program, with a mark procedure").unwrap(),
            Record::Kind {
                number: 5,
                name: b"of the program, with a mark procedure"
            }
        );
    }

    #[test]
    fn a_broken_line_says_what_is_wrong_with_it() {
        for (line, why) in [
            ("o 7f10", "the size of the object is missing"),
            (
                "o 0x10 16 1",
                "the address of the object is '0x10' and not a hexadecimal number without 0x",
            ),
            (
                "o 10 1e3 1",
                "the size of the object is '1e3' and not a decimal number",
            ),
            ("o 10 999999999999999999999 1", "the size of the object is"),
            (
                "o 10 999999999999999999 1",
                "no object has 999999999999999999 bytes",
            ),
            ("o 10 16 70000", "there is no kind 70000"),
            ("w 10 20", "the offset is missing"),
            ("t 10 20", "too much stands in it: '20'"),
            ("t 11112222333344445", "and not a hexadecimal number"),
            (
                "root stack 7 20 10 main",
                "the range ends at 10, before it begins",
            ),
            ("root", "the name of the root is missing"),
            ("x 12", "'x' begins no line of a snapshot"),
            ("", "'' begins no line of a snapshot"),
        ] {
            let said = parse(line.as_bytes()).unwrap_err();
            assert!(
                said.starts_with(why) || said.contains(why),
                "{line}: {said}"
            );
        }
        let Record::Object { mut targets, .. } = parse(b"o 10 16 1 zz").unwrap() else {
            panic!();
        };
        assert!(targets.target().unwrap_err().contains("a target is 'zz'"));
    }
}
