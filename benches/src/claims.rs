//! The claims ledger: what the sources say, what this machine finds, and a verdict that is computed, never typed in.
//!
//! Role: `cargo xtask verify` prints it. A claim is a few numbers as a source printed them; measuring is code beside
//! it; the verdict follows from both.
//! Method: a number printed with `d` decimals claims a value within half a unit of the last one; a limit claims any
//! value below it. Each claim also states the verdict that was found when it was entered: a run in which another
//! comes out has found a fault, of ours or of the earlier reading, and `verify` fails.

mod games;
mod normality;
mod telemetry;
mod tensors;

use anyhow::Result;
use serde::Serialize;

/// What a comparison of claim and measurement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every number lies within the claim's own rounding.
    Holds,
    /// At least one does not, but the claim as it is corrected holds.
    HoldsWithCorrection,
    /// At least one does not, and no correction saves the claim; what stands in its place, if anything, holds.
    DoesNotHold,
    /// Neither the claim nor what stands in its place holds: a fault of ours, which no claim expects.
    Unsettled,
    /// What it takes is not on this machine.
    NotMeasured,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Stable id: `s3.wichmann-hill`.
    pub id: &'static str,
    /// What the source says, in our words.
    pub claim: &'static str,
    /// What is true in its place, where it does not hold as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<&'static str>,
    /// The numbers of the claim, or of its correction.
    pub claimed: Vec<f64>,
    /// Ours; empty where they could not be measured.
    pub measured: Vec<f64>,
    /// What follows.
    pub verdict: Verdict,
    /// What followed when the claim was entered.
    pub expected: Verdict,
}

/// How the numbers of a claim are to be read.
#[derive(Clone, Copy)]
enum Reading {
    /// As printed, with so many decimals.
    Printed(i32),
    /// As limits that the measured values stay below.
    Below,
}

/// A claim before it is measured.
struct Claim {
    id: &'static str,
    claim: &'static str,
    claimed: &'static [f64],
    reading: Reading,
    correction: Option<Correction>,
    expected: Verdict,
    measure: Measure,
}

/// Measures the numbers of a claim; `None` where what it takes is not on this machine.
type Measure = fn() -> Result<Option<Vec<f64>>>;

/// What is true in place of a claim, and measured like one.
#[derive(Clone, Copy)]
struct Correction {
    claim: &'static str,
    /// What it leaves of the claim: [`Verdict::HoldsWithCorrection`] or [`Verdict::DoesNotHold`].
    verdict: Verdict,
    claimed: &'static [f64],
    reading: Reading,
    measure: Measure,
}

/// Measures every claim.
///
/// # Errors
/// A measurement that broke: that is a fault of ours, not a verdict on the claim.
pub fn ledger() -> Result<Vec<Entry>> {
    claims().map(Claim::settle).collect()
}

/// Every claim, source by source.
fn claims() -> impl Iterator<Item = &'static Claim> {
    let of_sources = [
        normality::CLAIMS,
        games::CLAIMS,
        telemetry::CLAIMS,
        tensors::CLAIMS,
    ];
    of_sources.into_iter().flatten()
}

impl Claim {
    fn settle(&self) -> Result<Entry> {
        let measured = (self.measure)()?;
        let entry = Entry {
            id: self.id,
            claim: self.claim,
            correction: None,
            claimed: self.claimed.to_vec(),
            verdict: match &measured {
                None => Verdict::NotMeasured,
                Some(measured) => judge(self.claimed, measured, self.reading),
            },
            measured: measured.unwrap_or_default(),
            expected: self.expected,
        };
        match &self.correction {
            Some(correction) if entry.verdict == Verdict::DoesNotHold => correction.settle(entry),
            _ => Ok(entry),
        }
    }
}

impl Correction {
    /// Takes the place of a claim that does not hold.
    fn settle(&self, entry: Entry) -> Result<Entry> {
        let measured = (self.measure)()?.unwrap_or_default();
        Ok(Entry {
            correction: Some(self.claim),
            claimed: self.claimed.to_vec(),
            verdict: match judge(self.claimed, &measured, self.reading) {
                Verdict::Holds => self.verdict,
                _ => Verdict::Unsettled,
            },
            measured,
            ..entry
        })
    }
}

fn judge(claimed: &[f64], measured: &[f64], reading: Reading) -> Verdict {
    let agrees = |(&claimed, &measured): (&f64, &f64)| match reading {
        // A hair more than the half: the printed decimal is itself a double.
        Reading::Printed(decimals) => {
            (claimed - measured).abs() <= 0.5 * 10_f64.powi(-decimals) * (1.0 + 1e-9)
        }
        Reading::Below => measured < claimed,
    };
    if claimed.len() == measured.len() && claimed.iter().zip(measured).all(agrees) {
        Verdict::Holds
    } else {
        Verdict::DoesNotHold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_claim_holds_within_the_rounding_of_its_last_decimal() {
        let printed =
            |claimed: &[f64], measured: &[f64], d| judge(claimed, measured, Reading::Printed(d));
        assert_eq!(printed(&[0.67], &[2.0 / 3.0], 2), Verdict::Holds);
        assert_eq!(printed(&[0.67], &[0.6751], 2), Verdict::DoesNotHold);
        assert_eq!(printed(&[0.67], &[f64::NAN], 2), Verdict::DoesNotHold);
        assert_eq!(printed(&[1.0, 2.0], &[1.0], 0), Verdict::DoesNotHold);
        assert_eq!(printed(&[1.0], &[], 0), Verdict::DoesNotHold);
    }

    #[test]
    fn a_limit_holds_below_it_and_never_for_nan() {
        assert_eq!(judge(&[1e-3], &[9e-4], Reading::Below), Verdict::Holds);
        assert_eq!(
            judge(&[1e-3], &[1e-3], Reading::Below),
            Verdict::DoesNotHold
        );
        assert_eq!(
            judge(&[1e-3], &[f64::NAN], Reading::Below),
            Verdict::DoesNotHold
        );
    }

    #[test]
    fn a_correction_counts_only_where_the_claim_does_not_hold_and_it_does() {
        let claim = |claimed: &'static [f64], corrected: &'static [f64], verdict| Claim {
            id: "half",
            claim: "it is so much",
            claimed,
            reading: Reading::Printed(1),
            correction: Some(Correction {
                claim: "it is another",
                verdict,
                claimed: corrected,
                reading: Reading::Printed(1),
                measure: || Ok(Some(vec![0.5])),
            }),
            expected: Verdict::Holds,
            measure: || Ok(Some(vec![0.5])),
        };
        for left in [Verdict::HoldsWithCorrection, Verdict::DoesNotHold] {
            let verdict =
                |claimed, corrected| claim(claimed, corrected, left).settle().unwrap().verdict;
            assert_eq!(verdict(&[0.5], &[2.0]), Verdict::Holds);
            assert_eq!(verdict(&[2.0], &[0.5]), left);
            assert_eq!(verdict(&[2.0], &[3.0]), Verdict::Unsettled);
        }
    }

    #[test]
    fn every_claim_is_settled_under_an_id_of_its_own() {
        let ledger = ledger().unwrap();
        let mut ids: Vec<_> = ledger.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), claims().count());
        for entry in ledger {
            assert_eq!(
                entry.measured.is_empty(),
                entry.verdict == Verdict::NotMeasured,
                "{entry:?}"
            );
            assert_ne!(entry.expected, Verdict::Unsettled, "{entry:?}");
        }
    }
}
