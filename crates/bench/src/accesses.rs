//! `accesses`: what one access to an element of an array costs, by the way that it takes (PLDI 2010, section 7.1.4).
//!
//! A tight loop of accesses of one kind to a range of an array, for each combination of what code is compiled for,
//! where the elements lie, how they are reached, reads or writes, and what they are. A range is gone through until
//! there were as many accesses as asked. A round measures every combination once, and every other round goes backwards,
//! so that what else the machine does falls on all of them. Each measurement begins with a pass that does not count.

mod code_size;
mod ground;
mod instructions;
mod kernels;

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner::Mutator;
use gleaner::raw::{Address, AnyArrays, In, Layout, Number, Object, WholeArrays, Wide};
use gleaner_workloads::failed;
use gleaner_workloads::random::Random;
use serde::{Deserialize, Serialize};

use crate::progress;
use crate::quantities::{Spread, array_size};
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

use code_size::CodeSizes;
pub use ground::{ARRAYLET, Cut, FIRST_N, Ground, Measured, REMAINDER, Rooted};
use kernels::{Kernel, Task};

/// Arguments of `accesses`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner-bench accesses                                  all combinations, half a minute or so
  gleaner-bench accesses --json                           a line of JSON for each, for `gleaner-lab arrays model`
  gleaner-bench accesses --bytes 32m --by random          in an array that no cache holds
  gleaner-bench accesses --instructions                   instructions of each access as well
  gleaner-bench accesses --code-size --place whole,arraylet      bytes of machine code of each loop

In the table, figures are nanoseconds for an access, the median of the rounds.")]
pub struct Accesses {
    /// What the code is compiled for; everything unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub code: Vec<Code>,
    /// Where the elements lie; everywhere unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub place: Vec<Place>,
    /// How elements are reached; in every way unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub by: Vec<By>,
    /// What is done; both unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub access: Vec<Access>,
    /// What elements are; everything unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub element: Vec<Kind>,
    /// Bytes of the range, in arraylets or in one piece; ranges in the spine have what there is
    #[arg(long, value_name = "SIZE", value_parser = array_size, default_value = "16k")]
    pub bytes: usize,
    /// Accesses of a combination in a round
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub accesses: u32,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Counts instructions as well, in a run of this program under valgrind's callgrind
    #[arg(long)]
    pub instructions: bool,
    /// Says how long the machine code of each loop is
    #[arg(long)]
    pub code_size: bool,
    /// Prints a line of JSON for each combination, not a table
    #[arg(long)]
    pub json: bool,
}

/// What code is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Arrays in one piece
    Whole,
    /// Arrays with 4 KB in the spine and arraylets of 1 KB
    Zray,
    /// Arrays of any layout: it asks the mutator's record
    Any,
}

/// Where elements lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In an array of a heap whose arrays are all in one piece
    Whole,
    /// Beyond N in an array of a type that is not cut, where others are
    Excluded,
    /// In the first N bytes of an array in pieces
    FirstN,
    /// In arraylets
    Arraylet,
    /// In the remainder
    Remainder,
    /// In the zero arraylet; zeros are stored
    Zero,
}

/// How elements are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// By index, one after the other
    Sequential,
    /// By index, in random order
    Random,
    /// By a cursor
    Cursor,
    /// As slices, piece by piece
    Slice,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Loads
    Read,
    /// Stores
    Write,
}

/// What elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Numbers of 1 byte
    U8,
    /// Numbers of 2 bytes
    U16,
    /// Numbers of 4 bytes
    U32,
    /// Numbers of 8 bytes
    U64,
    /// Floating-point numbers of 8 bytes
    F64,
    /// References of 8 bytes
    Reference,
}

/// A combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Combination {
    code: Code,
    place: Place,
    by: By,
    access: Access,
    element: Kind,
}

impl Combination {
    /// Whether it was asked for.
    fn is_chosen(&self, chosen: &Accesses) -> bool {
        fn has<T: PartialEq>(list: &[T], one: &T) -> bool {
            list.is_empty() || list.contains(one)
        }
        has(&chosen.code, &self.code)
            && has(&chosen.place, &self.place)
            && has(&chosen.by, &self.by)
            && has(&chosen.access, &self.access)
            && has(&chosen.element, &self.element)
    }
}

