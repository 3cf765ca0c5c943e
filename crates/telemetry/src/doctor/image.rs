//! Compatibility of a container image with this machine.
//!
//! Role: evaluates `NVIDIA_REQUIRE_CUDA`, the requirement that an image states. NVIDIA's container
//! toolkit does not start the container if the requirement is not met.
//! Method: a condition is a list of alternatives, separated by spaces; at least one must hold. An
//! alternative is a list of terms, separated by commas; all must hold. A term is a property
//! (`cuda`, `driver`, `arch`, `brand`), an operator (`=`, `!=`, `<`, `<=`, `>`, `>=`) and a value.
//! Versions are compared number by number, and a missing number is zero. Brands support `=` and
//! `!=` only, ignoring case. Alternatives are tried in order until one holds.
//! Source: NVIDIA, libnvidia-container, `src/cli/dsl.c` and `src/cli/configure.c`; NVIDIA Container
//! Toolkit, `internal/requirements`.
//! Limits: some versions of the toolkit reject a malformed term and others skip it, so the result
//! is [`ImageError::Unclear`] if it depends on such a term. The same applies to a property that
//! this machine does not report, for which the toolkit assumes that the term holds.

use std::cmp::Ordering;
use std::fmt;

/// The known properties of a machine and of one of its GPUs, which conditions refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The newest CUDA version that the driver supports, such as `11.6`.
    pub cuda: Option<String>,
    /// The driver's version, such as `510.47.03`.
    pub driver: Option<String>,
    /// The GPU's compute capability, such as `7.5`.
    pub arch: Option<String>,
    /// The GPU's brand, such as `tesla`.
    pub brand: Option<String>,
}

/// The reason why a container does not start, or why the outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No alternative of the image's condition holds.
    #[error(
        "image requirement not met ({host}; expected {asked}{}): use an image for an earlier \
         CUDA version, or update the driver",
        or_others(*n_others)
    )]
    Unmet {
        /// The first alternative, which the container toolkit names.
        asked: String,
        /// Number of further alternatives.
        n_others: usize,
        /// Properties of this machine.
        host: Box<Host>,
    },
    /// The outcome is unknown, because it depends on terms that cannot be evaluated.
    #[error(
        "cannot determine whether the image starts: {} is unknown on {host}",
        terms.join(" and ")
    )]
    Unclear {
        /// The terms that cannot be evaluated.
        terms: Vec<String>,
        /// Properties of this machine.
        host: Box<Host>,
    },
}

/// The result of evaluating a term.
enum Outcome {
    Holds,
    Fails,
    /// The value of the property on this machine is unknown.
    Unknown,
    /// The term is malformed.
    Malformed,
}

/// Checks whether a container whose image has this condition starts. An empty condition always
/// holds.
///
/// # Errors
/// [`ImageError::Unmet`] if no alternative holds; [`ImageError::Unclear`] if the result depends on
/// terms that cannot be evaluated.
///
/// # Examples
/// ```
/// use telemetry::doctor::image::{Host, starts};
///
/// let host = Host {
///     cuda: Some("11.4".into()),
///     driver: Some("470.57.02".into()),
///     brand: Some("tesla".into()),
///     ..Host::default()
/// };
/// assert!(starts("cuda>=12.2", &host).is_err());
/// assert!(starts("cuda>=12.2 brand=tesla,driver>=470,driver<471", &host).is_ok());
/// ```
pub fn starts(condition: &str, host: &Host) -> Result<(), ImageError> {
    let alternatives: Vec<&str> = parts(condition, ' ').collect();
    let Some(asked) = alternatives.first() else {
        return Ok(());
    };
    let (mut malformed, mut open) = (vec![], vec![]);
    for alternative in &alternatives {
        let (mut unknown, mut fails) = (vec![], false);
        for term in parts(alternative, ',') {
            match evaluate(term, host) {
                Outcome::Holds => {}
                Outcome::Fails => {
                    fails = true;
                    break;
                }
                Outcome::Unknown => unknown.push(term),
                Outcome::Malformed => {
                    malformed.push(term.to_owned());
                    unknown.push(term);
                }
            }
        }
        if fails {
            continue;
        }
        if unknown.is_empty() {
            // This alternative holds, but some versions of the toolkit stop at an earlier malformed
            // term, so the outcome is clear only if there was none.
            return unless_open(malformed, host).map_or(Ok(()), Err);
        }
        for term in unknown {
            if !open.iter().any(|seen| seen == term) {
                open.push(term.to_owned());
            }
        }
    }
    Err(
        unless_open(open, host).unwrap_or_else(|| ImageError::Unmet {
            asked: (*asked).to_owned(),
            n_others: alternatives.len() - 1,
            host: Box::new(host.clone()),
        }),
    )
}

