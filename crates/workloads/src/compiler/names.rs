//! Names: what each of a tree stands for, found in scopes within scopes, and in the tables of units.

use std::cell::Cell;

use gleaner::Mutator;
use gleaner::raw::{Address, Value};

use super::syntax::{kind, node};
use super::{Compiler, Done, PLACES, function, unit};
use crate::objects::{Code, frame, object, value};
use crate::random::scattered;

/// The references of a scope.
mod scope {
    pub const PARENT: usize = 0;
    /// The symbol that was declared last.
    pub const SYMBOLS: usize = 1;
    /// The last scope in it.
    pub const INNER: usize = 2;
    /// The one before it in the same scope.
    pub const BEFORE: usize = 3;
}

/// Roots while names are resolved.
struct Resolving<'a> {
    /// The innermost.
    scope: &'a Cell<Value>,
    unit: &'a Cell<Value>,
    /// The units before it.
    kept: &'a Cell<Value>,
    /// Registers of the function so far.
    registers: Cell<u32>,
}

impl<F: Code> Compiler<F> {
    /// Makes the functions of a list, and resolves all names in them.
    pub fn resolve_unit(
        &self,
        mutator: &mut Mutator,
        tree: Address,
        unit: &Cell<Value>,
        kept: &Cell<Value>,
    ) -> Done {
        frame(mutator, [Address::NULL], |mutator, [scope]| {
            let resolving = &Resolving {
                scope,
                unit,
                kept,
                registers: Cell::new(0),
            };
            self.for_each(mutator, tree, |mutator, node| {
                self.resolve_function(mutator, node, resolving)
            })
        })
    }

    fn resolve_function(
        &self,
        mutator: &mut Mutator,
        node: Address,
        resolving: &Resolving<'_>,
    ) -> Done {
        frame(mutator, [node, Address::NULL], |mutator, [node, made]| {
            resolving.registers.set(0);
            self.open(mutator, resolving)?;
            let fresh = self.function.fresh(mutator)?;
            made.set(value(fresh));
            let letters = self.node.get(mutator, object(node), node::NAME);
            self.function
                .set(mutator, fresh, function::LETTERS, letters);
            let scope = object(resolving.scope);
            self.function.set(mutator, fresh, function::SCOPE, scope);
            let parameters = self.node.get(mutator, object(node), node::LEFT);
            self.for_each(mutator, parameters, |mutator, parameter| {
                self.declare(mutator, parameter, resolving)
            })?;
            self.function
                .set_number(object(made), 1, resolving.registers.get());
            let block = self.node.get(mutator, object(node), node::RIGHT);
            self.resolve(mutator, block, resolving)?;
            self.function
                .set_number(object(made), 0, resolving.registers.get());
            self.node
                .set(mutator, object(node), node::NAME, object(made));
            self.close(mutator, resolving);
            self.add(mutator, made, resolving)
        })
    }

    /// Adds a function to its unit.
    fn add(&self, mutator: &mut Mutator, made: &Cell<Value>, resolving: &Resolving<'_>) -> Done {
        let letters = self.function.get(mutator, object(made), function::LETTERS);
        let place = self.bytes.hash(mutator, letters) as usize % PLACES;
        let table = self.unit.get(mutator, object(resolving.unit), unit::TABLE);
        let first = self.slots.get(mutator, table, place);
        self.function
            .set(mutator, object(made), function::NEXT, first);
        self.slots.set(mutator, table, place, object(made))?;
        let list = self.unit.get(mutator, object(resolving.unit), unit::LIST);
        frame(mutator, [list], |mutator, [list]| {
            self.vector.push(mutator, list, object(made))
        })
    }

    fn resolve(&self, mutator: &mut Mutator, node: Address, resolving: &Resolving<'_>) -> Done {
        frame(mutator, [node], |mutator, [node]| {
            let of = |mutator: &Mutator, index| self.node.get(mutator, object(node), index);
            match self.kind_of(object(node)) {
                kind::NUMBER => {}
                kind::READ => self.look_up(mutator, object(node), resolving),
                kind::BINARY => {
                    let left = of(mutator, node::LEFT);
                    self.resolve(mutator, left, resolving)?;
                    let right = of(mutator, node::RIGHT);
                    self.resolve(mutator, right, resolving)?;
                }
                kind::CALL => {
                    let callee = self.callee(mutator, of(mutator, node::NAME), resolving);
                    self.node.set(mutator, object(node), node::NAME, callee);
                    let arguments = of(mutator, node::LEFT);
                    self.resolve_list(mutator, arguments, resolving)?;
                }
                which @ (kind::LET | kind::ASSIGN | kind::RETURN) => {
                    let given = of(mutator, node::LEFT);
                    self.resolve(mutator, given, resolving)?;
                    match which {
                        kind::LET => self.declare(mutator, object(node), resolving)?,
                        kind::ASSIGN => self.look_up(mutator, object(node), resolving),
                        _ => {}
                    }
                }
                kind::IF => {
                    let condition = of(mutator, node::LEFT);
                    self.resolve(mutator, condition, resolving)?;
                    let blocks = of(mutator, node::RIGHT);
                    self.resolve_list(mutator, blocks, resolving)?;
                }
                kind::FOR => {
                    let rounds = of(mutator, node::LEFT);
                    self.resolve(mutator, rounds, resolving)?;
                    self.open(mutator, resolving)?;
                    self.declare(mutator, object(node), resolving)?;
                    let block = of(mutator, node::RIGHT);
                    self.resolve(mutator, block, resolving)?;
                    self.close(mutator, resolving);
                }
                _ => {
                    self.open(mutator, resolving)?;
                    let statements = of(mutator, node::LEFT);
                    self.resolve_list(mutator, statements, resolving)?;
                    self.close(mutator, resolving);
                }
            }
            Ok(())
        })
    }

