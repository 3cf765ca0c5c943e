//! The claims ledger: each claim of the source documents with its verdict.
//!
//! Role: the section of the report after the workloads.

use std::fmt::Write;

use charts::{Ink, escape, units};

use crate::claim::{Entry, Verdict};
use crate::sources;

/// Maximum number of shown numbers of a claim.
const MOST_NUMBERS: usize = 4;

/// Returns the folded section; empty without a ledger.
pub(super) fn section(claims: &[Entry]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let counts = VERDICTS.map(|(verdict, name, ink)| {
        let n = claims
            .iter()
            .filter(|entry| entry.verdict == verdict)
            .count();
        (n > 0).then(|| format!("<span class=\"ink-{}\">{n} {name}</span>", ink.name()))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let mut html = format!(
        "<section id=\"claims\">\n<h2>Claims of the sources</h2>\n<p class=\"muted\">Quantitative claims of the \
         four source documents, each evaluated in this run, by a measurement or from the source's own numbers: {}.</p>\n",
        counts.join(", ")
    );
    for source in sources::ALL {
        let own = claims
            .iter()
            .filter(|entry| entry.source().is_some_and(|own| own.id == source.id));
        let own: Vec<&Entry> = own.collect();
        if own.is_empty() {
            continue;
        }
        let (title, n) = (escape(source.title), own.len());
        let _ = write!(
            html,
            "<details class=\"workload\"><summary><h3>{title}</h3> <small>{n} claims</small></summary>\n\
             <table class=\"stack\">\n<thead><tr><th scope=\"col\">claim</th><th scope=\"col\" class=\"number\">claimed</th>\
             <th scope=\"col\" class=\"number\">measured</th><th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n"
        );
        own.into_iter().for_each(|entry| html += &row(entry));
        html += "</tbody>\n</table>\n</details>\n";
    }
    html + "</section>\n"
}

/// Verdicts with their names and colours, in the order of the counts.
const VERDICTS: [(Verdict, &str, Ink); 5] = [
    (Verdict::Holds, "hold", Ink::Faster),
    (
        Verdict::HoldsWithCorrection,
        "hold with a correction",
        Ink::Cpu,
    ),
    (Verdict::DoesNotHold, "do not hold", Ink::Slower),
    (Verdict::NotMeasured, "were not measured", Ink::Muted),
    (Verdict::Unsettled, "are unsettled", Ink::Alarm),
];

fn row(entry: &Entry) -> String {
    let (verdict, ink) = match entry.verdict {
        Verdict::Holds => ("holds", Ink::Faster),
        Verdict::HoldsWithCorrection => ("holds with a correction", Ink::Cpu),
        Verdict::DoesNotHold => ("does not hold", Ink::Slower),
        Verdict::NotMeasured => ("not measured here", Ink::Muted),
        Verdict::Unsettled => ("unsettled", Ink::Alarm),
    };
    let correction = entry
        .correction
        .as_ref()
        .map_or_else(String::new, |correction| {
            format!("<small>Correction: {}.</small>", escape(correction))
        });
    let surprise = if entry.verdict == entry.expected || entry.verdict == Verdict::NotMeasured {
        ""
    } else {
        " (not expected)"
    };
    let [id, claim] = [&entry.id, &entry.claim].map(|text| escape(text));
    let [claimed, measured] = [&entry.claimed, &entry.measured].map(|list| escape(&numbers(list)));
    format!(
        "<tr><td><code>{id}</code><br>{claim}.{correction}</td>\
         <td class=\"number\" data-label=\"claimed\">{claimed}</td>\
         <td class=\"number\" data-label=\"measured\">{measured}</td>\
         <td class=\"ink-{}\">{verdict}{surprise}</td></tr>\n",
        ink.name()
    )
}

/// Formats the first numbers of a list.
fn numbers(numbers: &[f64]) -> String {
    if numbers.is_empty() {
        return units::ABSENT.to_owned();
    }
    let shown = numbers
        .iter()
        .take(MOST_NUMBERS)
        .map(|&number| units::digits(number));
    let mut text = shown.collect::<Vec<_>>().join("; ");
    if numbers.len() > MOST_NUMBERS {
        let _ = write!(text, "; and {} more", numbers.len() - MOST_NUMBERS);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_row_with_its_verdict() {
        let entry = |id: &'static str, verdict| Entry {
            id: id.into(),
            claim: "a <b>".into(),
            correction: Some("c".into()),
            claimed: vec![1.0; 6],
            measured: vec![],
            verdict,
            expected: Verdict::Holds,
        };
        let claims = [
            entry("s0.a", Verdict::Holds),
            entry("s0.b", Verdict::DoesNotHold),
            entry("s3.c", Verdict::NotMeasured),
        ];
        let html = section(&claims);
        assert_eq!(html.matches("<code>").count(), 3);
        assert!(html.contains("1 hold</span>") && html.contains("does not hold (not expected)"));
        assert!(html.contains("a &lt;b&gt;") && html.contains("and 2 more"));
        assert_eq!(section(&[]), "");
    }
}
