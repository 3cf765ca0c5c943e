//! Short names of the levels of a network, such as `w2a2`.

use std::fmt;
use std::str::FromStr;

use super::{ActivationLevels, WeightLevels};
use crate::error::{Error, Result};

/// The levels of the weights and of the activations of a network.
///
/// ```text
/// float    floats
/// w1a2     LQ-Nets: 1 bit for weights, 2 bits for activations
/// u2a2     levels at equal distances
/// d1a2     DoReFa-Net
/// abc3a5   ABC-Net: 3 bases for weights, 5 for activations
/// ```
///
/// # Examples
/// ```
/// use quant::layers::{Levels, WeightLevels};
///
/// let levels: Levels = "w1a2".parse()?;
/// assert_eq!(levels.weights, WeightLevels::Lq { bits: 1 });
/// assert_eq!(levels.to_string(), "w1a2");
/// assert!("w9a9".parse::<Levels>().is_err());
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// The levels of the weights.
    pub weights: WeightLevels,
    /// The levels of the activations.
    pub activations: ActivationLevels,
}

impl FromStr for Levels {
    type Err = Error;

    /// # Errors
    /// [`Error::LevelsName`] for another text; [`Error::BitCount`] for an unsupported number of
    /// bits or bases.
    fn from_str(text: &str) -> Result<Self> {
        let levels = parsed(text).ok_or_else(|| Error::LevelsName {
            operation: "Levels::from_str",
            text: text.to_owned(),
        })?;
        levels.weights.check("Levels::from_str")?;
        levels.activations.check("Levels::from_str")?;
        Ok(levels)
    }
}

fn parsed(text: &str) -> Option<Levels> {
    if text == "float" {
        return Some(Levels::default());
    }
    let digit = text.find(|c: char| c.is_ascii_digit())?;
    let (kind, numbers) = text.split_at(digit);
    let (weights, activations) = numbers.split_once('a')?;
    let (w, a): (usize, usize) = (weights.parse().ok()?, activations.parse().ok()?);
    let (weights, activations) = match kind {
        "w" => (
            WeightLevels::Lq { bits: w },
            ActivationLevels::Lq { bits: a },
        ),
        "u" => (
            WeightLevels::Uniform { bits: w },
            ActivationLevels::Uniform { bits: a },
        ),
        "d" => (
            WeightLevels::DoReFa { bits: w },
            ActivationLevels::DoReFa { bits: a },
        ),
        "abc" => (
            WeightLevels::Abc { bases: w },
            ActivationLevels::Abc { bases: a },
        ),
        _ => return None,
    };
    Some(Levels {
        weights,
        activations,
    })
}

/// Writes the short name, or both kinds of levels if they are of different kinds.
impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use {ActivationLevels as A, WeightLevels as W};
        match (self.weights, self.activations) {
            (W::Float, A::Relu) => f.write_str("float"),
            (W::Lq { bits: w }, A::Lq { bits: a }) => write!(f, "w{w}a{a}"),
            (W::Uniform { bits: w }, A::Uniform { bits: a }) => write!(f, "u{w}a{a}"),
            (W::DoReFa { bits: w }, A::DoReFa { bits: a }) => write!(f, "d{w}a{a}"),
            (W::Abc { bases: w }, A::Abc { bases: a }) => write!(f, "abc{w}a{a}"),
            (weights, activations) => write!(f, "{weights}, {activations}"),
        }
    }
}
