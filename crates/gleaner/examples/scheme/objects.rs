//! The values of the Scheme as objects of the heap, and how they are made and told apart.
//!
//! `()` is null, a small integer is itself, and everything else is an object. [`World`] is what all threads share;
//! [`Scheme`] is what one thread holds of it in its outermost scope.
//!
//! Functions get the place of their result as a local of their caller, and work in a scope of their own.

use std::fmt;
use std::sync::Arc;

use gleaner::{
    Array, Elements, Fields, Handle, Heap, Local, OutOfMemory, ReferenceArray, Registered, Scope,
    TypeError,
};

use crate::threads::Threads;
use crate::weak_tables::WeakTables;

/// An error of the Scheme program, which it may handle (`try`).
#[derive(Debug)]
pub struct Failure(pub String);

pub type Done = Result<(), Failure>;

impl From<&str> for Failure {
    fn from(text: &str) -> Failure {
        Failure(text.into())
    }
}

impl From<OutOfMemory> for Failure {
    fn from(_: OutOfMemory) -> Failure {
        "out of memory".into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// How deep the interpreter's own functions recurse, which read, expand and show nested lists.
pub const DEEPEST: usize = 500;

pub fn check_depth(depth: usize) -> Done {
    if depth > DEEPEST {
        return Err("lists are nested too deeply".into());
    }
    Ok(())
}

/// The types of all objects: how many references and how many bytes each has.
#[derive(Clone, Copy)]
pub struct Types {
    pub pair: Fields<2, 0>,
    /// Name, global value, next symbol of its bucket; the number of a syntax, or 0.
    pub symbol: Fields<3, 8>,
    /// Characters.
    pub string: Array,
    pub vector: ReferenceArray,
    /// An integer that no slot holds.
    pub wide_integer: Fields<0, 8>,
    /// Parameters, body, environment.
    pub closure: Fields<3, 0>,
    /// Its number.
    pub primitive: Fields<0, 8>,
    /// What is to be done with a value: two operands, an environment, the next frame; what kind it is.
    pub frame: Fields<4, 8>,
    /// A frame that was captured.
    pub continuation: Fields<1, 0>,
    /// True, false and the like.
    pub constant: Fields<0, 8>,
    /// What a thread returned; its number, and whether it failed.
    pub thread: Fields<1, 16>,
    /// Its number.
    pub weak_table: Fields<0, 8>,
}

impl Types {
    pub fn register(heap: &Heap) -> Result<Types, TypeError> {
        Ok(Types {
            pair: heap.fields()?,
            symbol: heap.fields()?,
            string: heap.array(Elements::Bytes)?,
            vector: heap.reference_array()?,
            wide_integer: heap.fields()?,
            closure: heap.fields()?,
            primitive: heap.fields()?,
            frame: heap.fields()?,
            continuation: heap.fields()?,
            constant: heap.fields()?,
            thread: heap.fields()?,
            weak_table: heap.fields()?,
        })
    }
}

/// What all threads share.
pub struct World {
    pub heap: Heap,
    pub types: Types,
    pub threads: Threads,
    pub weak_tables: WeakTables,
    /// The objects that each thread needs: the constants, and the table of symbols.
    roots: Handle,
}

const CONSTANTS: usize = 4;
const BUCKETS: u32 = 256;

impl World {
    pub fn new(heap: &Heap, scope: &mut Scope<'_>) -> Result<Arc<World>, Failure> {
        let types = Types::register(heap).map_err(|error| Failure(error.to_string()))?;
        let roots = scope.allocate_references(types.vector, CONSTANTS as u32 + 1)?;
        for index in 0..CONSTANTS {
            let constant =
                scope.allocate_filled(types.constant, |new| new.write(0, index as u64))?;
            scope.set(roots, index, constant)?;
        }
        let symbols = scope.allocate_references(types.vector, BUCKETS)?;
        scope.set(roots, CONSTANTS, symbols)?;
        Ok(Arc::new(World {
            heap: heap.clone(),
            types,
            threads: Threads::default(),
            weak_tables: WeakTables::default(),
            roots: scope.handle(roots).ok_or("no room for a handle")?,
        }))
    }
}

/// What a thread holds of the world. A scope lasts for its locals.
pub struct Scheme<'r> {
    pub world: Arc<World>,
    pub types: Types,
    pub truth: Local<'r>,
    pub falsity: Local<'r>,
    pub unspecified: Local<'r>,
    /// The value of a global variable that has none.
    pub unbound: Local<'r>,
    symbols: Local<'r>,
}

impl<'r> Scheme<'r> {
    pub fn new(world: Arc<World>, scope: &mut Scope<'r>) -> Scheme<'r> {
        let roots = scope.open(&world.roots);
        Scheme {
            types: world.types,
            truth: scope.get(roots, 0),
            falsity: scope.get(roots, 1),
            unspecified: scope.get(roots, 2),
            unbound: scope.get(roots, 3),
            symbols: scope.get(roots, CONSTANTS),
            world,
        }
    }

    // ---- pairs ----

    pub fn cons(
        &self,
        scope: &mut Scope<'_>,
        car: Local<'_>,
        cdr: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        self.make(scope, self.types.pair, [car, cdr], &[], into)
    }

    pub fn car(&self, scope: &mut Scope<'_>, pair: Local<'_>, into: Local<'_>) -> Done {
        self.part(scope, pair, 0, into)
            .ok_or_else(|| "car of what is no pair".into())
    }

    pub fn cdr(&self, scope: &mut Scope<'_>, pair: Local<'_>, into: Local<'_>) -> Done {
        self.part(scope, pair, 1, into)
            .ok_or_else(|| "cdr of what is no pair".into())
    }

    fn part(
        &self,
        scope: &mut Scope<'_>,
        pair: Local<'_>,
        part: usize,
        into: Local<'_>,
    ) -> Option<()> {
        scope.nested(|scope| {
            let pair = scope.cast(pair, self.types.pair)?;
            scope.load(pair, part, into);
            Some(())
        })
    }

    pub fn is_pair(&self, scope: &Scope<'_>, value: Local<'_>) -> bool {
        scope.is_a(value, self.types.pair)
    }

    /// Takes the first element off a list; false at its end.
    pub fn take(&self, scope: &mut Scope<'_>, list: Local<'_>, into: Local<'_>) -> bool {
        scope.nested(|scope| {
            let Some(pair) = scope.cast(list, self.types.pair) else {
                return false;
            };
            scope.load(pair, 0, into);
            scope.load(pair, 1, list);
            true
        })
    }

    /// Puts the elements of a list in reverse before `rest`; the list is used up.
    pub fn reverse_onto(&self, scope: &mut Scope<'_>, list: Local<'_>, rest: Local<'_>) -> Done {
        scope.nested(|scope| {
            let first = scope.null();
            while self.take(scope, list, first) {
                self.cons(scope, first, rest, rest)?;
            }
            Ok(())
        })
    }

    // ---- objects in general ----

    /// Makes an object with these fields.
    pub fn make<const REFERENCES: usize, const BYTES: usize>(
        &self,
        scope: &mut Scope<'_>,
        of: Fields<REFERENCES, BYTES>,
        references: [Local<'_>; REFERENCES],
        numbers: &[u64],
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let object = scope.allocate_filled(of, |new| {
                for (index, reference) in references.into_iter().enumerate() {
                    new.set(index, reference);
                }
                for (index, number) in numbers.iter().enumerate() {
                    new.write(index, *number);
                }
            })?;
            scope.assign(into, object);
            Ok(())
        })
    }

