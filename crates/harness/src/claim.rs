//! An entry of the claims ledger: a claim of a source document, what was measured, and the verdict.
//!
//! Role: the form in which a program prints the ledger, and a record stores it for the report. The
//! claims and their measurements belong to the program.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::sources::{self, Source};

/// Result of comparing a claim with its measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every measured number agrees with the claim: it is within the rounding of the printed
    /// number, or below the claimed limit.
    Holds,
    /// At least one measured number disagrees with the claim, but a corrected form of the claim
    /// holds.
    HoldsWithCorrection,
    /// At least one measured number disagrees with the claim, and no correction saves the claim. If
    /// the claim has a replacement statement, that statement holds.
    DoesNotHold,
    /// Neither the claim nor its replacement holds. No claim expects this verdict, so a run with
    /// this verdict indicates an error in our code.
    Unsettled,
    /// The measurement is not possible on this machine.
    NotMeasured,
}

/// A claim with its measurement and verdict.
///
/// A line that the program `claims` printed deserializes to the entry that it was printed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Stable id, which begins with the id of the source document in lower case:
    /// `s3.wichmann-hill.state`.
    pub id: Cow<'static, str>,
    /// Statement of the source document ([`sources`]), in our words.
    pub claim: Cow<'static, str>,
    /// Correction or replacement of the claim; present only if the claim does not hold as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<Cow<'static, str>>,
    /// Numbers of the claim or, if `correction` is present, of the correction.
    pub claimed: Vec<f64>,
    /// Measured numbers, one for each number in `claimed`; empty if they could not be measured.
    #[serde(deserialize_with = "numbers")]
    pub measured: Vec<f64>,
    /// Verdict of this run.
    pub verdict: Verdict,
    /// Verdict that was found when the claim was added to the ledger.
    pub expected: Verdict,
}

impl Entry {
    /// Returns the source document of the claim; `None` if the id begins with no id of a document.
    #[must_use]
    pub fn source(&self) -> Option<&'static Source> {
        let (prefix, _) = self.id.split_once('.')?;
        sources::ALL
            .iter()
            .find(|source| source.id.to_lowercase() == prefix)
    }
}

/// Reads numbers; JSON has `null` in place of one that is not finite.
fn numbers<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(from)?;
    let numbers = numbers.into_iter();
    Ok(numbers.map(|number| number.unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_finite_does_not_spoil_an_entry() {
        let entry = Entry {
            id: "s2.fusion".into(),
            claim: "a claim".into(),
            correction: None,
            claimed: vec![1.0],
            measured: vec![f64::NAN, 2.0],
            verdict: Verdict::DoesNotHold,
            expected: Verdict::Holds,
        };
        let text = serde_json::to_string(&entry).unwrap();
        let read: Entry = serde_json::from_str(&text).unwrap();
        assert!(read.measured[0].is_nan() && read.measured[1] == 2.0);
        assert_eq!(read.source().map(|source| source.id), Some("S2"));
    }
}
