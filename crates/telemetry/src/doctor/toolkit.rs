//! Compatibility of a driver, a CUDA toolkit and a framework.
//!
//! Method: two separate rules, which are often confused. First, a driver runs programs of any minor
//! version of a CUDA major version that it is new enough for. Second, a framework's extensions must
//! be built with a toolkit of the CUDA major version that the framework was built with.
//! Source: NVIDIA, "CUDA Toolkit Release Notes" of 13.4, tables of driver versions; PyTorch,
//! `torch.utils.cpp_extension`.

use std::fmt;
use std::str::FromStr;

/// First CUDA version of each group with the same driver requirement, and the oldest Linux driver
/// that runs the group. A group extends to the first version of the next group; from 11.1 on, it
/// extends to the end of its major version.
const OLDEST_DRIVERS: [(Version, Version); 7] = [
    (Version::new(10, 0), Version::new(410, 48)),
    (Version::new(10, 1), Version::new(418, 39)),
    (Version::new(10, 2), Version::new(440, 33)),
    (Version::new(11, 0), Version::new(450, 36)),
    (Version::new(11, 1), Version::new(450, 80)),
    (Version::new(12, 0), Version::new(525, 60)),
    (Version::new(13, 0), Version::new(580, 65)),
];

/// A version with a major and a minor number, such as `12.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Number before the first full stop.
    pub major: u32,
    /// Number after the first full stop.
    pub minor: u32,
}

/// An NVIDIA driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Driver {
    /// Version of the driver.
    pub version: Version,
    /// The newest CUDA version that the driver reports as supported.
    pub cuda: Option<Version>,
}

/// An incompatibility, or an unknown compatibility.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The driver is too old for a version of CUDA.
    #[error(
        "CUDA {cuda} needs driver {needed} or later (found {driver}): update the driver, or use a \
         CUDA version before {before}"
    )]
    DriverTooOld {
        /// Version of the driver.
        driver: Version,
        /// CUDA version of the toolkit or of the framework.
        cuda: Version,
        /// The oldest driver that runs this CUDA version.
        needed: Version,
        /// The first CUDA version that this driver is too old for.
        before: Version,
    },
    /// The CUDA version is not in the crate's table of drivers.
    #[error(
        "not known whether driver {driver} runs CUDA {cuda} (the built-in table covers {oldest} to \
         {newest}.x)"
    )]
    NotInTable {
        /// Version of the driver.
        driver: Version,
        /// CUDA version of the toolkit or of the framework.
        cuda: Version,
        /// The oldest CUDA version in the table.
        oldest: Version,
        /// The newest CUDA major version in the table.
        newest: u32,
    },
    /// The toolkit and the framework have different CUDA major versions.
    #[error(
        "CUDA major versions differ (toolkit {toolkit}; framework built for {framework}): its \
         extensions will not build; install toolkit {framework}"
    )]
    OtherMajor {
        /// CUDA version of the toolkit.
        toolkit: Version,
        /// CUDA version that the framework was built with.
        framework: Version,
    },
}

impl Driver {
    /// Checks that the driver runs programs built with a CUDA version.
    ///
    /// # Errors
    /// [`Mismatch::DriverTooOld`] if it does not; [`Mismatch::NotInTable`] if that is unknown
    /// because the table lacks the version and the driver does not report the version as supported.
    pub fn runs(self, cuda: Version) -> Result<(), Mismatch> {
        // A driver runs every CUDA version up to its own, including versions not in the table.
        if self.cuda.is_some_and(|newest| cuda <= newest) {
            return Ok(());
        }
        let driver = self.version;
        let row = OLDEST_DRIVERS
            .iter()
            .rfind(|(first, _)| first.major == cuda.major && *first <= cuda);
        let Some(&(_, needed)) = row else {
            let [(oldest, _), .., (newest, _)] = OLDEST_DRIVERS;
            return Err(Mismatch::NotInTable {
                driver,
                cuda,
                oldest,
                newest: newest.major,
            });
        };
        // The advice for an old driver: the first group that it does not run.
        let too_new = OLDEST_DRIVERS.iter().find(|(_, oldest)| driver < *oldest);
        match too_new {
            Some(&(before, _)) if driver < needed => Err(Mismatch::DriverTooOld {
                driver,
                cuda,
                needed,
                before,
            }),
            _ => Ok(()),
        }
    }
}

/// Checks that a toolkit can build a framework's extensions: both must have the same CUDA major
/// version.
///
/// # Errors
/// [`Mismatch::OtherMajor`] if the major versions differ.
pub fn toolkit_builds(toolkit: Version, framework: Version) -> Result<(), Mismatch> {
    if toolkit.major == framework.major {
        Ok(())
    } else {
        Err(Mismatch::OtherMajor { toolkit, framework })
    }
}

