//! Numbered tasks with a journal, sums in a fixed order, and files of rows, on the ranks of an MPI
//! job.
//!
#![cfg_attr(feature = "mpi", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "mpi"),
    doc = "Without the feature `mpi`, the crate has journals, and reads files of rows."
)]
#![cfg_attr(
    not(feature = "mpi"),
    expect(dead_code, reason = "the ranks use these modules")
)]

pub use error::{Error, Result};
pub use journal::{Journal, MAX_RESULT_BYTES, Results, SYNC_INTERVAL};
#[cfg(feature = "mpi")]
pub use map::{Job, MAX_TASKS, Machine, Mapped, Progress};
#[cfg(feature = "mpi")]
pub use network::Network;
#[cfg(feature = "mpi")]
pub use ranks::{Cluster, LAUNCHER_SIZES, Member, Traffic, launched, library};
pub use rows::{RowFiles, read_rows};

#[cfg(feature = "mpi")]
mod all_reduce;
mod error;
mod journal;
#[cfg(feature = "mpi")]
mod map;
#[cfg(feature = "mpi")]
mod network;
mod queue;
#[cfg(feature = "mpi")]
mod ranks;
mod rows;
mod shards;
