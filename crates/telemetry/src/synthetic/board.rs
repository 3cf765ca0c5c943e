//! Descriptions of six common GPU boards, for use in scenarios.
//!
//! Role: consistent identities, clocks and limits, so that a test names a board and changes only
//! the values under test.
//! Source: NVIDIA's data sheets of the boards. Clocks and power of the P100: Tang et al. 2019, "The
//! impact of GPU DVFS on the energy and performance of deep learning". `P = 56.18 + 1.776e-11 f⁴` W
//! and `2.346e-3 + 7.677 / f` s per image, with f in MHz, fit its table of an image-classification
//! network.
//! Limits: idle and load power have the right order of magnitude only.

use super::{
    Architecture, BoardLimits, ClockModel, Gpu, Memory, Pcie, PowerProfile, Quantity, Reporting,
    Scopes, Sensors, Thermal, Utilisation,
};
use serde::{Deserialize, Serialize};

/// A GPU board model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Board {
    /// Tesla P100 with 16 GB, PCI Express.
    P100,
    /// Tesla V100 with 16 GB, SXM2.
    V100,
    /// Tesla T4.
    T4,
    /// A100 with 40 GB, SXM4.
    A100,
    /// RTX 3090 with 24 GB.
    Rtx3090,
    /// H100 with 80 GB, SXM5.
    H100,
}

/// Temperature rise above ambient at the load power, in °C.
const LOAD_RISE_C: f64 = 45.0;

/// The properties in which the boards differ.
struct Sheet {
    name: &'static str,
    architecture: Architecture,
    compute_capability: (u32, u32),
    n_cores: u32,
    memory_bus_bits: u32,
    memory_gib: u64,
    sm_mhz: Vec<u32>,
    memory_mhz: u32,
    /// Lowest, default and highest power limit, in W.
    limits_w: [f64; 3],
    /// Power when idle and under load, in W.
    draws_w: [f64; 2],
    /// Time between two updates of utilisation, in s.
    busy_update_s: f64,
}

impl Board {
    /// All boards, oldest first.
    pub const ALL: [Self; 6] = [
        Self::P100,
        Self::V100,
        Self::T4,
        Self::A100,
        Self::Rtx3090,
        Self::H100,
    ];

    /// Returns the properties of this board.
    fn sheet(self) -> Sheet {
        match self {
            Self::P100 => Sheet {
                name: "Tesla P100-PCIE-16GB",
                architecture: Architecture::Pascal,
                compute_capability: (6, 0),
                n_cores: 3584,
                memory_bus_bits: 4096,
                memory_gib: 16,
                sm_mhz: vec![1328, 1202, 1063, 936, 810, 683, 544],
                memory_mhz: 715,
                limits_w: [125.0, 250.0, 250.0],
                draws_w: [56.18, 111.42],
                busy_update_s: 1.0 / 6.0,
            },
            Self::V100 => Sheet {
                name: "Tesla V100-SXM2-16GB",
                architecture: Architecture::Volta,
                compute_capability: (7, 0),
                n_cores: 5120,
                memory_bus_bits: 4096,
                memory_gib: 16,
                sm_mhz: steps(1530, 135),
                memory_mhz: 877,
                limits_w: [150.0, 300.0, 300.0],
                draws_w: [40.0, 250.0],
                busy_update_s: 1.0 / 6.0,
            },
            Self::T4 => Sheet {
                name: "Tesla T4",
                architecture: Architecture::Turing,
                compute_capability: (7, 5),
                n_cores: 2560,
                memory_bus_bits: 256,
                memory_gib: 15,
                sm_mhz: steps(1590, 300),
                memory_mhz: 5001,
                limits_w: [60.0, 70.0, 70.0],
                draws_w: [28.0, 68.0],
                busy_update_s: 1.0 / 6.0,
            },
            Self::A100 => Sheet {
                name: "NVIDIA A100-SXM4-40GB",
                architecture: Architecture::Ampere,
                compute_capability: (8, 0),
                n_cores: 6912,
                memory_bus_bits: 5120,
                memory_gib: 40,
                sm_mhz: steps(1410, 210),
                memory_mhz: 1215,
                limits_w: [100.0, 400.0, 400.0],
                draws_w: [55.0, 350.0],
                busy_update_s: 1.0,
            },
            Self::Rtx3090 => Sheet {
                name: "NVIDIA GeForce RTX 3090",
                architecture: Architecture::Ampere,
                compute_capability: (8, 6),
                n_cores: 10_496,
                memory_bus_bits: 384,
                memory_gib: 24,
                sm_mhz: steps(2100, 210),
                memory_mhz: 9751,
                limits_w: [100.0, 350.0, 366.0],
                draws_w: [30.0, 340.0],
                busy_update_s: 0.2,
            },
            Self::H100 => Sheet {
                name: "NVIDIA H100 80GB HBM3",
                architecture: Architecture::Hopper,
                compute_capability: (9, 0),
                n_cores: 16_896,
                memory_bus_bits: 5120,
                memory_gib: 80,
                sm_mhz: steps(1980, 345),
                memory_mhz: 2619,
                limits_w: [200.0, 700.0, 700.0],
                draws_w: [70.0, 600.0],
                busy_update_s: 1.0,
            },
        }
    }
}

impl Gpu {
    /// Creates the description of a board under a square-wave load: two seconds busy, two seconds
    /// idle.
    #[must_use]
    pub fn from_board(board: Board) -> Self {
        let sheet = board.sheet();
        let (period_s, duty) = (4.0, 0.5);
        let gib = f64::from(1 << 30);
        let [idle_w, busy_w] = sheet.draws_w;
        let [min_w, default_w, max_w] = sheet.limits_w;
        Self {
            name: sheet.name.to_owned(),
            uuid: None,
            pci: None,
            architecture: sheet.architecture,
            compute_capability: sheet.compute_capability,
            n_cores: sheet.n_cores,
            memory_bus_bits: sheet.memory_bus_bits,
            memory: Memory {
                total_bytes: sheet.memory_gib << 30,
                reserved_bytes: 256 << 20,
                used_bytes: Quantity::Constant(2.0 * gib),
            },
            power: PowerProfile::square(idle_w, busy_w, period_s, duty),
            clocks: ClockModel {
                idle_sm_mhz: sheet.sm_mhz.last().copied().unwrap_or(0),
                sm_mhz: sheet.sm_mhz,
                memory_mhz: vec![sheet.memory_mhz],
                static_w: idle_w,
                exponent: 4.0,
                fixed_s: 2.346e-3,
                megacycles: 7.677,
            },
            limits: BoardLimits {
                min_w,
                default_w,
                max_w,
            },
            sensors: Sensors::default(),
            scopes: Scopes::default(),
            counter: Reporting::AsBuilt,
            utilisation: Utilisation {
                gpu_pct: Quantity::square(0.0, 100.0, period_s, duty),
                memory_pct: Quantity::square(0.0, 40.0, period_s, duty),
                update_s: sheet.busy_update_s,
            },
            thermal: Thermal {
                rise_c_per_w: LOAD_RISE_C / busy_w,
                ..Thermal::default()
            },
            pcie: Pcie::default(),
            persistence: true,
            mig: false,
            processes: vec![],
        }
    }
}

/// Returns the clocks from the highest to the lowest in steps of 15 MHz, the step of NVIDIA's GPUs.
fn steps(top_mhz: u32, bottom_mhz: u32) -> Vec<u32> {
    (bottom_mhz..=top_mhz).rev().step_by(15).collect()
}
