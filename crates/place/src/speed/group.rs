//! A group of threads whose processor time the kernel bounds, by `cpu.max` of a threaded group (cgroup v2) or by the
//! quota of the `cpu` controller (v1). It is made inside of the group that the program is in, and its threads go back
//! there.

use std::io;
use std::time::Duration;

use super::writer::Writer;
use crate::files::Files;

/// Which interface the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    pub(super) fn number(self) -> u8 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    pub(super) fn of_number(text: &str) -> Option<Version> {
        match text {
            "1" => Some(Version::V1),
            "2" => Some(Version::V2),
            _ => None,
        }
    }

    /// The file with its threads.
    fn threads(self) -> &'static str {
        match self {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }
}

/// A group, by its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) path: String,
}

/// How often its threads had to wait for the next period, and for how long together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Throttled {
    pub(super) times: u64,
    pub(super) time: Duration,
}

/// A group that threads leave may still have some that are ending.
const ATTEMPTS: usize = 200;
const BETWEEN: Duration = Duration::from_millis(2);

impl Group {
    /// The group of the program, where the kernel has the controller, and its name there. The error says what is missing.
    pub(super) fn of_process(files: &Files, process: u32) -> Result<(Group, String), String> {
        let (group, _, inside) = Group::around(files, process)?;
        if group.version == Version::V2 && !group.lists(files, "cgroup.controllers") {
            return Err(format!(
                "{} has no cpu controller; delegate it: systemd-run --user --scope -p Delegate=yes gleaner place ...",
                group.path
            ));
        }
        Ok((group, inside))
    }

    /// The group of a process, where its hierarchy is mounted, and the name of the group there.
    fn around(files: &Files, process: u32) -> Result<(Group, String, String), String> {
        let read = |path: String| {
            let text = files.text(&path);
            text.map_err(|error| format!("{path} cannot be read: {error}"))
        };
        let groups = read(format!("/proc/{process}/cgroup"))?;
        let mounts = read("/proc/self/mountinfo".into())?;
        let (version, inside) = controlled(&groups).ok_or("the program is in no group (cgroup)")?;
        let (root, at) = mounted(&mounts, version)
            .ok_or("the cpu controller (cgroup v1 or v2) is not mounted: mount -t cgroup2 none /sys/fs/cgroup")?;
        let below = match root.as_str() {
            "/" => Some(inside),
            root => inside.strip_prefix(root),
        };
        let below = below.filter(|below| !below.starts_with("/.."));
        let below = below.ok_or_else(|| {
            format!("the program's group {inside} is outside of what is mounted at {at}")
        })?;
        let path = format!("{at}{}", below.trim_end_matches('/'));
        let group = Group { version, path };
        Ok((group, at, inside.to_string()))
    }

