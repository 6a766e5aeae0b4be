//! What the processor packages took meanwhile, by the counters of the kernel (`powercap`), where it has them and lets them be
//! read. That is what everything on the machine took, the program or not.
//!
//! A counter begins again at zero when it comes to its end, after minutes under full load: it is to be read more often.

use crate::files::Files;

const ZONES: &str = "/sys/class/powercap";

/// The counters of all packages.
#[derive(Debug)]
pub struct Energy {
    files: Files,
    packages: Vec<Package>,
}

#[derive(Debug)]
struct Package {
    counter: String,
    /// Where it begins again, in microjoules.
    range: u64,
    last: u64,
    total: u64,
}

impl Energy {
    /// Begins to count; `None` where there is no counter of a package that can be read.
    pub fn start(files: &Files) -> Option<Energy> {
        let (mut packages, mut names) = (Vec::new(), Vec::new());
        for zone in files.names(ZONES) {
            let of = |name: &str| format!("{ZONES}/{zone}/{name}");
            // The zones of a package's parts, and those beside it, count what is counted there, too.
            // A package may stand there twice, behind another door to its registers.
            let name = files.text(&of("name")).unwrap_or_default();
            let is_package = name.starts_with("package-") && !names.contains(&name);
            let counter = of("energy_uj");
            let values = files
                .number(&counter)
                .zip(files.number(&of("max_energy_range_uj")));
            if let (true, Some((last, range))) = (is_package, values) {
                names.push(name);
                packages.push(Package {
                    counter,
                    range,
                    last,
                    total: 0,
                });
            }
        }
        (!packages.is_empty()).then(|| Energy {
            files: files.clone(),
            packages,
        })
    }

    /// Reads the counters.
    pub fn look(&mut self) {
        for package in &mut self.packages {
            let Some(now) = self.files.number(&package.counter) else {
                continue;
            };
            package.total += match now.checked_sub(package.last) {
                Some(more) => more,
                None => (package.range - package.last.min(package.range)) + now,
            };
            package.last = now;
        }
    }

    /// Joules from the start to the last look.
    pub fn joules(&self) -> f64 {
        let total: u64 = self.packages.iter().map(|package| package.total).sum();
        total as f64 * 1e-6
    }

    /// How many packages there are.
    pub fn packages(&self) -> usize {
        self.packages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likeness::Tree;

    #[test]
    fn packages_are_counted_over_the_end_of_a_counter() {
        let tree = Tree::new(&[]);
        assert!(Energy::start(&tree.files()).is_none());
        for (zone, name, count) in [
            ("intel-rapl:0", "package-0\n", "1000\n"),
            ("intel-rapl:0:0", "core\n", "900\n"),
            ("intel-rapl:1", "package-1\n", "9000000\n"),
            ("intel-rapl:2", "psys\n", "5\n"),
        ] {
            tree.write(&format!("sys/class/powercap/{zone}/name"), name);
            tree.write(&format!("sys/class/powercap/{zone}/energy_uj"), count);
            let range = format!("sys/class/powercap/{zone}/max_energy_range_uj");
            tree.write(&range, "10000000\n");
        }
        let mut energy = Energy::start(&tree.files()).unwrap();
        assert_eq!((energy.packages(), energy.joules()), (2, 0.0));
        tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "501000\n");
        tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "500000\n");
        energy.look();
        assert_eq!(energy.joules(), 2.0);
        // One that cannot be read any more counts on where it can be.
        tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "");
        tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "1500000\n");
        energy.look();
        assert_eq!(energy.joules(), 3.0);
    }
}