/// Returns [`ImageError::Unclear`] with these terms, or `None` if there are no terms.
fn unless_open(terms: Vec<String>, host: &Host) -> Option<ImageError> {
    let host = Box::new(host.clone());
    (!terms.is_empty()).then_some(ImageError::Unclear { terms, host })
}

fn or_others(n_others: usize) -> String {
    match n_others {
        0 => String::new(),
        1 => " or another alternative".to_owned(),
        n => format!(" or one of {n} alternatives"),
    }
}

fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).filter(|part| !part.is_empty())
}

/// Evaluates one term, such as `driver>=470`.
fn evaluate(term: &str, host: &Host) -> Outcome {
    const OPERATORS: [char; 4] = ['<', '>', '=', '!'];
    let (name, rest) = term.split_at(term.find(OPERATORS).unwrap_or(term.len()));
    let value = rest.trim_start_matches(OPERATORS);
    let operator = &rest[..rest.len() - value.len()];
    if value.is_empty() {
        return Outcome::Malformed;
    }
    let has = match name.to_ascii_lowercase().as_str() {
        "brand" => return of_brand(host.brand.as_deref(), operator, value),
        "cuda" => &host.cuda,
        "driver" => &host.driver,
        "arch" => &host.arch,
        _ => return Outcome::Malformed,
    };
    let Some(asked) = numbers(value) else {
        return Outcome::Malformed;
    };
    let Some(has) = has.as_deref().and_then(numbers) else {
        return Outcome::Unknown;
    };
    let order = has.cmp(&asked);
    either(match operator {
        "=" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        ">=" => order != Ordering::Less,
        _ => return Outcome::Malformed,
    })
}

fn of_brand(has: Option<&str>, operator: &str, asked: &str) -> Outcome {
    let Some(has) = has else {
        return Outcome::Unknown;
    };
    let is_it = has.eq_ignore_ascii_case(asked);
    either(match operator {
        "=" => is_it,
        "!=" => !is_it,
        _ => return Outcome::Malformed,
    })
}

fn either(holds: bool) -> Outcome {
    if holds {
        Outcome::Holds
    } else {
        Outcome::Fails
    }
}

