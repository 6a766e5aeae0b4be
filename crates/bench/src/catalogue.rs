//! The list of clients, `clients.toml`: what is run, at which sizes, and what of its output counts.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use gleaner_workloads::failure::{Failure, Result};

/// How much a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Small enough for a collection at every allocation.
    Tiny,
    /// Under a second.
    Ci,
    /// For measuring.
    Full,
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Size::Tiny => "tiny",
            Size::Ci => "ci",
            Size::Full => "full",
        })
    }
}

/// What of a client's output must not depend on the collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// All of its standard output, byte for byte.
    #[default]
    Stdout,
    /// The field `result` of the JSON in its last line.
    Result,
}

/// A step that makes a file before anything is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The file it makes.
    pub makes: String,
    /// It is repeated when this file is newer.
    pub from: String,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// What follows where the client is measured, as what makes a compiler optimise.
    #[serde(default)]
    pub measured: Vec<String>,
    /// The standard output is the file.
    #[serde(default)]
    pub capture: bool,
}

/// The arguments of each size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    tiny: Vec<String>,
    ci: Vec<String>,
    full: Vec<String>,
}

/// A program that is run on either library.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its name in tables.
    pub name: String,
    /// The Debian package that it needs.
    pub package: String,
    /// The program and its arguments, with placeholders.
    pub command: Vec<String>,
    /// Steps before the first run.
    #[serde(default)]
    pub setup: Vec<Step>,
    /// A library that is preloaded into the program on both sides.
    pub preload: Option<String>,
    /// Environment on both sides.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A file that each run leaves behind.
    pub leaves: Option<String>,
    /// What of the output counts.
    #[serde(default)]
    pub compare: Compare,
    /// With `--pressure`, after how many allocations each collection comes.
    #[serde(default = "each")]
    pub stress: NonZeroU32,
    /// Under pressure, how many allocations come before the first collection, if the program needs it.
    #[serde(rename = "stress-after")]
    pub stress_after: Option<u32>,
    /// Collections that are enough under pressure, for a program that is too slow for as many as are asked for.
    pub enough: Option<u64>,
    /// Collections that a run of size `ci` makes at least with the default options.
    #[serde(default)]
    pub collects: u64,
    sizes: Sizes,
}

fn each() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Client {
    /// A program that is in no catalogue, named after its file.
    pub fn of_command(program: &str, command: &[String]) -> Client {
        let name = Path::new(program).file_name().unwrap_or_default();
        let none = || command[1..].to_vec();
        Client {
            name: name.to_string_lossy().into_owned(),
            package: String::new(),
            command: command.to_vec(),
            setup: Vec::new(),
            preload: None,
            env: BTreeMap::new(),
            leaves: None,
            compare: Compare::Stdout,
            stress: each(),
            stress_after: None,
            enough: None,
            collects: 0,
            sizes: Sizes {
                tiny: none(),
                ci: none(),
                full: none(),
            },
        }
    }

    /// The arguments of that size.
    pub fn arguments(&self, size: Size) -> &[String] {
        match size {
            Size::Tiny => &self.sizes.tiny,
            Size::Ci => &self.sizes.ci,
            Size::Full => &self.sizes.full,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    client: Vec<Client>,
}

/// The clients in `directory`/clients.toml whose names contain one of `only`; all of them when it is empty.
pub fn read(directory: &Path, only: &[String]) -> Result<Vec<Client>> {
    let path = directory.join("clients.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
    let file: File = toml::from_str(&text).map_err(|error| Failure::at(&path, error))?;
    if let Some(unknown) = only.iter().find(|part| {
        !file
            .client
            .iter()
            .any(|client| client.name.contains(part.as_str()))
    }) {
        return Err(Failure::new(format!(
            "no client's name contains \"{unknown}\""
        )));
    }
    Ok(file
        .client
        .into_iter()
        .filter(|client| {
            only.is_empty() || only.iter().any(|part| client.name.contains(part.as_str()))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> Vec<Client> {
        read(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients")),
            &[],
        )
        .unwrap()
    }

    #[test]
    fn the_shipped_list_reads_and_names_are_apart() {
        let clients = shipped();
        assert!(clients.len() > 20);
        for (index, client) in clients.iter().enumerate() {
            assert!(
                clients[..index]
                    .iter()
                    .all(|other| other.name != client.name),
                "{}",
                client.name
            );
        }
    }

    #[test]
    fn the_sizes_of_a_client_take_equally_many_arguments() {
        for client in shipped() {
            let count = client.arguments(Size::Full).len();
            assert_eq!(client.arguments(Size::Ci).len(), count, "{}", client.name);
            assert_eq!(client.arguments(Size::Tiny).len(), count, "{}", client.name);
        }
    }

    #[test]
    fn a_name_that_no_client_has_is_refused() {
        let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients"));
        assert!(read(directory, &["no-such-client".into()]).is_err());
        assert_eq!(read(directory, &["guile-earley".into()]).unwrap().len(), 1);
    }
}
