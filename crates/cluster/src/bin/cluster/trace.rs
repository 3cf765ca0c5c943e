//! Power and energy of all hosts while a command runs.
//!
//! Method: the first rank of each host samples the sensors of the host into a trace of its own, so
//! no device is sampled twice. At the end rank 0 adds the energies.

use std::fs;
use std::path::{Path, PathBuf};

use super::agree;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use cluster::Cluster;
use serde::{Deserialize, Serialize};
use telemetry::format::{Dialect, Writer};
use telemetry::nvml::Nvml;
use telemetry::{POST_ROLL, Running, Sampler, SpanReport};

/// The operation in messages of errors.
const OPERATION: &str = "trace";

/// The options of traces.
#[derive(Args, Debug)]
pub(super) struct TraceOptions {
    /// Sample power and energy on each host into FOLDER/HOST.csv, which the program `trace` reads;
    /// the results contain the energy of all hosts
    #[arg(id = "trace", long = "trace", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// NVML library of --trace [default: that of the system]
    #[arg(long, value_name = "FILE", requires = "trace")]
    nvml: Option<PathBuf>,
}

/// The sampling of this rank's host, if this rank is the first one of the host.
#[derive(Debug)]
pub(super) struct Tracing(Option<Running>);

/// The energy of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TotalEnergy {
    pub(super) joules: f64,
    /// The sum of the lower, and of the upper ends of the error intervals.
    pub(super) interval: [f64; 2],
}

impl Tracing {
    /// Starts to sample on all hosts.
    pub(super) fn start(options: &TraceOptions, cluster: &Cluster) -> Result<Self> {
        let member = cluster.member();
        let started = match &options.folder {
            Some(folder) if member.local_rank == 0 => {
                sampler(options, folder, &member.host).map(Some)
            }
            _ => Ok(None),
        };
        Ok(Self(agree(cluster, started)?))
    }

    /// Ends the traces. Returns the energy of all hosts on all ranks; `None` without traces, or if
    /// the sensors of a host report no energy.
    pub(super) fn end(self, cluster: &Cluster) -> Result<Option<TotalEnergy>> {
        let own = match self.0 {
            // The outer `None` is a rank that does not sample.
            None => Ok(None),
            Some(running) => energy(running).map(Some),
        };
        let own = agree(cluster, own)?;
        let all = cluster.exchange(OPERATION, &own)?;
        let of_hosts: Vec<_> = all.into_iter().flatten().collect();
        if of_hosts.is_empty() {
            return Ok(None);
        }
        let mut total = TotalEnergy::default();
        for of_host in of_hosts {
            let Some(energy) = of_host else {
                return Ok(None);
            };
            total.joules += energy.joules;
            total.interval[0] += energy.interval[0];
            total.interval[1] += energy.interval[1];
        }
        Ok(Some(total))
    }
}

/// Starts to sample the sensors of this host: those of NVIDIA GPUs or else of the CPUs.
fn sampler(options: &TraceOptions, folder: &Path, host: &str) -> Result<Running> {
    let sampler = match &options.nvml {
        // An explicitly named library has no fallback.
        Some(library) => Sampler::new(Nvml::open_at(library)?),
        None => Sampler::open().with_context(|| format!("host {host}"))?,
    };
    let shown = folder.display();
    fs::create_dir_all(folder)
        .with_context(|| format!("trace: cannot create the folder {shown}"))?;
    let file = Writer::create(Dialect::Csv, &folder.join(format!("{host}.csv")))?;
    Ok(sampler.with_sink(file).start()?)
}

/// Ends a trace. Returns its energy, if the sensors report it.
fn energy(running: Running) -> Result<Option<TotalEnergy>> {
    let end = running.now();
    // The sensors' next updates describe the end of the work.
    std::thread::sleep(POST_ROLL);
    let report: SpanReport = running.report("job", std::time::Duration::ZERO..end);
    let failures = running.stop().failures;
    if let Some(failure) = failures.first() {
        bail!("sampling failed: {failure}");
    }
    Ok(report
        .joules()
        .zip(report.interval())
        .map(|(joules, interval)| TotalEnergy {
            joules,
            interval: [interval.low_j, interval.high_j],
        }))
}