/// Parses a version into its numbers, without trailing zeros, so that `11.6` equals `11.6.0`.
///
/// Returns `None` if a part is not a number, or if there is no part.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let mut numbers: Vec<u64> = parts(version, '.')
        .map(|part| {
            part.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then_some(part)?
                .parse()
                .ok()
        })
        .collect::<Option<_>>()?;
    if numbers.is_empty() {
        return None;
    }
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        let [cuda, driver] = [&self.cuda, &self.driver].map(or_unknown);
        let [arch, brand] = [&self.arch, &self.brand].map(or_unknown);
        write!(
            f,
            "CUDA {cuda}, driver {driver}, arch {arch}, brand {brand}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requirement of NVIDIA's CUDA 12.2 image, with some of its brands left out.
    const CUDA_12_2: &str = "cuda>=12.2 brand=tesla,driver>=450,driver<451 \
        brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 \
        brand=geforce,driver>=470,driver<471 brand=tesla,driver>=525,driver<526 \
        brand=geforce,driver>=525,driver<526";

    fn host(cuda: &str, driver: &str, brand: Option<&str>) -> Host {
        Host {
            cuda: Some(cuda.into()),
            driver: Some(driver.into()),
            arch: Some("7.5".into()),
            brand: brand.map(str::to_owned),
        }
    }

    fn t4() -> Host {
        host("11.6", "510.47.03", Some("tesla"))
    }

    #[test]
    fn one_alternative_that_holds_is_enough() {
        for (cuda, driver, brand, is_fine) in [
            ("11.6", "510.47.03", "tesla", false),
            ("12.2", "535.54.03", "tesla", true),
            ("13.0", "580.65.06", "nvidia", true),
            ("11.4", "470.57.02", "Tesla", true),
            ("11.4", "470.57.02", "quadro", false),
            ("11.4", "471.0", "tesla", false),
            ("12.0", "525.60.13", "geforce", true),
        ] {
            let found = starts(CUDA_12_2, &host(cuda, driver, Some(brand)));
            assert_eq!(found.is_ok(), is_fine, "{cuda} {driver} {brand}");
        }
    }

    #[test]
    fn a_rejection_names_what_the_container_toolkit_names() {
        let error = starts(CUDA_12_2, &t4()).unwrap_err();
        let expected = ImageError::Unmet {
            asked: "cuda>=12.2".into(),
            n_others: 6,
            host: Box::new(t4()),
        };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("driver 510.47.03"), "{error}");
    }

    #[test]
    fn every_operator_compares_versions_number_by_number() {
        for (term, holds) in [
            ("driver=510.47.3", true),
            ("driver=510.47", false),
            ("driver!=510.47", true),
            ("driver>510.47", true),
            ("driver>=510.47.03", true),
            ("driver>510.47.03", false),
            ("driver<=510.47.03", true),
            ("driver<510.47.03", false),
            ("driver<510.100", true),
            ("cuda=11.6.0", true),
            ("cuda<=11", false),
            ("arch>=7.5", true),
            ("arch<7", false),
            ("CUDA>=11.6", true),
            ("brand!=Tesla", false),
            ("brand!=quadro", true),
            ("cuda>=11,arch>=8", false),
            ("cuda>=11,arch>=7", true),
        ] {
            assert_eq!(starts(term, &t4()).is_ok(), holds, "{term}");
        }
    }

    #[test]
    fn what_is_not_known_is_said_and_not_guessed() {
        let unclear =
            |condition: &str, host: &Host, expected: &[&str]| match starts(condition, host) {
                Err(ImageError::Unclear { terms, .. }) => {
                    assert_eq!(terms, expected, "{condition}")
                }
                other => panic!("{condition}: {other:?}"),
            };
        let brandless = host("11.4", "470.57.02", None);
        unclear(
            CUDA_12_2,
            &brandless,
            &["brand=tesla", "brand=unknown", "brand=geforce"],
        );
        unclear("arch>=7", &Host::default(), &["arch>=7"]);
        for malformed in [
            "vram>=16",
            "cuda",
            "cuda>=",
            "cuda=>11",
            "cuda==11.6",
            "cuda>=eleven",
            "cuda>=-1",
            ">=11",
            "brand>a",
            "cuda>=.",
        ] {
            unclear(malformed, &t4(), &[malformed]);
            unclear(&format!("{malformed} cuda>=11"), &t4(), &[malformed]);
            assert_eq!(starts(&format!("cuda>=11 {malformed}"), &t4()), Ok(()));
            let rejected = starts(&format!("{malformed},cuda>=12"), &t4());
            assert!(
                matches!(rejected, Err(ImageError::Unmet { .. })),
                "{rejected:?}"
            );
        }
    }

    #[test]
    fn what_is_not_known_does_not_matter_where_something_else_decides() {
        let brandless = host("12.2", "535.54.03", None);
        assert_eq!(starts(CUDA_12_2, &brandless), Ok(()));
        assert_eq!(starts("brand=tesla cuda>=12", &brandless), Ok(()));
        let rejected = starts(CUDA_12_2, &host("11.6", "510.47.03", None));
        assert!(
            matches!(rejected, Err(ImageError::Unmet { .. })),
            "{rejected:?}"
        );
        for nothing in ["", " ", ","] {
            assert_eq!(starts(nothing, &Host::default()), Ok(()));
        }
    }
}
