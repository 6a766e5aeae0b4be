//! How a heap writes a snapshot.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};
use core::sync::atomic::Ordering;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::{LineBuffer, Phase};
use gleaner_mem::Address;
use gleaner_os::threads;
use gleaner_spaces::mark_sweep::MARKED;
use gleaner_spaces::mark_sweep::allocate::is_freed;
use gleaner_spaces::mark_sweep::block::Resolved;
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, MAX_KINDS, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor,
};
use gleaner_spaces::mark_sweep::scan::{FROM_HEAP, FROM_STACK};

use super::places::Places;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::request::{Client, Request};
use crate::shared::record::Record;
use crate::shared::snapshot::Writer;

impl Heap {
    /// Writes a snapshot if one is due. Everything that can be reached must be marked, and nothing grey.
    pub(crate) fn take_snapshot(
        &mut self,
        record: &mut Record,
        world: &WorldStopped<'_>,
        request: &Request<'_>,
        client: &dyn Client,
    ) {
        let Some(mut snapshots) = self.snapshots.take() else {
            return;
        };
        let (mut objects, mut live) = (0, 0);
        self.space.for_each_marked(|object| {
            objects += 1;
            live += object.bytes;
        });
        if request.snapshot || snapshots.is_due(live) {
            record.step(Phase::Snapshot, |event| {
                event.objects = objects;
                event.bytes = live as u64;
                snapshots.write(live, |out| {
                    (objects, self.write_snapshot(out, world, request, client))
                });
            });
            self.totals.snapshots_ns += record.duration(Phase::Snapshot);
        }
        self.snapshots = Some(snapshots);
    }

    /// Writes all of one. How many references found no room on a mark stack.
    fn write_snapshot(
        &mut self,
        out: &mut Writer,
        world: &WorldStopped<'_>,
        request: &Request<'_>,
        client: &dyn Client,
    ) -> usize {
        self.context.observes = true;
        out.head(self.collections + 1, request.reason, self.space.capacity);
        self.write_kinds(out);
        let mut places = Places::new();
        self.write_roots((out, &mut places), world, request.stack_pointer, client);
        places.sort();
        self.write_objects(out, &mut places, client);
        self.context.observes = false;
        // What was counted on the way is no marking.
        self.engine.finish(&self.context).dropped
    }

    fn write_kinds(&self, out: &mut Writer) {
        for number in 0..self.space.kinds.count().min(MAX_KINDS) {
            let Some(kind) = self.space.kinds.get(number) else {
                continue;
            };
            let procedure = kind.descriptor & descriptor::TAGS == descriptor::PROC;
            let name = match number {
                PTRFREE => "pointer-free",
                NORMAL => "normal",
                UNCOLLECTABLE => "uncollectable",
                ATOMIC_UNCOLLECTABLE => "uncollectable pointer-free",
                _ if procedure => "of the program, with a mark procedure",
                _ => "of the program",
            };
            out.line(format_args!("kind {number} {name}"));
        }
    }

    fn write_roots(
        &mut self,
        (out, places): (&mut Writer, &mut Places),
        world: &WorldStopped<'_>,
        stack_pointer: Address,
        client: &dyn Client,
    ) {
        let context = &*self.context;
        self.roots.for_each_named(world, |range, name| {
            let name = RangeName(range.low, name);
            out.line(format_args!(
                "root static {:x} {:x} {name}",
                range.low.word(),
                range.high.word()
            ));
            // SAFETY: data segments and registered ranges are readable; the world is stopped.
            unsafe {
                context.for_each_reference(range.low, range.high, FROM_HEAP, &mut |at, found| {
                    places.add(&found);
                    word(out, at, found);
                });
            }
        });
        self.for_each_stack_part(world, stack_pointer, client, &mut |tid, part| {
            let mut name = [0; 17];
            let name = threads::name_of(tid, &mut name);
            out.line(format_args!(
                "root stack {} {:x} {:x} {name}",
                tid.0,
                part.at.word(),
                part.at.word() + part.bytes()
            ));
            // SAFETY: a part of the stack of a thread that is stopped, blocked, or the calling one.
            unsafe {
                context.for_each_reference(part.low, part.high, FROM_STACK, &mut |at, found| {
                    places.add(&found);
                    word(out, part.at.add(at.offset_from(part.low)), found);
                });
            }
        });
        self.write_unnamed_stacks(out, places, stack_pointer);
        out.line(format_args!("root uncollectable"));
        self.space.for_each_inner_root(|start, _| {
            // SAFETY: a root is an object, or was one.
            if self.is_marked(start) && unsafe { !is_freed(start) } {
                target(out, start);
            }
        });
        // Such objects do not live for that, but what they refer to does.
        out.line(format_args!("root objects that wait to be disclaimed"));
        self.space.for_each_inner_root(|start, descriptor| {
            if !self.is_marked(start) {
                // SAFETY: the descriptor is that of the object's block, and the world is stopped.
                unsafe {
                    self.engine
                        .for_each_target(start, descriptor, &mut |base| target(out, base));
                }
            }
        });
        out.line(format_args!("root results of threads"));
        for (_, result) in &self.thread_results {
            self.write_target_of(out, result.word());
        }
        out.line(format_args!("root finalizers"));
        self.weak
            .for_each_root(&mut |root| self.write_target_of(out, root.word()));
        out.line(format_args!("root pushed by the program"));
        client.push_other_roots(self);
        // SAFETY: the client has just pushed what is readable, and the world is stopped.
        unsafe {
            self.engine.take_targets(&mut |base| target(out, base));
        }
    }

