//! Why a placement did nothing: a pure function of the machine, the settings and the roles that were seen.

use std::collections::BTreeSet;

use super::groups;
use super::limits::within_limits;
use crate::{Machine, Placement, Role, Roles, Settings};

/// Why the policy did to no thread what it is for; `None` if it did, or if the system decides. `seen` are the roles of the
/// threads of recognised processes.
pub fn lack(machine: &Machine, settings: &Settings, seen: &BTreeSet<Role>) -> Option<String> {
    let name = settings.placement.name();
    let has = |roles: &Roles| seen.iter().any(|&role| roles.contain(role));
    let missing = |roles: &Roles, done: &str| {
        let why = format!("placement={name} {done} nothing: no thread was of the roles {roles}");
        (!has(roles)).then_some(why)
    };
    match settings.placement {
        Placement::None => None,
        _ if seen.is_empty() => Some(
            "nothing was placed: no thread was recognised by its name; --stats shows what there was, and --role NAME=ROLE \
             says what threads are"
                .into(),
        ),
        Placement::Paper | Placement::Auto => None,
        Placement::Pinned => missing(&settings.pin, "pinned"),
        Placement::Paired => [Role::Application, Role::Collector]
            .into_iter()
            .find_map(|role| missing(&Roles::from([role]), "paired")),
        Placement::Isolated => missing(&settings.isolate, "isolated").or_else(|| {
            let machine = within_limits(machine, settings);
            let cannot = groups::isolated(&machine, settings.isolate_on).len() < 2;
            cannot.then(|| {
                format!(
                    "placement={name} isolated nothing: the processors {} are one unit",
                    machine.numbers()
                )
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_nothing_says_why() {
        let jvm = "main+vm+application+compiler";
        for (items, machine, seen, why) in [
            ("placement=none", "1x2", "none", None),
            (
                "",
                "1x2",
                "none",
                Some("nothing was placed: no thread was recognised"),
            ),
            ("placement=auto", "1x2", "none", Some("--role NAME=ROLE")),
            (
                "placement=isolated",
                "1x2",
                "none",
                Some("nothing was placed"),
            ),
            ("", "1x2", "main", None),
            ("placement=auto", "1x2", "main", None),
            (
                "placement=isolated",
                "1x2",
                jvm,
                Some("isolated nothing: no thread was of the roles collector"),
            ),
            ("placement=isolated,isolate=compiler", "1x2", jvm, None),
            (
                "placement=isolated,isolate=compiler",
                "1x1",
                jvm,
                Some("the processors 0 are one unit"),
            ),
            (
                "placement=isolated,isolate=compiler,processors=1",
                "1x2",
                jvm,
                Some("the processors 1 are one unit"),
            ),
            (
                "placement=isolated,isolate=compiler,isolate-on=socket",
                "1x2",
                jvm,
                Some("the processors 0-1 are one unit"),
            ),
            ("placement=pinned", "1x2", jvm, None),
            (
                "placement=pinned,pin=timer+organizer",
                "1x2",
                jvm,
                Some("pinned nothing: no thread was of the roles organizer+timer"),
            ),
            (
                "placement=paired",
                "1x2",
                jvm,
                Some("paired nothing: no thread was of the roles collector"),
            ),
            (
                "placement=paired",
                "1x2",
                "collector",
                Some("paired nothing: no thread was of the roles application"),
            ),
            ("placement=paired", "1x2", "collector+application", None),
        ] {
            let mut settings = Settings::default();
            let mut items = items.split(',').filter(|item| !item.is_empty());
            items.try_for_each(|item| settings.set(item)).unwrap();
            let machine = Machine::synthetic(machine).unwrap();
            let roles: Roles = seen.parse().unwrap();
            let seen = Role::ALL.into_iter().filter(|&role| roles.contain(role));
            let said = lack(&machine, &settings, &seen.collect());
            let is_right = match (&said, why) {
                (Some(said), Some(why)) => said.contains(why),
                (said, why) => said.is_some() == why.is_some(),
            };
            assert!(is_right, "{settings:?}: {said:?}");
        }
    }
}
