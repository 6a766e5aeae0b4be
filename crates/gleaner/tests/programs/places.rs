//! Objects that a program has pinned, and words that lead into objects: they keep their places until the program lets go.
//!
//! What is pinned lives by a handle, until the program lets it live or die with its pin. A word keeps its object by itself.

use std::cell::Cell;
use std::collections::HashMap;

use gleaner::raw::{Address, Value, WordRange, WordRangeError};
use gleaner::{Handle, Mutator, PinError};

use super::{Did, Held, Program, Source, handle};

/// So many pins, and so many words.
const MOST: usize = 6;

/// The last byte of the smallest objects.
const LAST_BYTE: usize = 15;

/// A pin of an object. One object may have several.
struct Pinned {
    object: usize,
    handle: Handle,
    place: Address,
}

/// A word that leads into an object.
struct Word {
    object: usize,
    place: Address,
    word: Box<usize>,
}

impl Word {
    fn start(&self) -> Address {
        Address::of(&raw const *self.word)
    }
}

/// What keeps its place, as the oracle sees it.
#[derive(Default)]
pub struct Places {
    pinned: Vec<Pinned>,
    words: Vec<Word>,
    /// Where objects are that nobody unpins any more.
    left: HashMap<usize, Address>,
}

impl Places {
    /// What lives by pins' handles and by words, until the next allocation or poll.
    pub fn held(&self) -> impl Iterator<Item = (Held, Value)> {
        let pinned = self
            .pinned
            .iter()
            .map(|pin| (pin.object, pin.handle.get_raw()));
        let words = self
            .words
            .iter()
            .map(|word| (word.object, Value::reference(word.place)));
        pinned
            .chain(words)
            .map(|(object, value)| (Held::Object(object), value))
    }

    /// Objects that were reached and keep their places are there.
    pub fn check(&self, reached: &[Option<Value>]) {
        let pinned = self.pinned.iter().map(|pin| (pin.object, pin.place));
        let words = self.words.iter().map(|word| (word.object, word.place));
        let left = self.left.iter().map(|(&object, &place)| (object, place));
        for (object, place) in pinned.chain(words).chain(left) {
            if let Some(value) = reached[object] {
                assert_eq!(
                    value.as_object(),
                    Some(place),
                    "object {object} was to stay"
                );
            }
        }
    }
}

impl<S: Source> Program<S> {
    /// A step of the raw layer: something gets a pin or a word, or loses it.
    pub(super) fn step_places(&mut self, mutator: &mut Mutator, value: &Cell<Value>, root: usize) {
        let pins = self.places.pinned.len();
        match self.random.below(8) {
            0..3 if pins < MOST => self.pin(mutator, value.get(), root),
            3 if pins > 0 => {
                let chosen = self.random.below(pins);
                let pin = self.places.pinned.swap_remove(chosen);
                self.unpin(mutator, &pin);
            }
            4 if pins > 0 => {
                let chosen = self.random.below(pins);
                let pin = self.places.pinned.swap_remove(chosen);
                self.places.left.insert(pin.object, pin.place);
                self.did(Did::LeavePinned);
            }
            5 | 6 if self.places.words.len() < MOST => self.add_word(mutator, value.get(), root),
            7 => self.let_go(mutator),
            _ => {}
        }
    }

    fn pin(&mut self, mutator: &mut Mutator, value: Value, root: usize) {
        // SAFETY: what a root holds.
        let pinned = unsafe { mutator.pin_raw(value) };
        match (pinned, self.object(root)) {
            (Ok(place), Some(object)) => {
                assert_eq!(value.as_object(), Some(place));
                let handle = handle(mutator, value);
                let pin = Pinned {
                    object,
                    handle,
                    place,
                };
                self.places.pinned.push(pin);
                self.did(Did::Pin);
            }
            (Err(PinError::NoObject), None) | (Err(PinError::Pieces | PinError::Quarantine), _) => {
            }
            (Err(PinError::Memory), _) => self.outcome.failed += 1,
            (other, object) => panic!("object {object:?} was to be pinned: {other:?}"),
        }
    }

    fn unpin(&mut self, mutator: &mut Mutator, pin: &Pinned) {
        let value = pin.handle.get_raw();
        assert_eq!(
            value.as_object(),
            Some(pin.place),
            "object {} was pinned",
            pin.object
        );
        // SAFETY: what the handle holds.
        assert_eq!(unsafe { mutator.unpin_raw(value) }, Ok(()));
        self.did(Did::Unpin);
    }

    fn add_word(&mut self, mutator: &mut Mutator, value: Value, root: usize) {
        let (Some(object), Some(place)) = (self.object(root), value.as_object()) else {
            return;
        };
        let word = Word {
            object,
            place,
            word: Box::new(place.add(self.random.below(LAST_BYTE + 1)).word()),
        };
        let range = WordRange {
            start: word.start(),
            words: 1,
            lowest: Address::NULL,
        };
        // SAFETY: the program removes the range before it drops the word.
        match unsafe { mutator.add_words(range) } {
            Ok(()) => {
                self.places.words.push(word);
                self.did(Did::Word);
            }
            Err(WordRangeError::Pieces | WordRangeError::Quarantine) => {}
            Err(WordRangeError::Memory) => self.outcome.failed += 1,
            Err(other) => panic!("a word for object {object}: {other}"),
        }
    }

    /// Nothing has a pin or a word any more, but for what the program has left so.
    pub(super) fn let_go(&mut self, mutator: &mut Mutator) {
        for pin in std::mem::take(&mut self.places.pinned) {
            self.unpin(mutator, &pin);
        }
        for word in std::mem::take(&mut self.places.words) {
            mutator.remove_words(word.start()).unwrap();
        }
    }
}
