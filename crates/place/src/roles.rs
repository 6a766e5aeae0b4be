//! What the threads of a runtime are for, and by which names runtimes tell.

use std::fmt;
use std::str::FromStr;

pub use gleaner_base::roles::Role;

/// Some roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(Vec<Role>);

impl Roles {
    /// Whether `role` is one of them.
    pub fn contain(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const N: usize> From<[Role; N]> for Roles {
    fn from(roles: [Role; N]) -> Roles {
        Roles(roles.to_vec())
    }
}

/// Reads `collector+compiler`, `none`, or one of the paper's groups: `jvm` is all that is not the application's,
/// `nongc` is that without the collector.
impl FromStr for Roles {
    type Err = String;

    fn from_str(text: &str) -> Result<Roles, String> {
        let mut roles = Vec::new();
        for name in text.split('+').map(str::trim) {
            let service = |role: &Role| *role != Role::Application;
            match name {
                "none" if text.trim() == "none" => {}
                "jvm" => roles.extend(Role::ALL.into_iter().filter(service)),
                "nongc" => roles.extend(
                    Role::ALL
                        .into_iter()
                        .filter(|role| service(role) && *role != Role::Collector),
                ),
                _ => roles.push(name.parse::<Role>().map_err(|error| {
                    format!("'{name}': {error}, and the groups jvm, nongc and none")
                })?),
            }
        }
        roles.sort_unstable();
        roles.dedup();
        Ok(Roles(roles))
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<_> = self.0.iter().map(|role| role.name()).collect();
        f.write_str(&names.join("+"))
    }
}

/// How the threads of a program are named: what runtimes do, after what the user says.
#[derive(Clone, Debug, Default)]
pub struct Naming(Vec<(String, Role)>);

/// How many bytes of a name the kernel keeps.
const NAME_BYTES: usize = 15;

impl Naming {
    /// Adds `NAME=ROLE`, where a `*` at the end of the name stands for any rest. What was added first wins.
    pub fn add(&mut self, item: &str) -> Result<(), String> {
        let (name, role) = item
            .rsplit_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("'{item}' is not of the form NAME=ROLE"))?;
        let role = role.parse().map_err(|error| format!("'{role}': {error}"))?;
        self.0.push((name.to_string(), role));
        Ok(())
    }

    /// The role of a thread by its name, as [`Naming::recognise`] does; of one that is not recognised by whether its process
    /// began with it.
    pub fn role(&self, name: &str, first: Option<&str>) -> Role {
        let recognised = self.recognise(name, first);
        recognised.unwrap_or(Naming::unrecognised(first))
    }

    /// The role of a thread whose name tells none.
    pub(crate) fn unrecognised(first: Option<&str>) -> Role {
        match first {
            None => Role::Main,
            Some(_) => Role::Application,
        }
    }

    /// The role that the name of a thread tells: what the user says, what it registered ([`Role::thread_name`]), what runtimes
    /// do. `first` is the name of the thread that its process began with; `None` for that thread itself. Its name is that
    /// of the program, and new threads inherit it, so it tells nothing of what runtimes do.
    pub fn recognise(&self, name: &str, first: Option<&str>) -> Option<Role> {
        let mine = self.0.iter().find(|(pattern, _)| matches(pattern, name));
        if let Some(&(_, role)) = mine {
            return Some(role);
        }
        let registered = |role: &Role| {
            let whole = role.thread_name();
            let end = whole.iter().position(|&byte| byte == 0);
            whole[..end.unwrap_or(whole.len())] == *name.as_bytes()
        };
        if let Some(role) = Role::ALL.into_iter().find(registered) {
            return Some(role);
        }
        let is_named = first.is_some_and(|first| first != name);
        let mut known = NAMES.iter().filter(|_| is_named);
        let found = known.find(|(pattern, _)| matches(pattern, name));
        found.map(|&(_, role)| role)
    }
}

/// Whether a name that the kernel may have cut is what the pattern says: at its end, `*` stands for any rest and `#N` for
/// a number.
fn matches(pattern: &str, name: &str) -> bool {
    let cut = |text: &str| text.as_bytes()[..text.len().min(NAME_BYTES)].to_vec();
    if let Some(start) = pattern.strip_suffix("#N") {
        let number = name.strip_prefix(start).unwrap_or_default();
        return !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    }
    match pattern.strip_suffix('*') {
        Some(start) => name.as_bytes().starts_with(&cut(start)),
        None => name.as_bytes() == cut(pattern),
    }
}

/// The names that runtimes give their threads, whole; the first that matches counts.
const NAMES: &[(&str, Role)] = &[
    // Gleaner, behind either door.
    ("gleaner-zero-#N", Role::Zeroing),
    ("gleaner-mark-#N", Role::Collector),
    ("gleaner-idle-#N", Role::Collector),
    ("gleaner-cycle-#N", Role::Collector),
    ("gleaner-#N", Role::Collector),
    ("gleaner-place", Role::Vm),
    // The markers of Boehm's collector.
    ("GC-marker-*", Role::Collector),
    // HotSpot: its collectors.
    ("GC Thread#*", Role::Collector),
    ("ParGC Thread#*", Role::Collector),
    ("Gang worker#*", Role::Collector),
    ("G1 *", Role::Collector),
    ("Concurrent Mark*", Role::Collector),
    ("ZWorker*", Role::Collector),
    ("ZDriver*", Role::Collector),
    ("ZDirector*", Role::Collector),
    ("ZUncommitter*", Role::Collector),
    ("ZStat*", Role::Vm),
    ("ZUnmapper*", Role::Collector),
    ("RuntimeWorker*", Role::Collector),
    ("Shenandoah*", Role::Collector),
    ("XWorker*", Role::Collector),
    ("XDriver*", Role::Collector),
    // HotSpot: the rest.
    ("main", Role::Main),
    ("C1 CompilerThread*", Role::Compiler),
    ("C2 CompilerThread*", Role::Compiler),
    ("JVMCI*", Role::Compiler),
    ("Sweeper thread", Role::Organizer),
    ("VM Periodic Task Thread", Role::Timer),
    ("VM Thread", Role::Vm),
    ("Reference Handler", Role::Finalizer),
    ("Finalizer", Role::Finalizer),
    ("Common-Cleaner", Role::Finalizer),
    ("Cleaner-*", Role::Finalizer),
    ("Signal Dispatcher", Role::Vm),
    ("Service Thread", Role::Vm),
    ("Monitor Deflation Thread", Role::Vm),
    ("Notification Thread", Role::Vm),
    ("Attach Listener", Role::Vm),
    ("JDWP *", Role::Vm),
    ("JFR *", Role::Profiler),
    // Node, whose workers also mark and compile.
    ("V8Worker*", Role::Collector),
    ("V8 DefaultWorker*", Role::Collector),
    ("DelayedTaskScheduler", Role::Timer),
    ("SignalInspector", Role::Vm),
    // .NET.
    (".NET Server GC*", Role::Collector),
    (".NET BGC*", Role::Collector),
    (".NET Finalizer", Role::Finalizer),
    (".NET Tiered Compilation*", Role::Compiler),
    (".NET Timer*", Role::Timer),
    (".NET SigHandler", Role::Vm),
    (".NET SynchManager", Role::Vm),
    (".NET EventPipe*", Role::Profiler),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_cut_are_recognised() {
        let naming = Naming::default();
        for (name, role) in [
            ("GC Thread#3", Role::Collector),
            ("G1 Refine#0", Role::Collector),
            ("RuntimeWorker#0", Role::Collector),
            ("C2 CompilerThre", Role::Compiler),
            ("VM Periodic Tas", Role::Timer),
            ("VM Thread", Role::Vm),
            ("Reference Handl", Role::Finalizer),
            ("gleaner-1", Role::Collector),
            ("gleaner-zero-2", Role::Zeroing),
            ("gleaner-mark-1", Role::Collector),
            ("gleaner-idle-1", Role::Collector),
            ("gleaner-cycle-1", Role::Collector),
            ("gleaner-compile", Role::Compiler),
            ("gleaner-main", Role::Main),
            ("gleaner-vm", Role::Vm),
            ("gleaner-applica", Role::Application),
            ("gleaner-zeroing", Role::Zeroing),
            ("DelayedTaskSche", Role::Timer),
            (".NET Tiered Com", Role::Compiler),
            ("main", Role::Main),
            ("Thread-0", Role::Application),
            ("GC", Role::Application),
        ] {
            assert_eq!(naming.role(name, Some("java")), role, "{name}");
        }
        assert_eq!(naming.role("java", None), Role::Main);
        assert_eq!(naming.role("java", Some("java")), Role::Application);
    }

    #[test]
    fn names_of_programs_are_no_names_of_threads() {
        let naming = Naming::default();
        for name in ["gleaner-bench", "gleaner-mark-x", "gleaner-", "gleaner-1x"] {
            let role = naming.role(name, Some("java"));
            assert_eq!(role, Role::Application, "{name}");
        }
        // The threads of a program of such a name inherit it.
        for name in ["gleaner-1", "main", "Finalizer", "GC Thread#0"] {
            assert_eq!(naming.role(name, None), Role::Main, "{name}");
            let inherited = naming.role(name, Some(name));
            assert_eq!(inherited, Role::Application, "{name}");
        }
        // What a thread registered, it has not inherited.
        assert_eq!(naming.role("gleaner-compile", None), Role::Compiler);
    }

    #[test]
    fn what_the_user_says_comes_first() {
        let mut naming = Naming::default();
        naming.add("GC Thread#0=profiler").unwrap();
        naming.add("a=b*=timer").unwrap();
        assert_eq!(naming.role("GC Thread#0", None), Role::Profiler);
        assert_eq!(naming.role("GC Thread#1", Some("java")), Role::Collector);
        assert_eq!(naming.role("a=bc", Some("java")), Role::Timer);
        assert!(naming.add("worker").unwrap_err().contains("NAME=ROLE"));
        assert!(naming.add("=vm").unwrap_err().contains("NAME=ROLE"));
        assert!(naming.add("w=worker").unwrap_err().contains("organizer"));
    }

    #[test]
    fn roles_are_read_and_written() {
        let read = |text: &str| text.parse::<Roles>().map(|roles| roles.to_string());
        assert_eq!(read("collector+main").unwrap(), "main+collector");
        assert_eq!(read("none").unwrap(), "none");
        assert!(read("jvm").unwrap().starts_with("main+collector+"));
        assert!(!read("nongc").unwrap().contains("collector"));
        for wrong in ["collectors", "", "none+main", "main+"] {
            assert!(read(wrong).unwrap_err().contains("nongc"), "{wrong}");
        }
    }
}