    fn resolve_list(
        &self,
        mutator: &mut Mutator,
        first: Address,
        resolving: &Resolving<'_>,
    ) -> Done {
        self.for_each(mutator, first, |mutator, node| {
            self.resolve(mutator, node, resolving)
        })
    }

    /// A scope in the innermost one.
    fn open(&self, mutator: &mut Mutator, resolving: &Resolving<'_>) -> Done {
        let inner = self.scope.fresh(mutator)?;
        let outer = object(resolving.scope);
        self.scope.initialize(mutator, inner, scope::PARENT, outer);
        if outer != Address::NULL {
            let before = self.scope.get(mutator, outer, scope::INNER);
            self.scope.initialize(mutator, inner, scope::BEFORE, before);
            self.scope.set(mutator, outer, scope::INNER, inner);
        }
        resolving.scope.set(value(inner));
        Ok(())
    }

    fn close(&self, mutator: &Mutator, resolving: &Resolving<'_>) {
        let inner = object(resolving.scope);
        let outer = self.scope.get(mutator, inner, scope::PARENT);
        resolving.scope.set(value(outer));
    }

    /// Makes a symbol of a node's name, in the next register.
    fn declare(&self, mutator: &mut Mutator, node: Address, resolving: &Resolving<'_>) -> Done {
        frame(mutator, [node], |mutator, [node]| {
            let symbol = self.symbol.fresh(mutator)?;
            let scope = object(resolving.scope);
            let before = self.scope.get(mutator, scope, scope::SYMBOLS);
            let letters = self.node.get(mutator, object(node), node::NAME);
            self.symbol.initialize(mutator, symbol, 0, before);
            self.symbol.initialize(mutator, symbol, 1, letters);
            let register = resolving.registers.get();
            self.symbol.set_number(symbol, 0, register);
            resolving.registers.set(register + 1);
            self.scope.set(mutator, scope, scope::SYMBOLS, symbol);
            self.node.set(mutator, object(node), node::NAME, symbol);
            Ok(())
        })
    }

    fn same(&self, mutator: &Mutator, one: Address, other: Address) -> bool {
        let same = |one: &[u8]| self.bytes.look(mutator, other, |other| one == other);
        self.bytes.look(mutator, one, same)
    }

    /// Replaces the letters of a node by the innermost symbol of that name.
    fn look_up(&self, mutator: &Mutator, node: Address, resolving: &Resolving<'_>) {
        let letters = self.node.get(mutator, node, node::NAME);
        let mut scope = object(resolving.scope);
        while scope != Address::NULL {
            let mut symbol = self.scope.get(mutator, scope, scope::SYMBOLS);
            while symbol != Address::NULL {
                if self.same(mutator, letters, self.symbol.get(mutator, symbol, 1)) {
                    return self.node.set(mutator, node, node::NAME, symbol);
                }
                symbol = self.symbol.get(mutator, symbol, 0);
            }
            scope = self.scope.get(mutator, scope, scope::PARENT);
        }
        unreachable!("each name that is used is declared");
    }

    /// The function of that name, of this unit or of one that is kept.
    fn callee(&self, mutator: &Mutator, letters: Address, resolving: &Resolving<'_>) -> Address {
        let place = self.bytes.hash(mutator, letters) as usize % PLACES;
        let own = object(resolving.unit);
        let kept =
            (0..self.kept).map(|index| self.slots.get(mutator, object(resolving.kept), index));
        for unit in std::iter::once(own).chain(kept) {
            if unit == Address::NULL {
                continue;
            }
            let table = self.unit.get(mutator, unit, unit::TABLE);
            let mut found = self.slots.get(mutator, table, place);
            while found != Address::NULL {
                let other = self.function.get(mutator, found, function::LETTERS);
                if self.same(mutator, letters, other) {
                    return found;
                }
                found = self.function.get(mutator, found, function::NEXT);
            }
        }
        unreachable!("each function that is called is there");
    }

    /// A number made of the symbols of a scope and all in it, in any order.
    pub fn symbols(&self, mutator: &Mutator, scope: Address) -> u64 {
        let mut sum = 0u64;
        let mut symbol = self.scope.get(mutator, scope, scope::SYMBOLS);
        while symbol != Address::NULL {
            let letters = self
                .bytes
                .hash(mutator, self.symbol.get(mutator, symbol, 1));
            let register = u64::from(self.symbol.number(symbol, 0));
            sum = sum.wrapping_add(scattered(letters ^ register));
            symbol = self.symbol.get(mutator, symbol, 0);
        }
        let mut inner = self.scope.get(mutator, scope, scope::INNER);
        while inner != Address::NULL {
            sum = sum.wrapping_add(self.symbols(mutator, inner));
            inner = self.scope.get(mutator, inner, scope::BEFORE);
        }
        sum
    }
}

/// Where a resolved name lies.
impl<F: Code> Compiler<F> {
    /// The register of a node's symbol.
    pub fn register(&self, mutator: &Mutator, node: Address) -> u32 {
        self.symbol
            .number(self.node.get(mutator, node, node::NAME), 0)
    }
}