    /// What may be stacks is a root for each mapping in which something is found.
    fn write_unnamed_stacks(&self, out: &mut Writer, places: &mut Places, stack_pointer: Address) {
        let context = &*self.context;
        let mut last = (0, 0);
        self.for_each_unnamed_part(stack_pointer, &mut |mapping, part| {
            // SAFETY: a copy, of this thread's alone.
            unsafe {
                context.for_each_reference(part.low, part.high, FROM_STACK, &mut |at, found| {
                    if core::mem::replace(&mut last, mapping) != mapping {
                        let (low, high) = mapping;
                        out.line(format_args!(
                            "root static {low:x} {high:x} memory that may be a stack"
                        ));
                    }
                    places.add(&found);
                    word(out, part.at.add(at.offset_from(part.low)), found);
                });
            }
        });
    }

    fn is_marked(&self, object: Address) -> bool {
        self.space.object_at(object.word()).is_some_and(|found| {
            // SAFETY: the mark of a resolved object. Relaxed: the world is stopped.
            unsafe { (*found.mark).load(Ordering::Relaxed) == MARKED }
        })
    }

    fn write_target_of(&self, out: &mut Writer, word: usize) {
        // SAFETY: a resolved object.
        let lives = |found: &Resolved| unsafe { !is_freed(found.base) };
        if let Some(found) = self.space.object_at(word).filter(lives) {
            target(out, found.base);
        }
    }

    fn write_objects(&self, out: &mut Writer, places: &mut Places, client: &dyn Client) {
        let (mut objects, mut edges) = (0u64, 0u64);
        self.space.for_each_marked(|object| {
            objects += 1;
            let _ = write!(
                out,
                "o {:x} {} {}",
                object.base.word(),
                object.bytes,
                object.kind
            );
            if object.descriptor != 0 {
                // SAFETY: the descriptor is that of the object's block, and the world is stopped; all of the object is readable.
                unsafe {
                    self.engine
                        .for_each_target(object.base, object.descriptor, &mut |base| {
                            edges += 1;
                            let _ = write!(out, " {:x}", base.word());
                        });
                    let words = object.bytes / size_of::<usize>();
                    let start = object.base.ptr::<usize>().cast_const();
                    places.look_through(core::slice::from_raw_parts(start, words));
                }
            }
            let mut text = LineBuffer::<256>::new();
            if client.describe(&object, &mut text) {
                let text = text.as_str().lines().next().unwrap_or_default();
                let _ = write!(out, "\na {text}");
            }
            out.line(format_args!(""));
        });
        for address in places.held() {
            out.line(format_args!("held {address:x}"));
        }
        out.end(objects, edges);
    }
}

fn word(out: &mut Writer, at: Address, found: Resolved) {
    let (base, offset) = (found.base.word(), found.displacement);
    out.line(format_args!("w {:x} {base:x} {offset}", at.word()));
}

fn target(out: &mut Writer, base: Address) {
    out.target(base);
}

/// Whose a static range is, from where it starts and the path that the loader has.
struct RangeName(Address, *const c_char);

impl fmt::Display for RangeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeName(low, name) = *self;
        if name.is_null() {
            // Memory that the program registered has no name, unless a file is mapped there.
            threads::write_mapped_file(low.word(), out);
            return Ok(());
        }
        // SAFETY: the loader's string, which lives as long as the library is loaded; the world is stopped.
        match unsafe { CStr::from_ptr(name) }.to_str() {
            Ok("") => out.write_str("the program"),
            Ok(path) => out.write_str(path.lines().next().unwrap_or_default()),
            Err(_) => out.write_str("?"),
        }
    }
}
