//! Linux's files of energy counters: any contents are values or faults.
//!
//! Method: the input has the contents of the files of a package and its memory, separated by `;`;
//! the counter of the package then takes all further values. The energy never falls, except at a
//! fault.

use std::fs;
use std::time::Duration;

use telemetry::rapl::Rapl;
use telemetry::{Metric, Source as _};

use crate::temporary::Temporary;

/// Files of the package and its memory.
const FILES: [&str; 7] = [
    "intel-rapl:0/name",
    "intel-rapl:0/energy_uj",
    "intel-rapl:0/max_energy_range_uj",
    "intel-rapl:0/constraint_0_power_limit_uw",
    "intel-rapl:0/constraint_1_max_power_uw",
    "intel-rapl:0:0/name",
    "intel-rapl:0:0/energy_uj",
];
/// Maximum number of further values of the counter.
const MAX_VALUES: usize = 16;

/// Checks the reader of energy counters.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let mut texts = bytes.split(|&byte| byte == b';');
    let root = Temporary::folder("rapl");
    for name in ["intel-rapl:0", "intel-rapl:0:0"] {
        fs::create_dir(root.path().join(name)).expect("the folder is writable");
    }
    for (name, text) in FILES.iter().zip(texts.by_ref()) {
        fs::write(root.path().join(name), text).expect("the folder is writable");
    }
    let mut rapl = match Rapl::open_at(root.path()) {
        Ok(rapl) => rapl,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut last = None;
    for (second, text) in (0..).zip(texts.take(MAX_VALUES)) {
        fs::write(root.path().join(FILES[1]), text).expect("the folder is writable");
        let reading = rapl.read(0, Duration::from_secs(second));
        let energy = reading.values.get(Metric::Energy);
        assert_eq!(energy.is_none(), !reading.faults.is_empty());
        if let (Some(last), Some(energy)) = (last, energy) {
            assert!(last <= energy, "{last} J, then {energy} J");
        }
        last = energy;
    }
}
