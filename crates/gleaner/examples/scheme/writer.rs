//! The text of a value, as `display` writes it.

use gleaner::{Local, Scope};

use crate::objects::{Done, Failure, Scheme, check_depth};

impl Scheme<'_> {
    pub fn show(&self, scope: &mut Scope<'_>, value: Local<'_>) -> Result<String, Failure> {
        let mut text = String::new();
        self.write(scope, value, &mut text, 0)?;
        Ok(text)
    }

    fn write(
        &self,
        scope: &mut Scope<'_>,
        value: Local<'_>,
        text: &mut String,
        depth: usize,
    ) -> Done {
        check_depth(depth)?;
        let types = &self.types;
        if let Some(number) = self.as_integer(scope, value) {
            *text += &number.to_string();
        } else if scope.is_null(value) {
            *text += "()";
        } else if scope.is_a(value, types.string) {
            *text += &self.text(scope, value);
        } else if scope.is_a(value, types.symbol) {
            *text += &self.name(scope, value);
        } else if scope.is_a(value, types.pair) {
            return scope.nested(|scope| self.write_list(scope, value, text, depth));
        } else if scope.is_a(value, types.vector) {
            return scope.nested(|scope| self.write_vector(scope, value, text, depth));
        } else {
            *text += self.name_of(scope, value);
        }
        Ok(())
    }

    fn write_list(
        &self,
        scope: &mut Scope<'_>,
        list: Local<'_>,
        text: &mut String,
        depth: usize,
    ) -> Done {
        let (part, rest) = (scope.null(), scope.null());
        scope.assign(rest, list);
        let mut before = "(";
        while self.take(scope, rest, part) {
            *text += before;
            self.write(scope, part, text, depth + 1)?;
            before = " ";
        }
        if !scope.is_null(rest) {
            *text += " . ";
            self.write(scope, rest, text, depth + 1)?;
        }
        text.push(')');
        Ok(())
    }

    fn write_vector(
        &self,
        scope: &mut Scope<'_>,
        vector: Local<'_>,
        text: &mut String,
        depth: usize,
    ) -> Done {
        let part = scope.null();
        *text += "#(";
        for index in 0..scope.length(vector) as usize {
            if index > 0 {
                text.push(' ');
            }
            scope.load(vector, index, part);
            self.write(scope, part, text, depth + 1)?;
        }
        text.push(')');
        Ok(())
    }

    fn name_of(&self, scope: &Scope<'_>, value: Local<'_>) -> &'static str {
        if scope.same(value, self.truth) {
            "#t"
        } else if scope.same(value, self.falsity) {
            "#f"
        } else if scope.is_a(value, self.types.thread) {
            "#<thread>"
        } else if scope.is_a(value, self.types.weak_table) {
            "#<weak-table>"
        } else if scope.is_a(value, self.types.constant) {
            "#<unspecified>"
        } else {
            "#<procedure>"
        }
    }
}
