//! Whether a driver, a CUDA toolkit, a framework and a container's image fit together.
//!
//! Method: two rules that are often taken for one. A driver runs what was built by any toolkit of a major version that it
//! is new enough for. A framework's extensions are to be built by a toolkit of the framework's own major version.
//! Source: NVIDIA, "CUDA Compatibility", table of minor-version compatibility; PyTorch, `torch.utils.cpp_extension`.

use std::fmt;
use std::str::FromStr;

/// The oldest driver of each major version of CUDA, on Linux.
const OLDEST_DRIVERS: [(u32, u32); 3] = [(11, 450), (12, 525), (13, 580)];

/// A version: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// What stands before the first full stop.
    pub major: u32,
    /// What stands after it.
    pub minor: u32,
}

/// What does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The driver is too old for the toolkit's major version.
    #[error(
        "CUDA {toolkit} needs driver {needed} or later, and it is {driver}: update the driver, or use CUDA {newest}.x"
    )]
    DriverTooOld {
        /// The driver.
        driver: Version,
        /// The toolkit.
        toolkit: Version,
        /// The oldest driver that would do, by its major version.
        needed: u32,
        /// The newest major version that this driver is new enough for.
        newest: u32,
    },
    /// An image asks for more than the driver has.
    #[error(
        "the image asks for CUDA {asked} or later, and the driver's is {cuda}: use an image for CUDA {cuda} or earlier, or update the driver"
    )]
    ImageTooNew {
        /// What the image asks for.
        asked: Version,
        /// The driver's CUDA.
        cuda: Version,
    },
    /// The toolkit and the framework have other major versions.
    #[error(
        "the toolkit is CUDA {toolkit}, and the framework was built for {framework}: extensions will not build; install toolkit {framework}"
    )]
    OtherMajor {
        /// The toolkit.
        toolkit: Version,
        /// What the framework was built for.
        framework: Version,
    },
}

/// Checks that a driver runs what a toolkit builds.
///
/// # Errors
/// [`Mismatch::DriverTooOld`].
pub fn driver_runs(driver: Version, toolkit: Version) -> Result<(), Mismatch> {
    let newest = OLDEST_DRIVERS
        .iter()
        .filter(|(_, oldest)| driver.major >= *oldest);
    let newest = newest.map(|(cuda, _)| *cuda).max().unwrap_or(10);
    let needed = OLDEST_DRIVERS
        .iter()
        .find(|(cuda, _)| *cuda == toolkit.major);
    match needed {
        Some(&(_, needed)) if driver.major < needed => Err(Mismatch::DriverTooOld {
            driver,
            toolkit,
            needed,
            newest,
        }),
        _ => Ok(()),
    }
}

/// Checks that a container with an image's condition (`NVIDIA_REQUIRE_CUDA`) starts: its first `cuda>=`.
///
/// # Errors
/// [`Mismatch::ImageTooNew`].
pub fn image_starts(condition: &str, cuda: Version) -> Result<(), Mismatch> {
    let asked = condition.split_whitespace().find_map(|part| {
        let version = part.split(',').next()?.strip_prefix("cuda>=")?;
        version.parse::<Version>().ok()
    });
    match asked {
        Some(asked) if asked > cuda => Err(Mismatch::ImageTooNew { asked, cuda }),
        _ => Ok(()),
    }
}

/// Checks that a toolkit builds a framework's extensions.
///
/// # Errors
/// [`Mismatch::OtherMajor`].
pub fn toolkit_builds(toolkit: Version, framework: Version) -> Result<(), Mismatch> {
    if toolkit.major == framework.major {
        Ok(())
    } else {
        Err(Mismatch::OtherMajor { toolkit, framework })
    }
}

/// Gives the release that `nvcc --version` says.
#[must_use]
pub fn of_nvcc(said: &str) -> Option<Version> {
    let (_, rest) = said.split_once("release ")?;
    rest.split([',', '\n']).next()?.trim().parse().ok()
}

/// Gives the version in a toolkit's `version.json`, or in the `version.txt` of older ones.
#[must_use]
pub fn of_version_file(text: &str) -> Option<Version> {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(text) {
        return json["cuda"]["version"].as_str()?.parse().ok();
    }
    text.trim().strip_prefix("CUDA Version ")?.parse().ok()
}

/// Gives what a framework was built for, by its version: `2.1.0+cu118` was for 11.8.
#[must_use]
pub fn of_framework(version: &str) -> Option<Version> {
    let (_, digits) = version.split_once("+cu")?;
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let (major, minor) = digits.split_at_checked(2)?;
    Some(Version {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    /// Reads `12.1`, `12.1.105` or `12`.
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
            of_nvcc("Cuda compilation tools, release 12.1, V12.1.105\nBuild cuda_12.1").unwrap();
        let framework = of_framework("2.0.0+cu118").unwrap();
        let said = toolkit_builds(toolkit, framework).unwrap_err().to_string();
        assert!(said.contains("12.1") && said.contains("11.8"), "{said}");
        assert_eq!(toolkit_builds(version("11.6"), framework), Ok(()));
        assert_eq!(of_framework("2.0.0"), None);
        assert_eq!(of_framework("2.7.0+cu128"), Some(version("12.8")));
    }

    #[test]
    fn an_image_for_a_newer_cuda_than_the_drivers_is_diagnosed() {
        let driver = version("510.47.03");
        for toolkit in ["11.6.2", "11.8"] {
            assert_eq!(driver_runs(driver, version(toolkit)), Ok(()));
        }
        let error = driver_runs(driver, version("12.2")).unwrap_err();
        let expected = Mismatch::DriverTooOld {
            driver,
            toolkit: version("12.2"),
            needed: 525,
            newest: 11,
        };
        assert_eq!(error, expected);
        let asked = "cuda>=12.2 brand=tesla,driver>=470,driver<471";
        assert!(image_starts(asked, version("11.6")).is_err());
        assert_eq!(image_starts(asked, version("12.2")), Ok(()));
        assert_eq!(image_starts("", version("11.6")), Ok(()));
    }

    #[test]
    fn toolkits_tell_their_versions_in_files_of_two_kinds() {
        let json = r#"{"cuda": {"name": "CUDA SDK", "version": "12.1.1"}}"#;
        assert_eq!(of_version_file(json), Some(version("12.1")));
        assert_eq!(
            of_version_file("CUDA Version 10.2.89\n"),
            Some(version("10.2"))
        );
        assert_eq!(of_version_file("{}"), None);
        assert_eq!(of_version_file(""), None);
    }
}
