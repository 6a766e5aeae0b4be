//! Tables whose keys may die. `(make-weak-table)` makes one, and [`apply`] says what `(weak-table 'get TABLE KEY)` and the
//! like do.
//!
//! A table is a map from the hashes of keys to ephemerons, which lies outside of the heap. The object in the heap has
//! its number, and so has the object's finalizer. When the object dies, the map is emptied, so that the table's values can
//! die.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gleaner::{Ephemeron, Finalizing, Local, Scope};

use crate::objects::{Done, Failure, Scheme};

type Table = HashMap<u32, Vec<Ephemeron>>;

/// A thread that holds the lock neither allocates nor polls.
#[derive(Default)]
pub struct WeakTables(Mutex<Vec<Table>>);

impl WeakTables {
    fn lock(&self) -> MutexGuard<'_, Vec<Table>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn make(scheme: &Scheme<'_>, scope: &mut Scope<'_>, into: Local<'_>) -> Done {
    empty_the_dead(scheme, scope);
    let number = {
        let mut tables = scheme.world.weak_tables.lock();
        tables.push(Table::new());
        tables.len() - 1
    };
    let of = scheme.types.weak_table;
    scheme.make(scope, of, [], &[number as u64], into)?;
    scope.nested(|scope| {
        let number = scope.integer(number as i64).ok_or("no room for a table")?;
        let alone = Finalizing {
            order: 0,
            revives: false,
        };
        scope.finalizer(into, number, alone)?;
        Ok(())
    })
}

fn empty_the_dead(scheme: &Scheme<'_>, scope: &mut Scope<'_>) {
    scope.nested(|scope| {
        while let Some(dead) = scope.next_finalizer() {
            let number = scope.as_integer(dead.value);
            let number = number.expect("the finalizer of a table has its number");
            scheme.world.weak_tables.lock()[number as usize].clear();
        }
    });
}

/// `(weak-table 'count TABLE)`, `(weak-table 'get TABLE KEY)` (false if it is not there), and
/// `(weak-table 'set TABLE KEY VALUE)`.
pub fn apply(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    all: &[Local<'_>],
    into: Local<'_>,
) -> Done {
    let otherwise = "what should be a weak table is none";
    scheme.expect(scope, all[1], scheme.types.weak_table, otherwise)?;
    scheme.expect(scope, all[0], scheme.types.symbol, NO_OPERATION)?;
    let number = scope.read_u64(all[1], 0) as usize;
    match (scheme.name(scope, all[0]).as_str(), all) {
        ("count", [_, _]) => {
            let count = count(scheme, scope, number);
            scheme.integer(scope, count, into)
        }
        ("get", &[_, _, key]) => {
            let is_there = find(scheme, scope, number, key, into)?;
            if is_there {
                scope.load(into, 0, into);
            } else {
                scope.assign(into, scheme.falsity);
            }
            Ok(())
        }
        ("set", &[_, _, key, value]) => {
            set(scheme, scope, number, key, value)?;
            scope.assign(into, scheme.unspecified);
            Ok(())
        }
        _ => Err(NO_OPERATION.into()),
    }
}

const NO_OPERATION: &str = "a weak table cannot do that";

/// How many keys live.
fn count(scheme: &Scheme<'_>, scope: &mut Scope<'_>, number: usize) -> i64 {
    let mut tables = scheme.world.weak_tables.lock();
    let mut count = 0;
    for chain in tables[number].values_mut() {
        chain.retain(|ephemeron| {
            scope.nested(|scope| {
                let key = scope.key(ephemeron);
                !scope.is_null(key)
            })
        });
        count += chain.len() as i64;
    }
    count
}

/// Sets `into` to the box with a key's value, if the table has the key.
fn find(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    number: usize,
    key: Local<'_>,
    into: Local<'_>,
) -> Result<bool, Failure> {
    let hash = hash(scheme, scope, key)?;
    let tables = scheme.world.weak_tables.lock();
    let chain = tables[number].get(&hash).map_or(&[][..], Vec::as_slice);
    Ok(chain.iter().any(|ephemeron| {
        scope.nested(|scope| {
            let found = scope.key(ephemeron);
            let value = scope.value_of(ephemeron);
            scope.assign(into, value);
            scope.same(found, key)
        })
    }))
}

fn set(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    number: usize,
    key: Local<'_>,
    value: Local<'_>,
) -> Done {
    let boxed = scope.null();
    if find(scheme, scope, number, key, boxed)? {
        return Ok(scope.set(boxed, 0, value)?);
    }
    // The value of an ephemeron is an object, which a Scheme's value need not be.
    let nothing = scope.null();
    scheme.cons(scope, value, nothing, boxed)?;
    let ephemeron = scope.ephemeron(key, boxed)?;
    let hash = hash(scheme, scope, key)?;
    let mut tables = scheme.world.weak_tables.lock();
    tables[number].entry(hash).or_default().push(ephemeron);
    Ok(())
}

/// Keys are objects: of what is none, nothing can die.
fn hash(scheme: &Scheme<'_>, scope: &mut Scope<'_>, key: Local<'_>) -> Result<u32, Failure> {
    if scope.is_null(key) || scheme.as_integer(scope, key).is_some() {
        return Err("a key that cannot die".into());
    }
    Ok(scope.identity_hash(key))
}
