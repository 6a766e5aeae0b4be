//! Numbers in words, and text that others wrote made fit to be shown.

/// Letters of a name or a reason that are shown.
const MOST_LETTERS: usize = 120;

/// A unit, how many of the smallest one it is, and of how many of its own on it is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) size: f64,
    least: f64,
}

const TIMES: [Unit; 6] = [
    unit("ns", 1.0, 0.0),
    unit("µs", 1e3, 1.0),
    unit("ms", 1e6, 1.0),
    unit("s", 1e9, 1.0),
    unit("min", 60e9, 3.0),
    unit("h", 3600e9, 3.0),
];
const SIZES: [Unit; 5] = [
    unit("bytes", 1.0, 0.0),
    unit("KiB", 1024.0, 1.0),
    unit("MiB", 1048576.0, 1.0),
    unit("GiB", 1073741824.0, 1.0),
    unit("TiB", 1099511627776.0, 1.0),
];

const fn unit(name: &'static str, size: f64, least: f64) -> Unit {
    Unit { name, size, least }
}

/// The largest unit of which there are enough, or nearly.
fn unit_of(units: &[Unit], value: u64) -> Unit {
    let fits = |unit: &&Unit| value as f64 >= unit.size * unit.least * 0.9999;
    units.iter().rev().find(fits).copied().unwrap_or(units[0])
}

/// The unit for nanoseconds of about that number.
pub(crate) fn unit_of_time(ns: u64) -> Unit {
    unit_of(&TIMES, ns)
}

/// The unit for bytes of about that number.
pub(crate) fn unit_of_size(bytes: u64) -> Unit {
    unit_of(&SIZES, bytes)
}

fn in_unit(value: u64, unit: Unit) -> String {
    let value = value as f64 / unit.size;
    let digits = match value {
        _ if unit.size == 1.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", unit.name)
}

/// Nanoseconds, with three digits.
pub(crate) fn time(ns: u64) -> String {
    in_unit(ns, unit_of_time(ns))
}

/// Bytes, with three digits.
pub(crate) fn size(bytes: u64) -> String {
    in_unit(bytes, unit_of_size(bytes))
}

/// A share of something.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 / whole.max(1) as f64 * 100.0;
    match share {
        0.0 => "0 %".into(),
        ..0.01 => "less than 0.01 %".into(),
        ..0.995 => format!("{share:.2} %"),
        ..99.95 => format!("{share:.1} %"),
        _ => format!("{share:.0} %"),
    }
}

/// A number and the name of what it counts; the name's plural has an s.
pub(crate) fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// Letters of a line of sentences.
const COLUMNS: usize = 110;

/// Sentences in lines that a terminal shows whole, each with its end.
pub(crate) fn wrapped(text: &str) -> String {
    hanging("", text)
}

/// The same behind a head, below which the lines that follow begin.
pub(crate) fn hanging(head: &str, text: &str) -> String {
    let indent = head.chars().count();
    let mut lines = String::from(head);
    let mut column = indent;
    for word in text.split_whitespace() {
        let letters = word.chars().count();
        if column > indent {
            let is_full = column + 1 + letters > COLUMNS;
            match is_full {
                true => lines += &format!("\n{:indent$}", ""),
                false => lines.push(' '),
            }
            column = if is_full { indent } else { column + 1 };
        }
        lines += word;
        column += letters;
    }
    lines + "\n"
}

/// A number of processes.
pub(crate) fn processes(count: u64) -> String {
    let plural = if count == 1 { "" } else { "es" };
    format!("{count} process{plural}")
}

/// A value beside an axis, without zeros at its end.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

/// Text of a log without what a page or a terminal could take for a command, and not too long.
pub(crate) fn shown(text: &str) -> String {
    let is_shown = |letter: &char| {
        let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !letter.is_control() && !turns
    };
    let mut letters = text.chars().filter(is_shown);
    let mut kept: String = letters.by_ref().take(MOST_LETTERS).collect();
    if letters.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Text as HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in shown(text).chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_three_digits() {
        let times = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1234, "1.23 µs"),
            (12_340_000, "12.3 ms"),
            (999_999_999, "1.00 s"),
            (100_000_000_000, "100 s"),
            (240_000_000_000, "4.00 min"),
            (u64::MAX, "5124096 h"),
        ];
        for (ns, expected) in times {
            assert_eq!(time(ns), expected);
        }
        for (bytes, expected) in [
            (7, "7 bytes"),
            (1 << 20, "1.00 MiB"),
            (1536 << 20, "1.50 GiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn lines_that_follow_begin_below_the_first() {
        let word = "x".repeat(COLUMNS / 2);
        let text = hanging("head ", &format!("{word} {word}"));
        assert_eq!(text, format!("head {word}\n     {word}\n"));
        assert_eq!(wrapped("a  b\nc"), "a b c\n");
    }

    #[test]
    fn shares_and_ticks() {
        for (part, expected) in [
            (0, "0 %"),
            (1, "less than 0.01 %"),
            (500, "0.05 %"),
            (31_400, "3.1 %"),
            (1_000_000, "100 %"),
        ] {
            assert_eq!(percent(part, 1_000_000), expected);
        }
        assert_eq!(percent(0, 0), "0 %");
        assert_eq!(
            (tick(2.50), tick(-0.0), tick(1e6)),
            ("2.5".into(), "0".into(), "1000000".into())
        );
        assert_eq!(
            (counted(1, "stop"), counted(2, "stop")),
            ("1 stop".into(), "2 stops".into())
        );
    }

    #[test]
    fn what_others_wrote_commands_nothing() {
        assert_eq!(
            escaped("<b a='1'>\"&\u{1b}[2J\u{202e}\0"),
            "&lt;b a=&#39;1&#39;&gt;&quot;&amp;[2J"
        );
        assert_eq!(shown(&"x".repeat(500)).chars().count(), MOST_LETTERS + 1);
    }
}