/// A combination, and what it gave in each round.
struct Cell {
    combination: Combination,
    kernel: Kernel,
    array: Rc<Rooted>,
    task: Task,
    ns: Vec<f64>,
}

/// A line of JSON. Times are in nanoseconds for an access.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    combination: Combination,
    /// Accesses of a round.
    accesses: usize,
    /// The median of the rounds.
    ns: f64,
    least_ns: f64,
    most_ns: f64,
    /// Instructions for an access, that of the loop among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<f64>,
    /// Bytes of machine code of the loop, without what it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_bytes: Option<u64>,
}

impl Cell {
    fn accesses(&self) -> usize {
        let at_random = self.combination.by == By::Random;
        self.task.accesses(at_random) * self.task.passes
    }

    fn line(&self, instructions: Option<f64>, sizes: Option<&CodeSizes>) -> Line {
        let ns = Spread::of(&self.ns);
        Line {
            combination: self.combination,
            accesses: self.accesses(),
            ns: ns.median,
            least_ns: ns.least,
            most_ns: ns.most,
            instructions,
            code_bytes: sizes.and_then(|sizes| sizes.of(self.kernel as usize)),
        }
    }
}

/// The heaps: where arrays are in one piece, and where they are cut.
struct Grounds {
    whole: Ground,
    cut: Ground,
}

/// What there is, when nothing is left of it.
const NOTHING_SUCH: &str = "\
there is no such combination of --code, --place, --by, --access and --element: code for arrays in one piece has them \
only there, code for arrays in pieces only where N counts; slices are of numbers in one piece; nothing is stored into the \
zero arraylet";

/// Measures and prints; true, for nothing can turn out wrong.
pub fn run(chosen: &Accesses) -> Result<bool> {
    // All kinds of elements have three arrays in the heap that cuts, and what their arraylets take beside is little.
    let room = 24 * (chosen.bytes + FIRST_N + REMAINDER);
    let mut grounds = Grounds {
        whole: Ground::new(false, room)?,
        cut: Ground::new(true, room)?,
    };
    let mut cells = cells(chosen, &mut grounds)?;
    if cells.is_empty() {
        return Err(Failure::new(NOTHING_SUCH));
    }
    let counted = match chosen.instructions {
        true => Some(instructions::count(chosen)?),
        false => None,
    };
    let sizes = match chosen.code_size {
        true => Some(CodeSizes::read()?),
        false => None,
    };
    measure_all(&mut cells, &mut grounds, chosen.rounds)?;
    let instructions = |cell: &Cell| {
        let found = counted.iter().flatten();
        found
            .clone()
            .find(|(combination, _)| *combination == cell.combination)
            .map(|&(_, instructions)| instructions)
    };
    let lines: Vec<_> = cells
        .iter()
        .map(|cell| cell.line(instructions(cell), sizes.as_ref()))
        .collect();
    if chosen.json {
        for line in &lines {
            say(serde_json::to_string(line).map_err(failed)?)?;
        }
    } else {
        say(format_args!(
            "ns for an access, median of {} rounds",
            chosen.rounds
        ))?;
        say(table(&lines, |line| format!("{:.2}", line.ns)))?;
        if counted.is_some() {
            say("instructions for an access")?;
            let shown = |count: f64| format!("{count:.1}");
            say(table(&lines, |line| {
                line.instructions.map_or_else(String::new, shown)
            }))?;
        }
        if sizes.is_some() {
            say("bytes of machine code of the loop")?;
            let shown = |bytes: u64| bytes.to_string();
            say(table(&lines, |line| {
                line.code_bytes.map_or_else(String::new, shown)
            }))?;
        }
    }
    Ok(true)
}

