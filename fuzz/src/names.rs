//! Short texts: names of levels, versions of CUDA, and selections of devices.
//!
//! Method: a name of levels must be the same after it is formatted and parsed again, and so must a
//! version. A selection must be of devices that exist.

use quant::layers::Levels;
use telemetry::doctor::toolkit::{self, Version};
use telemetry::{Device, Kind, Select};

/// Checks the parsers of short texts.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    match text.parse::<Levels>() {
        Ok(levels) => assert_eq!(levels.to_string().parse::<Levels>().ok(), Some(levels)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let versions = [
        text.parse().ok(),
        toolkit::from_nvcc(text),
        toolkit::from_version_file(text),
        toolkit::from_framework(text),
    ];
    for version in versions.into_iter().flatten() {
        assert_eq!(version.to_string().parse::<Version>().ok(), Some(version));
        let driver = toolkit::Driver {
            version,
            cuda: Some(version),
        };
        let _ = driver.runs(version);
        let _ = toolkit::toolkit_builds(version, Version::new(12, 1));
    }
    let place = text.lines().next().unwrap_or_default().to_owned();
    let device = Device {
        uuid: Some("GPU-0123456789".to_owned()),
        pci: Some(place),
        ..Device::new(Kind::Gpu, text)
    };
    let names = text.split(',').map(str::to_owned).collect();
    match Select::Named(names).among(&[device]) {
        Ok(selected) => assert_eq!(selected, [0]),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
