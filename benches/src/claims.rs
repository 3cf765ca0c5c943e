//! The claims ledger: claims of the source documents, what this machine measures, and a computed
//! verdict.
//!
//! Role: printed by `cargo xtask verify`. A claim consists of numbers as printed in a document
//! ([`harness::sources`]); the measurement is code next to it; the verdict is computed from both.
//! Method: a number printed with `d` decimals claims a value within half a unit of the last
//! decimal; a limit claims any smaller value. Each claim also states its expected verdict, the one
//! found when it was entered. A run with another verdict indicates an error in our code or in the
//! earlier evaluation, and `verify` fails.

mod drawing;
mod evaluation;
mod games;
mod kernels;
mod matmul;
mod normality;
mod profiling;
mod quant;
mod similarity;
mod telemetry;
mod timing;

use anyhow::Result;

pub use harness::claim::{Entry, Verdict};

/// Interpretation of the numbers of a claim.
#[derive(Clone, Copy)]
enum Reading {
    /// Numbers as printed, with this many decimals.
    Printed(i32),
    /// Upper limits that the measured values must stay below.
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

/// A function that returns the measured numbers of a claim, or `None` if they cannot be measured on
/// this machine.
type Measure = fn() -> Result<Option<Vec<f64>>>;

/// A corrected or replaced statement with its own numbers, used if the claim itself does not hold.
#[derive(Clone, Copy)]
struct Correction {
    claim: &'static str,
    /// Verdict on the claim if this statement holds: [`Verdict::HoldsWithCorrection`] or
    /// [`Verdict::DoesNotHold`].
    verdict: Verdict,
    claimed: &'static [f64],
    reading: Reading,
    measure: Measure,
}

/// Measures every claim.
///
/// # Errors
/// A measurement failed. This is an error of ours, not a verdict on the claim.
pub fn ledger() -> Result<Vec<Entry>> {
    claims().map(Claim::settle).collect()
}

/// Returns all claims, grouped by topic.
fn claims() -> impl Iterator<Item = &'static Claim> {
    let of_sources = [
        normality::CLAIMS,
        games::CLAIMS,
        telemetry::CLAIMS,
        drawing::CLAIMS,
        similarity::CLAIMS,
        quant::CLAIMS,
        kernels::CLAIMS,
        evaluation::CLAIMS,
        profiling::CLAIMS,
        matmul::CLAIMS,
    ];
    of_sources.into_iter().flatten()
}

impl Claim {
    fn settle(&self) -> Result<Entry> {
        let measured = (self.measure)()?;
        let entry = Entry {
            id: self.id.into(),
            claim: self.claim.into(),
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
    /// Measures the correction, and returns the entry with the statement, numbers and verdict of
    /// the correction.
    fn settle(&self, entry: Entry) -> Result<Entry> {
        let measured = (self.measure)()?.unwrap_or_default();
        Ok(Entry {
            correction: Some(self.claim.into()),
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
        // The factor tolerates the rounding of the printed decimal to a double.
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
            claim: "the value is as claimed",
            claimed,
            reading: Reading::Printed(1),
            correction: Some(Correction {
                claim: "the value is another",
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
    fn an_id_without_the_prefix_of_a_document_has_no_source() {
        let of = |id: &str| {
            let line = format!(
                r#"{{"id":"{id}","claim":"","claimed":[],"measured":[],"verdict":"holds","expected":"holds"}}"#
            );
            serde_json::from_str::<Entry>(&line).unwrap().source()
        };
        assert_eq!(of("s2.fusion").map(|source| source.id), Some("S2"));
        assert_eq!(
            (of("s9.fusion"), of("fusion"), of("s2")),
            (None, None, None)
        );
    }

    #[test]
    fn every_claim_is_settled_under_an_id_of_its_own() {
        let ledger = ledger().unwrap();
        let mut ids: Vec<_> = ledger.iter().map(|entry| &entry.id).collect();
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
            assert!(entry.source().is_some(), "{entry:?}");
            let line = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        }
    }
}