/// Measures all cells in `rounds` rounds.
fn measure_all(cells: &mut [Cell], grounds: &mut Grounds, rounds: u32) -> Result<()> {
    let progress = progress::bar(cells.len() * rounds as usize);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    for _ in 0..rounds {
        for &index in &order {
            let cell = &mut cells[index];
            let ground = match cell.combination.place {
                Place::Whole => &mut grounds.whole,
                _ => &mut grounds.cut,
            };
            let passes = std::mem::replace(&mut cell.task.passes, 1);
            // SAFETY: `cells` made the task for the kernel, as [`Kernel`] asks.
            black_box(unsafe { (cell.kernel)(&mut ground.mutator, &cell.task) }.map_err(failed)?);
            cell.task.passes = passes;
            let start = Instant::now();
            measured(cell.kernel, &mut ground.mutator, &cell.task)?;
            let seconds = start.elapsed().as_secs_f64();
            cell.ns.push(seconds * 1e9 / cell.accesses() as f64);
            progress.inc(1);
        }
        order.reverse();
    }
    progress.finish_and_clear();
    Ok(())
}

/// What is measured: callgrind knows it by its name (`instructions.rs`).
#[inline(never)]
fn measured(kernel: Kernel, mutator: &mut Mutator, task: &Task) -> Result<()> {
    // SAFETY: `cells` made the task for the kernel, as [`Kernel`] asks.
    black_box(unsafe { kernel(mutator, task) }.map_err(failed)?);
    Ok(())
}

/// The combinations that were asked for.
fn cells(chosen: &Accesses, grounds: &mut Grounds) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for &kind in Kind::value_variants() {
        if !chosen.element.is_empty() && !chosen.element.contains(&kind) {
            continue;
        }
        match kind {
            Kind::U8 => of_numbers::<u8>(kind, chosen, grounds, &mut cells)?,
            Kind::U16 => of_numbers::<u16>(kind, chosen, grounds, &mut cells)?,
            Kind::U32 => of_numbers::<u32>(kind, chosen, grounds, &mut cells)?,
            Kind::U64 => of_numbers::<u64>(kind, chosen, grounds, &mut cells)?,
            Kind::F64 => of_numbers::<f64>(kind, chosen, grounds, &mut cells)?,
            Kind::Reference => {
                of::<Object<Wide>>(kind, [None, None], chosen, grounds, &mut cells)?;
            }
        }
    }
    grounds.whole.settle();
    grounds.cut.settle();
    for cell in &mut cells {
        cell.task.array = cell.array.address();
    }
    Ok(cells)
}

/// Loops that load, and loops that store.
type Both = [Option<Kernel>; 2];

/// The loops of one element, compiled for one layout, by the ways to reach elements.
fn kernels_of<L: Layout, E: Measured>(slices: Both) -> [(By, Both); 4] {
    use kernels::*;
    [
        (
            By::Sequential,
            [
                Some(load_in_order::<In<L, E>> as Kernel),
                Some(store_in_order::<In<L, E>>),
            ],
        ),
        (
            By::Random,
            [
                Some(load_at_random::<In<L, E>>),
                Some(store_at_random::<In<L, E>>),
            ],
        ),
        (
            By::Cursor,
            [
                Some(load_by_cursor::<In<L, E>>),
                Some(store_by_cursor::<In<L, E>>),
            ],
        ),
        (By::Slice, slices),
    ]
}

fn of_numbers<T: Measured + Number>(
    kind: Kind,
    chosen: &Accesses,
    grounds: &mut Grounds,
    cells: &mut Vec<Cell>,
) -> Result<()> {
    let slices: Both = [
        Some(kernels::load_by_slice::<T>),
        Some(kernels::store_by_slice::<T>),
    ];
    of::<T>(kind, slices, chosen, grounds, cells)
}