    /// How many processors its own quota allows, without those of the groups around it.
    fn own_quota(&self, files: &Files) -> Option<f64> {
        let numbers = |name: &str| {
            let text = files.text(&self.file(name)).unwrap_or_default();
            let numbers = text.split_whitespace().map_while(|it| it.parse().ok());
            numbers.collect::<Vec<f64>>()
        };
        let both = match self.version {
            Version::V1 => [numbers("cpu.cfs_quota_us"), numbers("cpu.cfs_period_us")].concat(),
            Version::V2 => numbers("cpu.max"),
        };
        match both[..] {
            [quota, period] if quota > 0.0 && period > 0.0 => Some(quota / period),
            _ => None,
        }
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    fn lists(&self, files: &Files, name: &str) -> bool {
        let text = files.text(&self.file(name)).unwrap_or_default();
        text.split_whitespace().any(|it| it == "cpu")
    }

    /// What is to be made inside.
    pub(super) fn child(&self, name: &str) -> Group {
        Group {
            version: self.version,
            path: self.file(name),
        }
    }

    fn parent(&self) -> Group {
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Group {
            version: self.version,
            path: path.into(),
        }
    }

    /// Whether making it must enable the controller for the parent's children.
    pub(super) fn must_enable(&self, files: &Files) -> bool {
        self.version == Version::V2 && !self.parent().lists(files, "cgroup.subtree_control")
    }

    /// Makes it, as a threaded one where there is such a thing: that comes first, for a parent with processes in it can
    /// have a controller for threaded children only.
    pub(super) fn make(&self, files: &Files, enable: bool) -> Result<(), String> {
        let step = |what: &str, done: io::Result<()>| {
            done.map_err(|error| {
                let remedy = match error.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        "; run as root, or under cgroup v2 in a group of your own: \
                         systemd-run --user --scope -p Delegate=yes gleaner place ..."
                    }
                    _ => "",
                };
                format!("{what} is refused: {error}{remedy}")
            })
        };
        step(
            &format!("the directory {}", self.path),
            files.make_directory(&self.path),
        )?;
        if self.version == Version::V2 {
            let kind = self.file("cgroup.type");
            step(&format!("threaded in {kind}"), files.set(&kind, "threaded"))?;
        }
        if enable {
            let children = self.parent().file("cgroup.subtree_control");
            step(&format!("+cpu in {children}"), files.set(&children, "+cpu"))?;
        }
        Ok(())
    }

    /// Allows `quota` microseconds of processor time in each `period` microseconds.
    pub(super) fn bound(&self, files: &Files, quota: u64, period: u64) -> Result<(), String> {
        let values = match self.version {
            Version::V2 => vec![("cpu.max", format!("{quota} {period}"))],
            // No quota in between: the kernel compares each with the other one and with the parent's.
            Version::V1 => vec![
                ("cpu.cfs_quota_us", "-1".to_string()),
                ("cpu.cfs_period_us", period.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ],
        };
        for (name, value) in values {
            let path = self.file(name);
            files.set(&path, &value).map_err(|error| {
                format!(
                    "{value} in {path} is refused: {error}; a group above may have a lower bound"
                )
            })?;
        }
        Ok(())
    }

    /// Takes a thread in. One that has ended is no error.
    pub(super) fn take(&self, files: &Files, thread: u32) -> io::Result<()> {
        match files.add(&self.file(self.version.threads()), &thread.to_string()) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Ok(())
            }
            done => done,
        }
    }

    /// Lets a thread go back.
    pub(super) fn give_back(&self, files: &Files, thread: u32) -> io::Result<()> {
        self.parent().take(files, thread)
    }

    pub(super) fn threads(&self, files: &Files) -> io::Result<Vec<u32>> {
        files.numbers(&self.file(self.version.threads()))
    }

    pub(super) fn throttled(&self, files: &Files) -> Throttled {
        let text = files.text(&self.file("cpu.stat")).unwrap_or_default();
        let of = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse().ok())
        };
        let micros = of("throttled_usec ").map(Duration::from_micros);
        let nanos = of("throttled_time ").map(Duration::from_nanos);
        Throttled {
            times: of("nr_throttled ").unwrap_or(0),
            time: micros.or(nanos).unwrap_or_default(),
        }
    }

    /// Empties and removes it; `enabled`: the parent's children lose the controller that they had for it. One that is
    /// gone is no error.
    pub(super) fn remove(&self, files: &Files, enabled: bool) -> Result<(), String> {
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if !files.has(&self.path) {
                break;
            }
            for thread in self.threads(files).unwrap_or_default() {
                last = self.give_back(files, thread).err();
            }
            match files.remove_directory(&self.path) {
                Ok(()) => break,
                Err(error) if attempt + 1 == ATTEMPTS => {
                    let error = last.unwrap_or(error);
                    return Err(format!(
                        "the group {} cannot be removed: {error}",
                        self.path
                    ));
                }
                Err(_) => std::thread::sleep(BETWEEN),
            }
        }
        if enabled {
            // Refused as long as others use it, who keep it then.
            let _ = files.set(&self.parent().file("cgroup.subtree_control"), "-cpu");
        }
        Ok(())
    }

    /// Removes those inside whose process has gone. Gives what was done and what went wrong.
    pub(super) fn remove_left(&self, files: &Files) -> Vec<String> {
        let names = files.names(&self.path).into_iter();
        let left = names.filter(|name| Writer::parse(name).is_some_and(|writer| writer.is_gone()));
        let removed = left.map(|name| {
            let group = self.child(&name);
            match group.remove(files, false) {
                Ok(()) => format!(
                    "removed the group {} that an earlier start left",
                    group.path
                ),
                Err(error) => error,
            }
        });
        removed.collect()
    }
}

/// Whether a thread is in the group of that name: it may be taken from there, and let back to where it was.
pub(super) fn is_in(files: &Files, thread: u32, name: &str) -> bool {
    let text = files.text(&format!("/proc/{thread}/cgroup"));
    text.is_ok_and(|text| controlled(&text).is_some_and(|(_, inside)| inside == name))
}

/// The hierarchy that has the cpu controller of a process, and its group there.
fn controlled(text: &str) -> Option<(Version, &str)> {
    let lines = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let first = lines
        .clone()
        .find(|(list, _)| list.split(',').any(|it| it == "cpu"));
    let second = lines.clone().find(|(list, _)| list.is_empty());
    let first = first.map(|(_, path)| (Version::V1, path));
    first.or(second.map(|(_, path)| (Version::V2, path)))
}

/// How many processors the quotas of a process's groups allow; `None` where there is none.
pub(crate) fn quota(files: &Files, process: u32) -> Option<f64> {
    let (group, at, _) = Group::around(files, process).ok()?;
    let mut groups = Vec::from([group]);
    while let Some(inner) = groups.last().filter(|it| it.path.len() > at.len()) {
        groups.push(inner.parent());
    }
    let quotas = groups.iter().filter_map(|group| group.own_quota(files));
    quotas.reduce(f64::min)
}

/// Which part of that hierarchy is mounted, and where.
fn mounted(text: &str, version: Version) -> Option<(String, String)> {
    let found = text.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let is_it = match version {
            Version::V1 => kind == "cgroup" && options.split(',').any(|it| it == "cpu"),
            Version::V2 => kind == "cgroup2",
        };
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        is_it.then(|| (root.replace("\\040", " "), at.replace("\\040", " ")))
    });
    found.filter(|(_, at)| !at.contains('\n'))
}
