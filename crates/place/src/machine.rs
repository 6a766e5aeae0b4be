//! The machine as placement sees it: processors, which of them make a core, a cluster, a socket, and how fast they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::Processors;

/// A processor as the system schedules it: a hardware thread of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The kernel's number.
    pub number: usize,
    /// Its core; processors of one core have the same, on the whole machine.
    pub core: usize,
    /// The cores that share the last-level cache.
    pub cluster: usize,
    /// The socket (package).
    pub socket: usize,
    /// The memory node.
    pub node: usize,
    /// Its speed against the fastest of the machine's, which has 1024 (the kernel's `cpu_capacity`).
    pub speed: u32,
}

/// The processors that a program may use, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    processors: Vec<Processor>,
}

/// The machine that this runs on, as it changes: processors go offline, and cpusets shrink.
#[derive(Debug)]
pub(crate) struct Host {
    machine: Machine,
    online: Option<String>,
    allowed: Processors,
}

impl Host {
    pub(crate) fn read() -> Host {
        Host {
            machine: Machine::host(),
            online: online(),
            allowed: allowed(),
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Reads it anew if it has changed. True if so.
    pub(crate) fn refresh(&mut self) -> bool {
        let (online, allowed) = (online(), allowed());
        let changed = (&online, &allowed) != (&self.online, &self.allowed);
        if changed {
            *self = Host::read();
        }
        changed
    }
}

fn online() -> Option<String> {
    fs::read_to_string("/sys/devices/system/cpu/online").ok()
}

/// What the kernel says of a processor that is as fast as any.
const FULL_SPEED: u32 = 1024;

impl Machine {
    /// The machine that this runs on, as far as this process may use it and it is online.
    pub fn host() -> Machine {
        Machine::read(Path::new("/sys/devices/system"), &allowed())
    }

    /// From files as the kernel has them below `/sys/devices/system`. What it does not say, as on machines without
    /// sockets, is the same for all processors.
    fn read(system: &Path, allowed: &Processors) -> Machine {
        let text = |path: String| fs::read_to_string(system.join(path)).ok();
        let list = |path: String| text(path).and_then(|text| text.parse::<Processors>().ok());
        let online =
            list("cpu/online".into()).map_or(allowed.clone(), |on| on.intersection(allowed));
        let nodes = list("node/online".into()).unwrap_or_default();
        let homes: Vec<_> = nodes
            .iter()
            .filter_map(|node| Some((node, list(format!("node/node{node}/cpulist"))?)))
            .collect();
        let describe = |number: usize| {
            let of = |name: &str| text(format!("cpu/cpu{number}/{name}"));
            let first_of = |name: &str| {
                let members = of(name)?.parse::<Processors>().ok()?;
                members.iter().next()
            };
            // Numbers of cores begin anew on each socket; the first of the siblings does not. A negative number of a
            // socket is the kernel's way not to know it.
            let number_of = |name: &str| of(name)?.trim().parse::<usize>().ok();
            let socket = number_of("topology/physical_package_id").unwrap_or(0);
            Processor {
                number,
                core: first_of("topology/thread_siblings_list").unwrap_or(number),
                cluster: first_of("cache/index3/shared_cpu_list")
                    .or_else(|| first_of("topology/core_siblings_list"))
                    .unwrap_or(0),
                socket,
                node: homes
                    .iter()
                    .find(|(_, processors)| processors.contains(number))
                    .map_or(0, |&(node, _)| node),
                speed: number_of("cpu_capacity").map_or(FULL_SPEED, |speed| speed as u32),
            }
        };
        Machine {
            processors: online.iter().map(describe).collect(),
        }
    }

    /// Reads `SOCKETSxCORES`, `SOCKETSxCORESxTHREADS`, or several of these joined by `+`, each with `@SPEED` behind it if
    /// its cores are slower than 1024: `2x4`, `1x8x2+1x8@512`. Each socket has one memory node and one cluster. As Linux
    /// does on most machines, the second threads of cores are numbered after all first ones.
    pub fn synthetic(text: &str) -> Result<Machine, String> {
        let wrong = || {
            format!(
                "'{text}' is no machine: SOCKETSxCORES such as 2x4, SOCKETSxCORESxTHREADS such as 1x8x2, or several \
                 joined by '+', slower ones with a speed below 1024 behind an '@', such as 1x4+1x4@512; {} processors \
                 at most",
                Processors::END
            )
        };
        let mut processors = Vec::new();
        let mut first_socket = 0;
        for part in text.split('+') {
            let (shape, speed) = part.split_once('@').unwrap_or((part, "1024"));
            let speed = speed
                .parse::<u32>()
                .ok()
                .filter(|speed| (1..=FULL_SPEED).contains(speed));
            let numbers: Option<Vec<usize>> = shape.split('x').map(|n| n.parse().ok()).collect();
            let (speed, numbers) = speed.zip(numbers).ok_or_else(wrong)?;
            let (sockets, cores, threads) = match numbers[..] {
                [sockets, cores] => (sockets, cores, 1),
                [sockets, cores, threads] => (sockets, cores, threads),
                _ => return Err(wrong()),
            };
            let fits = sockets
                .checked_mul(cores)
                .and_then(|cores| cores.checked_mul(threads))
                .is_some_and(|count| count > 0 && processors.len() + count <= Processors::END);
            if !fits {
                return Err(wrong());
            }
            let first = processors.len();
            for thread in 0..threads {
                for core in 0..sockets * cores {
                    let socket = first_socket + core / cores;
                    processors.push(Processor {
                        number: first + thread * sockets * cores + core,
                        core: first + core,
                        cluster: socket,
                        socket,
                        node: socket,
                        speed,
                    });
                }
            }
            first_socket += sockets;
        }
        Ok(Machine { processors })
    }

    /// The same machine with only those of its processors that are in `allowed`.
    pub fn restricted(&self, allowed: &Processors) -> Machine {
        let stays = |it: &&Processor| allowed.contains(it.number);
        Machine {
            processors: self.processors.iter().filter(stays).cloned().collect(),
        }
    }

    /// Its processors, in the order of their numbers.
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// The numbers of its processors.
    pub fn numbers(&self) -> Processors {
        self.processors.iter().map(|it| it.number).collect()
    }

    /// The processor of that number.
    pub fn processor(&self, number: usize) -> Option<&Processor> {
        let at = self
            .processors
            .binary_search_by_key(&number, |it| it.number);
        at.ok().map(|at| &self.processors[at])
    }

    /// The sockets that have processors, in the order of their numbers.
    pub fn sockets(&self) -> Vec<usize> {
        let sockets: BTreeSet<_> = self.processors.iter().map(|it| it.socket).collect();
        sockets.into_iter().collect()
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        let cores: BTreeSet<_> = self.processors.iter().map(|it| it.core).collect();
        cores.len()
    }
}

/// The processors that the calling thread may run on; none when the kernel does not say.
fn allowed() -> Processors {
    let set = rustix::thread::sched_getaffinity(None).ok();
    set.map_or(Processors::default(), |set| {
        (0..Processors::END)
            .filter(|&number| set.is_set(number))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_what_the_thread_may_use() {
        let machine = Machine::host();
        assert_eq!(machine.numbers(), allowed());
        assert!(machine.cores() >= 1 && machine.cores() <= machine.numbers().count());
    }

    #[test]
    fn synthetic_machines_are_what_their_text_says() {
        let machine = Machine::synthetic("2x4x2+1x2@512").unwrap();
        assert_eq!(machine.numbers().to_string(), "0-17");
        assert_eq!(machine.sockets(), [0, 1, 2]);
        assert_eq!(machine.cores(), 10);
        let seen: Vec<_> = [0, 7, 8, 15, 16]
            .map(|number| machine.processor(number).unwrap())
            .iter()
            .map(|it| (it.socket, it.core, it.speed))
            .collect();
        let expected = [
            (0, 0, 1024),
            (1, 7, 1024),
            (0, 0, 1024),
            (1, 7, 1024),
            (2, 16, 512),
        ];
        assert_eq!(seen, expected);
        for wrong in [
            "", "2", "0x4", "2x4x2x2", "2x-1", "1x4@0", "1x4@2000", "1x4+", "99x99",
        ] {
            let error = Machine::synthetic(wrong).unwrap_err();
            assert!(error.contains("SOCKETSxCORES"), "{error}");
        }
    }

    #[test]
    fn files_of_the_kernel_are_read() {
        let root = std::env::temp_dir().join(format!("gleaner-place-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/online", "0-2,4-5\n");
        write("node/online", "0-1\n");
        write("node/node0/cpulist", "0-1,4\n");
        write("node/node1/cpulist", "2-3,5\n");
        for (number, package, siblings) in [
            (0, "0", "0,4"),
            (2, "1", "2"),
            (4, "0", "0,4"),
            (5, "-1", "5"),
        ] {
            write(
                &format!("cpu/cpu{number}/topology/physical_package_id"),
                package,
            );
            write(
                &format!("cpu/cpu{number}/topology/thread_siblings_list"),
                siblings,
            );
        }
        write("cpu/cpu2/cache/index3/shared_cpu_list", "2-3,5\n");
        write("cpu/cpu5/cpu_capacity", "430\n");
        let machine = Machine::read(&root, &"0,2-9".parse().unwrap());
        fs::remove_dir_all(&root).unwrap();
        // Number 3 is offline and 1 is not allowed; of the socket of 5 the kernel says that it does not know it.
        let seen: Vec<_> = machine
            .processors()
            .iter()
            .map(|it| (it.number, it.core, it.cluster, it.socket, it.node, it.speed))
            .collect();
        let expected = [
            (0, 0, 0, 0, 0, 1024),
            (2, 2, 2, 1, 1, 1024),
            (4, 0, 0, 0, 0, 1024),
            (5, 5, 0, 0, 1, 430),
        ];
        assert_eq!(seen, expected);
    }
}
