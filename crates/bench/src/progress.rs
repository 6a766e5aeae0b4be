//! On a terminal: how far a subcommand is, and how long it will take.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `steps` steps, on standard error.
pub fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:24} {pos}/{len}, {eta} left");
    ProgressBar::new(steps as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
