//! Settings that bring a client's peak memory to that of the installed library, kept in a file between `calibrate`
//! and `compare`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::catalogue::Size;
use crate::failure::{Failure, Result};

/// What was found for one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Gleaner's options.
    pub options: Vec<String>,
    /// Median peak of the installed library in KB.
    pub stock_kb: f64,
    /// Median peak of Gleaner with these options in KB.
    pub gleaner_kb: f64,
    /// The peaks are as near as was asked.
    pub reached: bool,
}

/// The file: what was calibrated, and the settings by client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The size that the clients had.
    pub size: Size,
    /// Marking threads on both sides.
    pub markers: u32,
    /// By the client's name.
    pub clients: BTreeMap<String, Setting>,
}

impl Calibration {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Calibration> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
        serde_json::from_str(&text).map_err(|error| Failure::at(path, error))
    }

    /// Itself, if it was made for that size and number of markers.
    pub fn matching(self, path: &Path, size: Size, markers: u32) -> Result<Calibration> {
        if self.size == size && self.markers == markers {
            return Ok(self);
        }
        let made = format!(
            "was made for size {} and {} markers",
            self.size, self.markers
        );
        Err(Failure::at(path, made))
    }

    /// The options for a client, which must have been calibrated.
    pub fn options(&self, client: &str) -> Result<Vec<String>> {
        let setting = self.clients.get(client);
        setting
            .map(|found| found.options.clone())
            .ok_or_else(|| Failure::new(format!("{client} was not calibrated")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_serves_only_what_it_was_made_for() {
        let setting = Setting {
            options: vec!["x=1".into()],
            stock_kb: 1.0,
            gleaner_kb: 1.0,
            reached: true,
        };
        let made = Calibration {
            size: Size::Ci,
            markers: 1,
            clients: [("c".to_string(), setting)].into(),
        };
        assert_eq!(made.options("c").unwrap(), ["x=1"]);
        assert!(made.options("d").is_err());
        assert!(
            made.clone()
                .matching(Path::new("f"), Size::Full, 1)
                .is_err()
        );
        assert!(made.clone().matching(Path::new("f"), Size::Ci, 2).is_err());
        assert!(made.matching(Path::new("f"), Size::Ci, 1).is_ok());
    }
}
