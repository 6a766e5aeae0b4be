//! The values of the Scheme as objects of the heap, and how they are made and told apart.
//!
//! `()` is null, a small integer is itself, and everything else is an object. [`World`] is what all threads share;
//! [`Scheme`] is what one thread holds of it in its outermost scope.
//!
//! Functions get the place of their result as a local of their caller, and work in a scope of their own.

use std::fmt;
use std::sync::Arc;

use gleaner::{
    Array, Elements, Handle, Heap, Local, OutOfMemory, ReferenceArray, Scope, Structure, Type,
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

/// The types of all objects.
#[derive(Clone, Copy)]
pub struct Types {
    pub pair: Type,
    /// Name, global value, next symbol of its bucket. Its bytes are the number of a syntax, or 0.
    pub symbol: Type,
    /// An array of characters. A string is not the array itself, since no array is known by its type.
    pub string: Type,
    /// An array of references, for the same reason.
    pub vector: Type,
    /// An integer that no slot holds.
    pub wide_integer: Type,
    /// Parameters, body, environment.
    pub closure: Type,
    /// Its number.
    pub primitive: Type,
    /// What is to be done with a value: two operands, an environment, the next frame. Its bytes say what kind it is.
    pub frame: Type,
    /// A frame that was captured.
    pub continuation: Type,
    /// True, false and the like.
    pub constant: Type,
    /// What a thread returned. Its bytes: its number, and whether it failed.
    pub thread: Type,
    /// Its number.
    pub weak_table: Type,
    pub characters: Array,
    pub references: ReferenceArray,
}

impl Types {
    pub fn register(heap: &Heap) -> Result<Types, TypeError> {
        let structure = |references, bytes| heap.structure(Structure { references, bytes });
        Ok(Types {
            pair: structure(2, 0)?,
            symbol: structure(3, 8)?,
            string: structure(1, 0)?,
            vector: structure(1, 0)?,
            wide_integer: structure(0, 8)?,
            closure: structure(3, 0)?,
            primitive: structure(0, 8)?,
            frame: structure(4, 8)?,
            continuation: structure(1, 0)?,
            constant: structure(0, 8)?,
            thread: structure(1, 16)?,
            weak_table: structure(0, 8)?,
            characters: heap.array(Elements::Bytes)?,
            references: heap.reference_array()?,
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
        let roots = scope.allocate_references(types.references, CONSTANTS as u32 + 1)?;
        for index in 0..CONSTANTS {
            let constant = scope.allocate_with(types.constant, &[], &bytes(index))?;
            scope.set(roots, index, constant)?;
        }
        let symbols = scope.allocate_references(types.references, BUCKETS)?;
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

/// A number as the bytes of an object.
pub fn bytes(number: usize) -> [u8; 8] {
    (number as u64).to_ne_bytes()
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
        self.make(scope, self.types.pair, &[car, cdr], &[], into)
    }

    pub fn car(&self, scope: &mut Scope<'_>, pair: Local<'_>, into: Local<'_>) -> Done {
        self.expect(scope, pair, self.types.pair, "car of what is no pair")?;
        scope.load(pair, 0, into);
        Ok(())
    }

    pub fn cdr(&self, scope: &mut Scope<'_>, pair: Local<'_>, into: Local<'_>) -> Done {
        self.expect(scope, pair, self.types.pair, "cdr of what is no pair")?;
        scope.load(pair, 1, into);
        Ok(())
    }

    pub fn is_pair(&self, scope: &Scope<'_>, value: Local<'_>) -> bool {
        scope.is_a(value, self.types.pair)
    }

    /// Takes the first element off a list; false at its end.
    pub fn take(&self, scope: &mut Scope<'_>, list: Local<'_>, into: Local<'_>) -> bool {
        let is_pair = self.is_pair(scope, list);
        if is_pair {
            scope.load(list, 0, into);
            scope.load(list, 1, list);
        }
        is_pair
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

    /// Makes an object of a structure with these fields.
    pub fn make(
        &self,
        scope: &mut Scope<'_>,
        of: Type,
        references: &[Local<'_>],
        bytes: &[u8],
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let object = scope.allocate_with(of, references, bytes)?;
            scope.assign(into, object);
            Ok(())
        })
    }

    pub fn expect(&self, scope: &Scope<'_>, value: Local<'_>, of: Type, otherwise: &str) -> Done {
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

    pub fn clear(&self, scope: &mut Scope<'_>, local: Local<'_>) {
        scope.nested(|scope| {
            let null = scope.null();
            scope.assign(local, null);
        });
    }

    // ---- integers: of 64 bits, whatever a slot of this heap holds ----

    pub fn integer(&self, scope: &mut Scope<'_>, number: i64, into: Local<'_>) -> Done {
        scope.nested(|scope| match scope.integer(number) {
            Some(small) => {
                scope.assign(into, small);
                Ok(())
            }
            None => self.make(
                scope,
                self.types.wide_integer,
                &[],
                &number.to_ne_bytes(),
                into,
            ),
        })
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
            let characters = scope.allocate_array_with(self.types.characters, text.as_bytes())?;
            self.make(scope, self.types.string, &[characters], &[], into)
        })
    }

    /// The characters of a string or a symbol.
    pub fn text(&self, scope: &mut Scope<'_>, named: Local<'_>) -> String {
        scope.nested(|scope| {
            let characters = scope.get(named, 0);
            let mut bytes = vec![0; scope.length(characters) as usize];
            scope.read_elements(characters, 0, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
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
                    if self.text(scope, into) == name {
                        return Ok(true);
                    }
                    scope.load(into, 2, into);
                }
                let characters =
                    scope.allocate_array_with(self.types.characters, name.as_bytes())?;
                let fields = [characters, self.unbound, first];
                self.make(scope, self.types.symbol, &fields, &bytes(0), into)?;
                // Another thread may have been faster: then the bucket is searched again.
                Ok(scope.compare_exchange(self.symbols, bucket as usize, first, into)?)
            })?;
            if found {
                return Ok(());
            }
        }
    }
}
