//! Batches that several processes share.
//!
//! Role: [`Shards`], with which a [`Training`](super::Training) computes a part of each batch and
//! its caller supplies the sum over all parts, for example through messages between processes.

use std::fmt;
use std::ops::Range;

use tensor_core::Tensor;

use crate::error::{Error, Result, check};

/// A function that returns the sums of tensors over all shards, given those of the shards of this
/// process. An error is a message.
pub type ShardSum<'a> = Box<dyn FnMut(&[Vec<Tensor>]) -> Result<Vec<Tensor>, String> + 'a>;

/// The division of batches into shards, of which this process computes some.
///
/// All processes use equal arguments otherwise, and do the same update after each sum. If `sum`
/// adds in an order that depends on the number of shards alone, all processes compute the same
/// bits, whatever the number of processes.
pub struct Shards<'a> {
    n_shards: usize,
    own: Range<usize>,
    sum: ShardSum<'a>,
}

impl fmt::Debug for Shards<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards")
            .field("n_shards", &self.n_shards)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

impl<'a> Shards<'a> {
    /// Creates a division of each batch into `n_shards` equal shards, of which this process
    /// computes `own`.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] for no shards, and for own shards beyond `n_shards`.
    pub fn new(n_shards: usize, own: Range<usize>, sum: ShardSum<'a>) -> Result<Self> {
        const OPERATION: &str = "Shards::new";
        let n = n_shards as f64;
        check(OPERATION, "number of shards", n, n_shards > 0, "at least 1")?;
        let end = own.end as f64;
        let is_inside = own.end <= n_shards;
        check(
            OPERATION,
            "end of the own shards",
            end,
            is_inside,
            "at most the number of shards",
        )?;
        Ok(Self { n_shards, own, sum })
    }

    /// Returns the number of all shards.
    #[must_use]
    pub fn n_shards(&self) -> usize {
        self.n_shards
    }

    /// Returns the part of a batch for each of the own shards.
    pub(super) fn parts<'b>(&self, batch: &'b [u32]) -> impl Iterator<Item = &'b [u32]> + use<'b> {
        let len = batch.len() / self.n_shards;
        let own = self.own.clone();
        own.map(move |shard| &batch[shard * len..(shard + 1) * len])
    }

    /// Returns the sums over all shards.
    pub(super) fn sum(&mut self, own: &[Vec<Tensor>]) -> Result<Vec<Tensor>> {
        (self.sum)(own).map_err(|message| Error::ShardSum { message })
    }
}
