//! Agents: many unequal threads that compute for themselves, share cells under locks, and allocate little.

use std::sync::Mutex;

use crate::context::{Context, Mode};
use crate::handles::Handle;
use crate::mutators::{self, lock};
use crate::object::References;
use crate::records::Record;
use crate::shared::Scale;
use crate::shared::random::{Random, scattered};

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

/// The newest note; the sum of all posts, and how many notes there are.
const CELL: Record = Record::new(1, 16);
/// The next note; its number.
const NOTE: Record = Record::new(1, 8);

/// What the threads share.
struct Field {
    cells: Handle,
    /// Cell i is protected by lock i modulo their number.
    locks: Vec<Mutex<()>>,
}

/// How many notes there are, and a number made of them.
#[derive(Default)]
struct Notes {
    count: u64,
    sum: u64,
}

impl Notes {
    fn add(&mut self, more: &Notes) {
        self.count += more.count;
        self.sum = self.sum.wrapping_add(more.sum);
    }
}

/// Runs once, 200,000 steps of the first agent, or 3000; a number made of all posts and notes, wherever they are.
pub fn agents<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> u64 {
    let steps = scale.of(200_000, 3000);
    let field = Field {
        cells: Handle::new(context.references(CELLS)),
        locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
    };
    for index in 0..CELLS {
        let cell = CELL.fresh(context);
        context.set_element(field.cells.get(), index, cell);
    }
    let taken = mutators::run(context, threads, |context, thread| {
        let mut taken = Notes::default();
        for agent in (thread..AGENTS).step_by(threads as usize) {
            act(context, &field, agent, steps * (agent + 1), &mut taken);
        }
        taken
    });
    let (mut posts, mut notes) = (0u64, Notes::default());
    for taken in &taken {
        notes.add(taken);
    }
    for index in 0..CELLS {
        let cell = context.element(field.cells.get(), index);
        let own = read(context, context.get(cell, 0));
        assert_eq!(
            own.count,
            CELL.long(context, cell, 1),
            "a cell has its notes"
        );
        notes.add(&own);
        posts = posts.wrapping_add(CELL.long(context, cell, 0));
    }
    let expected = (1..=AGENTS).map(|share| steps * share / BETWEEN_POSTS / BETWEEN_NOTES);
    assert_eq!(
        notes.count,
        expected.map(u64::from).sum::<u64>(),
        "no note is lost"
    );
    notes.sum.wrapping_add(posts)
}

/// All steps of an agent. Adds the notes that it takes.
fn act<R: References, M: Mode>(
    context: &mut Context<R, M>,
    field: &Field,
    agent: u32,
    steps: u32,
    taken: &mut Notes,
) {
    let mut random = Random::new(8000 + u64::from(agent));
    let registers = context.words(REGISTERS);
    context.with_roots([registers], |context, [registers]| {
        for step in 1..=steps {
            context.poll();
            let last = context.change(registers.get(), |all: &mut [u32]| {
                all.iter_mut().fold(step ^ agent, |before, register| {
                    *register = register.wrapping_mul(5).wrapping_add(before);
                    *register
                })
            });
            if step % BETWEEN_POSTS == 0 {
                let with_note = step % (BETWEEN_POSTS * BETWEEN_NOTES) == 0;
                let cell = random.below(CELLS as u32) as usize;
                post(context, field, cell, u64::from(last), with_note, taken);
            }
        }
    });
}

/// Posts a number to a cell.
fn post<R: References, M: Mode>(
    context: &mut Context<R, M>,
    field: &Field,
    index: usize,
    number: u64,
    with_note: bool,
    taken: &mut Notes,
) {
    let note = if with_note { NOTE.fresh(context) } else { 0 };
    let all = context.with_roots([note], |context, [note]| {
        let _guard = lock(context, &field.locks[index % LOCKS]);
        let cell = context.element(field.cells.get(), index);
        CELL.add_long(context, cell, 0, number);
        if !with_note {
            return 0;
        }
        NOTE.set_long(context, note.get(), 0, number);
        context.set(note.get(), 0, context.get(cell, 0));
        context.set(cell, 0, note.get());
        CELL.add_long(context, cell, 1, 1);
        if CELL.long(context, cell, 1) != MOST_NOTES {
            return 0;
        }
        let all = context.get(cell, 0);
        context.set(cell, 0, 0);
        CELL.set_long(context, cell, 1, 0);
        all
    });
    taken.add(&read(context, all));
}

/// A list of notes.
fn read<R: References, M: Mode>(context: &Context<R, M>, mut note: usize) -> Notes {
    let mut notes = Notes::default();
    while note != 0 {
        notes.add(&Notes {
            count: 1,
            sum: scattered(NOTE.long(context, note, 0)),
        });
        note = context.get(note, 0);
    }
    notes
}
