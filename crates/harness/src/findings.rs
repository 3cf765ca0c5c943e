//! Results of a row other than times: named numbers, wrong samples, and a place in a chart.
//!
//! Role: carries the quality of a trained net from the workload to the report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of a row other than times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Findings {
    /// Numbers by name, such as `packed_bytes`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// Indices of the test samples that a trained net classifies wrongly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<u32>,
    /// Seed of the training: nets with the same seed are compared with each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Place of the row's test error in the chart of all sizes of the workload, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_point: Option<ChartPoint>,
}

/// The place of a test error in the chart of all sizes of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChartPoint {
    /// Name of the panel, such as a data set.
    pub panel: String,
    /// Name of the series: rows that differ in their seeds or in their positions share it.
    pub series: String,
    /// Position on the x axis; absent for a reference, which is drawn as a horizontal line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Label of the x axis.
    pub x_label: String,
    /// Published accuracy of a similar net, as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
}