/// Parses the release from the output of `nvcc --version`.
#[must_use]
pub fn from_nvcc(said: &str) -> Option<Version> {
    let (_, rest) = said.split_once("release ")?;
    rest.split([',', '\n']).next()?.trim().parse().ok()
}

/// Parses a toolkit's version from its `version.json`, or from the `version.txt` of older toolkits.
#[must_use]
pub fn from_version_file(text: &str) -> Option<Version> {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(text) {
        return json["cuda"]["version"].as_str()?.parse().ok();
    }
    text.trim().strip_prefix("CUDA Version ")?.parse().ok()
}

/// Parses the CUDA version from a framework's version: `2.1.0+cu118` was built with CUDA 11.8.
///
/// Returns `None` if the version has no suffix `+cu`.
#[must_use]
pub fn from_framework(version: &str) -> Option<Version> {
    let (_, digits) = version.split_once("+cu")?;
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    // The last digit is the minor version: 92 is 9.2, and 118 is 11.8.
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    Some(Version {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

impl Version {
    /// Creates a version.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    /// Parses `12.1`, `12.1.105` or `12`; numbers after the minor version are ignored.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.trim().split('.');
        let major = numbers.next().unwrap_or("").parse()?;
        let minor = numbers.next().map_or(Ok(0), str::parse)?;
        Ok(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_toolkit_for_another_major_version_than_the_frameworks_is_diagnosed() {
        let toolkit =
            from_nvcc("Cuda compilation tools, release 12.1, V12.1.105\nBuild cuda_12.1").unwrap();
        let framework = from_framework("2.0.0+cu118").unwrap();
        let said = toolkit_builds(toolkit, framework).unwrap_err().to_string();
        assert!(said.contains("12.1") && said.contains("11.8"), "{said}");
        assert_eq!(toolkit_builds(version("11.6"), framework), Ok(()));
        for name in ["2.0.0", "2.0.0+cu", "2.0.0+cu9", "2.0.0+cpu"] {
            assert_eq!(from_framework(name), None, "{name}");
        }
        for (name, cuda) in [
            ("1.5.0+cu92", "9.2"),
            ("1.12.1+cu102", "10.2"),
            ("2.7.0+cu128", "12.8"),
            ("2.9.0+cu130", "13.0"),
        ] {
            assert_eq!(from_framework(name), Some(version(cuda)), "{name}");
        }
    }

    fn driver(text: &str) -> Driver {
        Driver {
            version: version(text),
            cuda: None,
        }
    }

    #[test]
    fn a_driver_runs_every_minor_version_of_a_major_one_that_it_is_new_enough_for() {
        for (driver_version, cuda, runs) in [
            ("510.47.03", "11.6.2", true),
            ("510.47.03", "11.8", true),
            ("510.47.03", "12.0", false),
            ("525.60.13", "12.9", true),
            ("525.53", "12.0", false),
            ("580.65.06", "13.4", true),
            ("575.57.08", "13.0", false),
            ("450.51.06", "11.0", true),
            ("450.51.06", "11.2", false),
            ("450.80.02", "11.8", true),
            ("418.39", "10.1", true),
            ("418.39", "10.2", false),
            ("580.65.06", "10.0", true),
        ] {
            let found = driver(driver_version).runs(version(cuda));
            assert_eq!(found.is_ok(), runs, "{driver_version} {cuda}: {found:?}");
        }
        let expected = Mismatch::DriverTooOld {
            driver: version("510.47"),
            cuda: version("12.2"),
            needed: version("525.60"),
            before: version("12.0"),
        };
        assert_eq!(driver("510.47.03").runs(version("12.2")), Err(expected));
    }

    #[test]
    fn a_cuda_that_the_table_lacks_is_not_known_to_run() {
        for cuda in ["14.0", "15.2", "9.2"] {
            let found = driver("580.65.06").runs(version(cuda));
            assert!(
                matches!(found, Err(Mismatch::NotInTable { .. })),
                "{cuda}: {found:?}"
            );
        }
        let newer = Driver {
            version: version("700.10"),
            cuda: Some(version("14.1")),
        };
        for cuda in ["9.2", "13.4", "14.0", "14.1"] {
            assert_eq!(newer.runs(version(cuda)), Ok(()), "{cuda}");
        }
        assert!(newer.runs(version("14.2")).is_err());
    }

    #[test]
    fn toolkits_tell_their_versions_in_files_of_two_kinds() {
        let json = r#"{"cuda": {"name": "CUDA SDK", "version": "12.1.1"}}"#;
        assert_eq!(from_version_file(json), Some(version("12.1")));
        assert_eq!(
            from_version_file("CUDA Version 10.2.89\n"),
            Some(version("10.2"))
        );
        assert_eq!(from_version_file("{}"), None);
        assert_eq!(from_version_file(""), None);
    }
}