/// The cells of one kind of elements, and their arrays.
fn of<E: Measured>(
    kind: Kind,
    slices: Both,
    chosen: &Accesses,
    grounds: &mut Grounds,
    cells: &mut Vec<Cell>,
) -> Result<()> {
    let bytes = chosen.bytes.next_multiple_of(ARRAYLET);
    let length = (FIRST_N + bytes + REMAINDER) / E::BYTES;
    let whole = grounds.whole.array::<E>(length, false)?;
    let excluded = grounds.cut.array::<E>(length, true)?;
    let [pieces, zero] = [
        grounds.cut.array::<E>(length, false)?,
        grounds.cut.array::<E>(length, false)?,
    ];
    grounds.whole.fill::<E>(&whole, length, &whole)?;
    grounds.cut.fill::<E>(&excluded, length, &excluded)?;
    grounds.cut.fill::<E>(&pieces, length, &pieces)?;
    let [whole, excluded, pieces, zero] = [whole, excluded, pieces, zero].map(Rc::new);
    let beyond = (FIRST_N, chosen.bytes);
    let places = [
        (Place::Whole, &whole, beyond),
        (Place::Excluded, &excluded, beyond),
        (Place::FirstN, &pieces, (0, FIRST_N)),
        (Place::Arraylet, &pieces, beyond),
        (Place::Remainder, &pieces, (FIRST_N + bytes, REMAINDER)),
        (Place::Zero, &zero, beyond),
    ];
    let codes = [
        (Code::Whole, kernels_of::<WholeArrays, E>([None, None])),
        (Code::Zray, kernels_of::<Cut, E>([None, None])),
        (Code::Any, kernels_of::<AnyArrays, E>(slices)),
    ];
    for (code, ways) in codes {
        for &(place, array, (start, bytes)) in &places {
            // Code for one layout belongs into heaps of that layout.
            let fits = match code {
                Code::Whole => place == Place::Whole,
                Code::Zray => !matches!(place, Place::Whole | Place::Excluded),
                Code::Any => true,
            };
            for (by, both) in ways {
                // What cursors and slices find out once for each piece is known of every place but these.
                let is_worthwhile = matches!(by, By::Sequential | By::Random)
                    || matches!(place, Place::Whole | Place::Arraylet);
                for (access, kernel) in [Access::Read, Access::Write].into_iter().zip(both) {
                    let combination = Combination {
                        code,
                        place,
                        by,
                        access,
                        element: kind,
                    };
                    let is_wanted = fits && is_worthwhile && combination.is_chosen(chosen);
                    if let Some(kernel) = kernel.filter(|_| is_wanted) {
                        let range = (start / E::BYTES, bytes / E::BYTES);
                        cells.push(Cell {
                            task: task(combination, range, chosen.accesses as usize),
                            array: Rc::clone(array),
                            combination,
                            kernel,
                            ns: Vec::new(),
                        });
                    }
                }
            }
        }
    }
    Ok(())
}

/// Places that random access goes to before it begins again, at most.
const MOST_PLACES: usize = 1 << 16;

/// A range, to be gone through until there were that many accesses.
fn task(combination: Combination, (first, count): (usize, usize), accesses: usize) -> Task {
    let at_random = combination.by == By::Random;
    let mut order = Vec::new();
    if at_random {
        let mut random = Random::new(combination.element as u64);
        let below = count as u32;
        order.extend((0..count.min(MOST_PLACES)).map(|_| random.below(below)));
    }
    let mut task = Task {
        array: Address::NULL,
        first,
        count,
        order,
        passes: 1,
        zero: combination.place == Place::Zero,
    };
    task.passes = accesses.div_ceil(task.accesses(at_random));
    task
}

/// The lines for people: a column for each kind of elements, a row for all else.
fn table(lines: &[Line], shown: impl Fn(&Line) -> String) -> Table {
    let kinds: Vec<Kind> = Kind::value_variants()
        .iter()
        .copied()
        .filter(|&kind| lines.iter().any(|line| line.combination.element == kind))
        .collect();
    let mut table = Table::new();
    let head = ["code", "place", "by", "access"].map(String::from);
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(head.into_iter().chain(kinds.iter().copied().map(name)));
    let mut rows: Vec<(Combination, Vec<String>)> = Vec::new();
    for line in lines {
        let head = Combination {
            element: kinds[0],
            ..line.combination
        };
        let index = rows.iter().position(|(row, _)| *row == head);
        let index = index.unwrap_or_else(|| {
            rows.push((head, vec![String::new(); kinds.len()]));
            rows.len() - 1
        });
        let column = kinds
            .iter()
            .position(|&kind| kind == line.combination.element);
        rows[index].1[column.expect("a kind that some line has")] = shown(line);
    }
    for (row, figures) in rows {
        let head = [
            name(row.code),
            name(row.place),
            name(row.by),
            name(row.access),
        ];
        table.add_row(head.into_iter().chain(figures));
    }
    table
}

/// A value as the command line has it.
fn name<T: ValueEnum>(value: T) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}