    pub fn expect(
        &self,
        scope: &Scope<'_>,
        value: Local<'_>,
        of: impl Registered,
        otherwise: &str,
    ) -> Done {
        if scope.is_a(value, of) {
            Ok(())
        } else {
            Err(otherwise.into())
        }
    }

    pub fn is_true(&self, scope: &Scope<'_>, value: Local<'_>) -> bool {
        !scope.same(value, self.falsity)
    }

    pub fn boolean(&self, scope: &mut Scope<'_>, holds: bool, into: Local<'_>) {
        scope.assign(into, if holds { self.truth } else { self.falsity });
    }

    // ---- integers: of 64 bits, whatever a slot of this heap holds ----

    pub fn integer(&self, scope: &mut Scope<'_>, number: i64, into: Local<'_>) -> Done {
        if scope.assign_integer(into, number).is_some() {
            return Ok(());
        }
        self.make(scope, self.types.wide_integer, [], &[number as u64], into)
    }

    pub fn as_integer(&self, scope: &Scope<'_>, value: Local<'_>) -> Option<i64> {
        if scope.is_a(value, self.types.wide_integer) {
            return Some(scope.read_u64(value, 0) as i64);
        }
        scope.as_integer(value)
    }

    // ---- strings and symbols ----

    pub fn string(&self, scope: &mut Scope<'_>, text: &str, into: Local<'_>) -> Done {
        scope.nested(|scope| {
            let characters = scope.allocate_array_with(self.types.string, text.as_bytes())?;
            scope.assign(into, characters);
            Ok(())
        })
    }

    pub fn text(&self, scope: &Scope<'_>, string: Local<'_>) -> String {
        let mut bytes = vec![0; scope.length(string) as usize];
        scope.read_elements(string, 0, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn name(&self, scope: &mut Scope<'_>, symbol: Local<'_>) -> String {
        scope.nested(|scope| {
            let name = scope.get(symbol, 0);
            self.text(scope, name)
        })
    }

    /// The symbol of that name. Each is made once, also if two threads want it at the same time.
    pub fn intern(&self, scope: &mut Scope<'_>, name: &str, into: Local<'_>) -> Done {
        let bucket = name.bytes().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33) ^ u32::from(byte)
        }) % BUCKETS;
        loop {
            let found = scope.nested(|scope| -> Result<bool, Failure> {
                let first = scope.get(self.symbols, bucket as usize);
                scope.assign(into, first);
                while !scope.is_null(into) {
                    if self.name(scope, into) == name {
                        return Ok(true);
                    }
                    scope.load(into, 2, into);
                }
                self.string(scope, name, into)?;
                let fields = [into, self.unbound, first];
                self.make(scope, self.types.symbol, fields, &[0], into)?;
                // Another thread may have been faster: then the bucket is searched again.
                Ok(scope.compare_exchange(self.symbols, bucket as usize, first, into)?)
            })?;
            if found {
                return Ok(());
            }
        }
    }
}
