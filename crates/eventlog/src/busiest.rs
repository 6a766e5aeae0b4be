//! The one process of a log that counts where a program is looked at as a whole: that with the most collections. Its
//! children inherit the setting, and write to the same file. Of a process with several heaps each counts for itself.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use crate::{Line, Process, Reader};

/// The process with the most collections, or of those without any the one that allocated most, if the log has any; and how
/// many lines are no events.
pub fn busiest(input: impl BufRead) -> io::Result<(Option<Process>, u64)> {
    let mut processes = BTreeMap::<(u64, u64), Process>::new();
    let mut broken = 0;
    let mut reader = Reader::new(input);
    while let Some(line) = reader.next()? {
        match line {
            Line::Event(event) => {
                let heap = processes.entry((event.pid, event.heap)).or_default();
                heap.add(&event);
            }
            Line::Unreadable(_) | Line::NoLog => broken += 1,
        }
    }
    let main = processes
        .into_values()
        .max_by_key(|one| (one.count(), one.allocated()));
    Ok((main, broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_with_the_most_collections_counts() {
        let log = r#"{"event":"options","pid":1,"collection":0,"start_ns":0,"duration_ns":0}
{"event":"mark","pid":2,"collection":1,"start_ns":5,"duration_ns":7}
{"event":"mark","pid":1,"collec"#;
        let (process, broken) = busiest(log.as_bytes()).unwrap();
        let process = process.unwrap();
        assert_eq!((process.count(), process.heap(), broken), (1, 0, 1));
        let numbered = log.replace("\"pid\":2,", "\"pid\":2,\"heap\":3,");
        let (process, _) = busiest(numbered.as_bytes()).unwrap();
        assert_eq!(process.unwrap().heap(), 3);
        let (nothing, broken) = busiest(&b""[..]).unwrap();
        assert!(nothing.is_none() && broken == 0);
    }
}
