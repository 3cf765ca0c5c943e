//! Every variant of CFR against the reference's 80-bit traces.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support;
use games::extensive::{CompiledGame, Kuhn, Leduc, LiarsDice};
use games::{Profile, Run, SolverConfig, Updates, nash_conv};
use serde_json::Value;
use tensor_core::compare::{Tolerance, assert_close};

/// Absolute tolerance for reference rows at which rounding has not yet decided ties between
/// regrets.
const GATE: f64 = 1e-9;
/// Allowed ratios to the reference at all other rows. The ratios of this test are from 0.889 to
/// 1.695; the last bits of `powf`, which some variants call, depend on the platform.
const ALLOWED_RATIOS: std::ops::Range<f64> = 0.85..1.75;

fn config(name: &str) -> SolverConfig {
    let (algorithm, updates) = name.split_once('/').unwrap();
    let config = match algorithm {
        "cfr" => SolverConfig::regret_matching(),
        "cfr+" => SolverConfig::regret_matching_plus(),
        "lcfr" => SolverConfig::linear(),
        "dcfr" => SolverConfig::discounted(1.5, 0.0, 2.0),
        "pcfr+" => SolverConfig::predictive_regret_matching_plus(),
        other => panic!("unknown algorithm in the reference: {other}"),
    };
    config.updates(match updates {
        "alternating" => Updates::Alternating,
        "simultaneous" => Updates::Simultaneous,
        other => panic!("unknown updates in the reference: {other}"),
    })
}

fn compiled(name: &str) -> CompiledGame {
    match name {
        "kuhn_poker" => CompiledGame::new(&Kuhn),
        "leduc_poker" => CompiledGame::new(&Leduc::new()),
        "liars_dice(dice_sides=3)" => CompiledGame::new(&LiarsDice::new(3, 1).unwrap()),
        "liars_dice(dice_sides=4)" => CompiledGame::new(&LiarsDice::new(4, 1).unwrap()),
        other => panic!("unknown game in the reference: {other}"),
    }
    .unwrap()
}

/// Compares NashConv with the reference at all rows of a variant. Returns the number of rows
/// compared.
fn check(game: &CompiledGame, name: &str, rows: &[Value]) -> usize {
    let config = config(name);
    let mut run = Run::new(game, &config).unwrap();
    let (mut ours, mut theirs) = (vec![], vec![]);
    for row in rows {
        let iteration = row["iteration"].as_u64().unwrap();
        run.advance(iteration - run.state().iteration);
        let found = nash_conv(game, &run.average()).unwrap();
        let expected = row["nash_conv"].as_f64().unwrap();
        if row["gate_1e9"] == true {
            ours.push(found);
            theirs.push(expected);
        } else {
            // Rounding decides ties at zero regret, so the course of the run differs.
            assert!(
                ALLOWED_RATIOS.contains(&(found / expected)),
                "{name} {iteration}: {found} {expected}"
            );
        }
    }
    assert_close(&ours, &theirs, Tolerance::exact().or_absolute(GATE));
    ours.len()
}

#[test]
fn every_variant_follows_the_reference() {
    let reference = support::reference();
    let mut n_gated = 0;
    for entry in reference["extensive_games"].as_array().unwrap() {
        let game = compiled(entry["game"].as_str().unwrap());
        for (name, rows) in entry["convergence"].as_object().unwrap() {
            n_gated += check(&game, name, rows.as_array().unwrap());
        }
    }
    assert_eq!(n_gated, 297);
}

fn uniform(game: &CompiledGame) -> Profile {
    Run::new(game, &SolverConfig::default()).unwrap().average()
}

#[test]
fn uniform_profiles_have_the_published_nash_conv() {
    for entry in support::reference()["extensive_games"].as_array().unwrap() {
        let game = compiled(entry["game"].as_str().unwrap());
        let found = nash_conv(&game, &uniform(&game)).unwrap();
        let expected = entry["uniform_nash_conv"].as_f64().unwrap();
        assert_close([found], [expected], Tolerance::exact().or_absolute(1e-14));
    }
}

#[test]
fn liars_dice_of_four_faces_follows_cfr_plus_as_published() {
    // The published values have 12 decimal places and were truncated, not rounded.
    let game = compiled("liars_dice(dice_sides=4)");
    let config = SolverConfig::regret_matching_plus();
    let mut run = Run::new(&game, &config).unwrap();
    let published = [
        (1, 1.310119047619),
        (10, 0.213123610117),
        (100, 0.004590428127),
        (1000, 0.000090664054),
    ];
    for (iteration, expected) in published {
        run.advance(iteration - run.state().iteration);
        let found = nash_conv(&game, &run.average()).unwrap();
        assert_close([found], [expected], Tolerance::exact().or_absolute(1e-12));
    }
}

#[test]
fn nash_conv_of_liars_dice_falls_as_one_over_the_iterations() {
    let game = compiled("liars_dice(dice_sides=3)");
    let mut run = Run::new(&game, &SolverConfig::regret_matching()).unwrap();
    for iteration in [20, 50, 100, 200, 500, 1000] {
        run.advance(iteration - run.state().iteration);
        let found = nash_conv(&game, &run.average()).unwrap();
        let expected = 1.692_485_180_050_863_4 / iteration as f64;
        assert_close([found], [expected], Tolerance::exact().or_absolute(1e-14));
    }
}
