//! Reads the values of a program from its text.

use std::iter::Peekable;
use std::str::Chars;

use gleaner::{Local, Scope};

use crate::objects::{Done, Failure, Scheme, check_depth};

pub struct Reader<'t> {
    text: Peekable<Chars<'t>>,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Reader<'t> {
        Reader {
            text: text.chars().peekable(),
        }
    }

    /// Reads the next value; false at the end of the text.
    pub fn read(
        &mut self,
        scheme: &Scheme<'_>,
        scope: &mut Scope<'_>,
        into: Local<'_>,
    ) -> Result<bool, Failure> {
        if self.peek().is_none() {
            return Ok(false);
        }
        self.value(scheme, scope, into, 0)?;
        Ok(true)
    }

    /// The next character that is no blank, outside of comments.
    fn peek(&mut self) -> Option<char> {
        loop {
            let next = *self.text.peek()?;
            if next == ';' {
                while self.text.next_if(|&character| character != '\n').is_some() {}
            } else if !next.is_whitespace() {
                return Some(next);
            } else {
                self.text.next();
            }
        }
    }

    fn value(
        &mut self,
        scheme: &Scheme<'_>,
        scope: &mut Scope<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        check_depth(depth)?;
        match self.peek().ok_or("the program ends inside a list")? {
            '(' => {
                self.text.next();
                scope.nested(|scope| self.list(scheme, scope, into, depth))
            }
            ')' => Err("a ) too many".into()),
            '\'' => {
                self.text.next();
                scope.nested(|scope| {
                    let (quote, rest) = (scope.null(), scope.null());
                    self.value(scheme, scope, into, depth + 1)?;
                    scheme.cons(scope, into, rest, rest)?;
                    scheme.intern(scope, "quote", quote)?;
                    scheme.cons(scope, quote, rest, into)
                })
            }
            '"' => self.string(scheme, scope, into),
            _ => self.atom(scheme, scope, into),
        }
    }

    fn list(
        &mut self,
        scheme: &Scheme<'_>,
        scope: &mut Scope<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        let (value, reversed, rest) = (scope.null(), scope.null(), scope.null());
        loop {
            match self.peek() {
                Some(')') => break,
                Some('.') => {
                    self.text.next();
                    self.value(scheme, scope, rest, depth + 1)?;
                    break;
                }
                _ => {
                    self.value(scheme, scope, value, depth + 1)?;
                    scheme.cons(scope, value, reversed, reversed)?;
                }
            }
        }
        if self.peek() != Some(')') {
            return Err("more than one value behind a dot".into());
        }
        self.text.next();
        scheme.reverse_onto(scope, reversed, rest)?;
        scope.assign(into, rest);
        Ok(())
    }

    fn string(&mut self, scheme: &Scheme<'_>, scope: &mut Scope<'_>, into: Local<'_>) -> Done {
        self.text.next();
        let mut text = String::new();
        loop {
            match self.text.next().ok_or("the program ends inside a string")? {
                '"' => return scheme.string(scope, &text, into),
                '\\' => match self.text.next().ok_or("the program ends inside a string")? {
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
    }

    fn atom(&mut self, scheme: &Scheme<'_>, scope: &mut Scope<'_>, into: Local<'_>) -> Done {
        let mut word = String::new();
        while let Some(character) = self.text.next_if(|&character| {
            !character.is_whitespace() && !matches!(character, '(' | ')' | '\'' | '"' | ';')
        }) {
            word.push(character);
        }
        match word.as_str() {
            "#t" => scheme.boolean(scope, true, into),
            "#f" => scheme.boolean(scope, false, into),
            word => match word.parse() {
                Ok(number) => return scheme.integer(scope, number, into),
                Err(_) => return scheme.intern(scope, word, into),
            },
        }
        Ok(())
    }
}
