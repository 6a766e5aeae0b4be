//! Tables for people: on the terminal and as Markdown.

use std::path::Path;

use comfy_table::presets::UTF8_FULL_CONDENSED;

use crate::failure::{Failure, Result};

/// A table with a title, a head and rows of text.
pub struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Table {
        let head = head.iter().map(|text| text.to_string()).collect();
        Table {
            title: title.into(),
            head,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row, which must be as wide as the head.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.head.len(), "a row of another width");
        self.rows.push(cells);
    }

    /// Adds a line below the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Prints to standard output.
    pub fn print(&self) {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(&self.head);
        for row in &self.rows {
            table.add_row(row);
        }
        println!("{}\n{table}", self.title);
        for note in &self.notes {
            println!("{note}");
        }
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        let rule: Vec<String> = self.head.iter().map(|_| "---".to_string()).collect();
        let mut text = format!("## {}\n\n{}{}", self.title, line(&self.head), line(&rule));
        text.extend(self.rows.iter().map(|row| line(row)));
        text.extend(self.notes.iter().map(|note| format!("\n{note}\n")));
        text
    }

    /// Writes the Markdown to a file, if one is named.
    pub fn write_markdown(&self, path: Option<&Path>) -> Result<()> {
        path.map_or(Ok(()), |path| {
            std::fs::write(path, self.markdown()).map_err(|error| Failure::at(path, error))
        })
    }
}

/// Writes a value as JSON to a file, if one is named.
pub fn write_json(path: Option<&Path>, value: &impl serde::Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::at(path, error))?;
    std::fs::write(path, text + "\n").map_err(|error| Failure::at(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_head_rule_rows_and_notes() {
        let mut table = Table::new("T", &["a", "b"]);
        table.row(vec!["1".into(), "2\n3".into()]);
        table.note("n");
        assert_eq!(
            table.markdown(),
            "## T\n\n| a | b |\n| --- | --- |\n| 1 | 2 3 |\n\nn\n"
        );
    }
}
