//! Agents: many unequal threads that compute for themselves, share cells under locks, and allocate little.
//!
//! The last agent does sixteen times as many steps as the first. An agent works on registers of its own, posts a number
//! to a random cell now and then, and now and then a note with it, the only thing that is allocated. The one that
//! brings a cell's notes to eight takes them all. What arrives where is the same in any order. A thread that hardly
//! allocates must poll: collections are few, and each waits for the slowest of many threads.

use std::sync::Mutex;

use gleaner::raw::Address;
use gleaner::{Handle, Heap, Mutator, OutOfMemory};

use super::mutators::{Mutators, lock};
use super::objects::{Code, Numbers, Record, Slots, address, frame, object, shared};
use super::random::{Random, scattered};
use super::{Facts, Prepared, Scale, Workload, failed};

/// Threads share the agents among them.
const AGENTS: u32 = 16;
const CELLS: usize = 1024;
const LOCKS: usize = 32;
/// Registers of an agent.
const REGISTERS: usize = 64;
/// Steps from one post to the next.
const BETWEEN_POSTS: u32 = 4;
/// Posts from one note to the next.
const BETWEEN_NOTES: u32 = 4;
/// Notes of a cell before they are taken.
const MOST_NOTES: u64 = 8;

struct Agents<F> {
    /// The newest note; the sum of all posts, and how many notes there are.
    cell: Record<F, 1, 16>,
    /// The next note; its number.
    note: Record<F, 1, 8>,
    slots: Slots<F>,
    words: Numbers<F, u32>,
    /// Steps of the first agent.
    steps: u32,
}

/// What the threads share.
struct Field {
    cells: Handle,
    /// Cell i is protected by lock i modulo their number.
    locks: Vec<Mutex<()>>,
}

/// 200,000 steps of the first agent, or 3000.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Agents::<F> {
        cell: Record::register(heap).map_err(failed)?,
        note: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        words: Numbers::register(heap).map_err(failed)?,
        steps: scale.of(200_000, 3000),
    }))
}

impl<F: Code> Workload for Agents<F> {
    /// A number made of all posts and notes, wherever they are.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let cells = self.slots.fresh(mutator, CELLS)?;
        let field = Field {
            cells: shared(mutator, cells),
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
        };
        for index in 0..CELLS {
            let cell = self.cell.fresh(mutator)?;
            let cells = address(field.cells.get_raw());
            self.slots.set(mutator, cells, index, cell)?;
        }
        let taken = mutators.run(mutator, |mutator, thread| {
            let mut taken = [0; 2];
            for agent in (thread..AGENTS).step_by(mutators.threads as usize) {
                self.act(mutator, &field, agent, &mut taken)?;
            }
            Ok(taken)
        })?;
        let (mut posts, mut notes, mut sum) = (0u64, 0, 0u64);
        for [count, part] in taken {
            notes += count;
            sum = sum.wrapping_add(part);
        }
        for index in 0..CELLS {
            let cell = self
                .slots
                .get(mutator, address(field.cells.get_raw()), index);
            let [count, part] = self.read(mutator, self.cell.get(mutator, cell, 0));
            assert_eq!(count, self.cell.long(cell, 1), "a cell has its notes");
            notes += count;
            sum = sum.wrapping_add(part);
            posts = posts.wrapping_add(self.cell.long(cell, 0));
        }
        let expected = (1..=AGENTS).map(|share| self.steps * share / BETWEEN_POSTS / BETWEEN_NOTES);
        assert_eq!(
            notes,
            expected.map(u64::from).sum::<u64>(),
            "no note is lost"
        );
        facts.insert("notes".into(), notes.into());
        Ok(sum.wrapping_add(posts))
    }
}

impl<F: Code> Agents<F> {
    /// All steps of an agent. Adds the notes that it takes.
    fn act(
        &self,
        mutator: &mut Mutator,
        field: &Field,
        agent: u32,
        taken: &mut [u64; 2],
    ) -> Result<(), OutOfMemory> {
        let mut random = Random::new(8000 + u64::from(agent));
        let registers = self.words.fresh(mutator, REGISTERS)?;
        frame(mutator, [registers], |mutator, [registers]| {
            for step in 1..=self.steps * (agent + 1) {
                mutator.poll();
                let last = self.words.change(mutator, object(registers), |_, all| {
                    all.iter_mut().fold(step ^ agent, |before, register| {
                        *register = register.wrapping_mul(5).wrapping_add(before);
                        *register
                    })
                })?;
                if step % BETWEEN_POSTS == 0 {
                    let with_note = step % (BETWEEN_POSTS * BETWEEN_NOTES) == 0;
                    let cell = random.below(CELLS as u32) as usize;
                    self.post(mutator, field, cell, u64::from(last), with_note, taken)?;
                }
            }
            Ok(())
        })
    }

    /// Posts a number to a cell.
    fn post(
        &self,
        mutator: &mut Mutator,
        field: &Field,
        index: usize,
        number: u64,
        with_note: bool,
        taken: &mut [u64; 2],
    ) -> Result<(), OutOfMemory> {
        let note = if with_note {
            self.note.fresh(mutator)?
        } else {
            Address::NULL
        };
        let kind = self.cell;
        let all = frame(mutator, [note], |mutator, [note]| {
            let guard = lock(mutator, &field.locks[index % LOCKS]);
            let cell = self
                .slots
                .get(mutator, address(field.cells.get_raw()), index);
            kind.add_long(cell, 0, number);
            let mut all = Address::NULL;
            if with_note {
                self.note.set_long(object(note), 0, number);
                self.note
                    .set(mutator, object(note), 0, kind.get(mutator, cell, 0));
                kind.set(mutator, cell, 0, object(note));
                kind.add_long(cell, 1, 1);
                if kind.long(cell, 1) == MOST_NOTES {
                    all = kind.get(mutator, cell, 0);
                    kind.set(mutator, cell, 0, Address::NULL);
                    kind.set_long(cell, 1, 0);
                }
            }
            drop(guard);
            all
        });
        let [count, sum] = self.read(mutator, all);
        taken[0] += count;
        taken[1] = taken[1].wrapping_add(sum);
        Ok(())
    }

    /// How many notes there are in a list, and a number made of them.
    fn read(&self, mutator: &Mutator, mut note: Address) -> [u64; 2] {
        let (mut count, mut sum) = (0, 0u64);
        while note != Address::NULL {
            count += 1;
            sum = sum.wrapping_add(scattered(self.note.long(note, 0)));
            note = self.note.get(mutator, note, 0);
        }
        [count, sum]
    }
}
