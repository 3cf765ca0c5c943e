//! Sums over shards that are distributed among ranks, in a fixed order.
//!
//! Role: [`Cluster::all_reduce`], for example for the gradients of a training step.
//! Method: each rank adds the shards that form whole nodes of the tree of sums (`shards`). Each
//! rank then receives its part of the elements of all remaining nodes, adds them, and sends the
//! sums to all others. With an even share of shards a rank sends every element about twice, however
//! many ranks there are.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tensor_core::Tensor;

use crate::error::{Error, Result};
use crate::ranks::Cluster;
use crate::shards::{nodes_of, shards_of, sum_node};

const OPERATION: &str = "all_reduce";
/// The tag of parts of nodes.
const PARTS: mpi::Tag = 3;
/// The tag of parts of the result.
const SUMS: mpi::Tag = 4;

/// The shapes of the tensors of a shard.
type Shapes = Vec<Vec<usize>>;

/// The arguments that are equal on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Form {
    n_shards: usize,
    /// The shapes of the tensors of a shard; `None` on a rank without shards.
    shapes: Option<Shapes>,
}

impl Cluster {
    /// Returns the shards of this rank, of `n_shards` in all: consecutive numbers. Ranks have
    /// equally many shards, or some have one more.
    #[must_use]
    pub fn shards(&self, n_shards: usize) -> Range<usize> {
        shards_of(self.rank(), self.n_ranks(), n_shards)
    }

    /// Returns the sums of tensors over all shards, on all ranks. All ranks call the function.
    ///
    /// `own` contains the tensors of each shard of this rank ([`shards`](Self::shards)), in memory
    /// and of type f32. All shards have tensors of the same shapes.
    ///
    /// The result depends on the number of shards and not on the number of ranks, bit for bit.
    ///
    /// Accuracy: each element is a sum in f32 by a binary tree, with a relative error of at most
    /// `ceil(log2(n_shards))` half units in the last place if no terms cancel.
    /// Cost: a rank sends and receives about twice the bytes of a shard, in two messages to each
    /// other rank; more if the number of shards is no multiple of the number of ranks, or the
    /// share of a rank is no power of two.
    ///
    /// # Errors
    /// On all ranks: [`Error::ParameterInvalid`] for no shards, or if `own` has another number of
    /// shards; [`Error::Tensor`] for a tensor that is not in memory or has another type;
    /// [`Error::OnRank`] for such an error of another rank; [`Error::RanksDiffer`] if ranks have
    /// different shapes or numbers of shards; [`Error::TooLarge`] for 2^31 elements or more per
    /// rank, and like [`Error::Encoding`] as [`exchange`](Self::exchange).
    ///
    /// # Examples
    /// ```no_run
    /// use cluster::Cluster;
    /// use tensor_core::Tensor;
    ///
    /// let cluster = Cluster::start()?;
    /// // Eight shards, on any number of ranks. Shard `n` contributes the number `n`.
    /// let own = cluster.shards(8);
    /// let own: Vec<_> =
    ///     own.map(|shard| vec![Tensor::from_vec(&[2], vec![shard as f32; 2])]).collect();
    /// let sum = cluster.all_reduce(8, &own)?.remove(0);
    /// assert_eq!(sum.to_host::<f32>()?[[0]], 28.0);
    /// # Ok::<(), cluster::Error>(())
    /// ```
    pub fn all_reduce(&self, n_shards: usize, own: &[Vec<Tensor>]) -> Result<Vec<Tensor>> {
        let (shapes, flat) = self.checked_by_all(n_shards, own)?;
        let len = shapes.iter().map(|shape| shape.iter().product::<usize>());
        let sums = self.sum_shards(n_shards, len.sum(), flat);
        let mut sums = &sums[..];
        let tensors = shapes.iter().map(|shape| {
            let (own, rest) = sums.split_at(shape.iter().product());
            sums = rest;
            Tensor::from_vec(shape, own.to_vec())
        });
        Ok(tensors.collect())
    }

    /// Returns the form and the elements of the shards of this rank.
    fn checked(&self, n_shards: usize, own: &[Vec<Tensor>]) -> Result<(Form, Vec<Vec<f32>>)> {
        let invalid = |parameter, actual: String, must: String| Error::ParameterInvalid {
            operation: OPERATION,
            parameter,
            actual,
            must,
        };
        if n_shards == 0 {
            let must = "at least 1".to_owned();
            return Err(invalid("number of shards", "0".to_owned(), must));
        }
        let share = self.shards(n_shards).len();
        if own.len() != share {
            let must = format!("{share}, as `shards` returns");
            return Err(invalid("shards of this rank", own.len().to_string(), must));
        }
        let mut shapes: Option<Shapes> = None;
        for tensors in own {
            let own = tensors.iter().map(|tensor| Ok(tensor.shape()?.to_vec()));
            let own = own.collect::<Result<Vec<_>>>()?;
            let first = shapes.get_or_insert_with(|| own.clone());
            if *first != own {
                let must = format!("{first:?}, as those of the first shard");
                return Err(invalid("shapes of a shard", format!("{own:?}"), must));
            }
        }
        let flat = own.iter().map(|tensors| flattened(tensors));
        Ok((Form { n_shards, shapes }, flat.collect::<Result<_>>()?))
    }

    /// Returns the sums of numbers over all shards, each of which has `len` elements.
    fn sum_shards(&self, n_shards: usize, len: usize, own: Vec<Vec<f32>>) -> Vec<f32> {
        let (rank, n_ranks) = (self.rank(), self.n_ranks());
        let part_of = |rank: usize| shards_of(rank, n_ranks, len);
        let nodes_of = |rank: usize| nodes_of(&shards_of(rank, n_ranks, n_shards), n_shards);

        // The sums of the nodes of this rank.
        let mut shards = self
            .shards(n_shards)
            .map(|shard| shard..shard + 1)
            .zip(own)
            .peekable();
        let own_nodes: Vec<_> = nodes_of(rank)
            .into_iter()
            .map(|node| (node.clone(), sum_node(&node, &mut shards)))
            .collect();

        // The elements that this rank adds, of the nodes of all ranks.
        let others = || (0..n_ranks).filter(|&other| other != rank);
        let mut received: Vec<(usize, Range<usize>, Vec<f32>)> = others()
            .flat_map(|other| nodes_of(other).into_iter().map(move |node| (other, node)))
            .map(|(other, node)| (other, node, vec![0.0; part_of(rank).len()]))
            .collect();
        let to_send: Vec<(usize, &[f32])> = others()
            .flat_map(|other| {
                let part = part_of(other);
                let nodes = own_nodes.iter();
                nodes.map(move |(_, sum)| (other, &sum[part.clone()]))
            })
            .collect();
        let to_receive = received.iter_mut();
        let to_receive = to_receive.map(|(other, _, part)| (*other, &mut part[..]));
        self.swap(PARTS, &to_send, to_receive.collect());

        let own_parts = own_nodes
            .iter()
            .map(|(node, sum)| (node.clone(), sum[part_of(rank)].to_vec()));
        let received = received.into_iter().map(|(_, node, part)| (node, part));
        let mut parts: Vec<_> = received.chain(own_parts).collect();
        parts.sort_by_key(|(node, _)| node.start);
        let sum = sum_node(&(0..n_shards), &mut parts.into_iter().peekable());

        // Each rank sends the sums of its elements to all others.
        let mut sums = vec![0.0; len];
        sums[part_of(rank)].copy_from_slice(&sum);
        let to_send: Vec<(usize, &[f32])> = others().map(|other| (other, &sum[..])).collect();
        let mut to_receive = vec![];
        let mut rest = &mut sums[..];
        for other in 0..n_ranks {
            let (part, after) = rest.split_at_mut(part_of(other).len());
            rest = after;
            if other != rank {
                to_receive.push((other, part));
            }
        }
        self.swap(SUMS, &to_send, to_receive);
        sums
    }

    /// Returns the shapes of the tensors of all shards, and the elements of the own shards. One
    /// exchange distributes the errors and the forms of all ranks.
    fn checked_by_all(
        &self,
        n_shards: usize,
        own: &[Vec<Tensor>],
    ) -> Result<(Shapes, Vec<Vec<f32>>)> {
        let own = self.checked(n_shards, own);
        let form = own.as_ref().map(|(form, _)| form.clone());
        let form = form.map_err(ToString::to_string);
        let answers: Vec<Result<Form, String>> = self.exchange(OPERATION, &form)?;
        let (_, flat) = own?;
        let mut forms = vec![];
        for (rank, answer) in answers.into_iter().enumerate() {
            forms.push(answer.map_err(|message| Error::OnRank {
                operation: OPERATION,
                rank,
                message,
            })?);
        }
        let shapes = common_shapes(&forms)?;
        let lens = shapes.iter().map(|shape| shape.iter().product::<usize>());
        let of_rank = shards_of(0, self.n_ranks(), lens.sum()).len();
        if i32::try_from(of_rank).is_err() {
            return Err(Error::TooLarge {
                operation: OPERATION,
                value: "the elements of a shard that a rank adds".to_owned(),
                len_bytes: of_rank.saturating_mul(size_of::<f32>()),
                limit_bytes: i32::MAX as usize * size_of::<f32>(),
            });
        }
        Ok((shapes, flat))
    }
}

/// Returns the shapes of the tensors of all shards.
fn common_shapes(forms: &[Form]) -> Result<Shapes> {
    let shapes = forms.iter().find_map(|form| form.shapes.clone());
    let shapes = shapes.unwrap_or_default();
    let differs = |form: &Form| {
        let other = form.shapes.as_ref().is_some_and(|own| *own != shapes);
        other || form.n_shards != forms[0].n_shards
    };
    match forms.iter().position(differs) {
        None => Ok(shapes),
        Some(rank) => Err(Error::RanksDiffer {
            operation: OPERATION,
            argument: "the form of the shards",
            rank,
            actual: format!("{:?}", forms[rank]),
            expected: format!("{:?}", forms[0]),
        }),
    }
}

/// Returns the elements of the tensors of a shard, one tensor after the other.
fn flattened(tensors: &[Tensor]) -> Result<Vec<f32>> {
    // A tensor that is not in memory can have a shape that exceeds the memory, so this is an error
    // before the memory is allocated.
    if let Some(absent) = tensors.iter().find(|tensor| tensor.storage().is_none()) {
        absent.to_host::<f32>()?;
    }
    let lens = tensors
        .iter()
        .map(|tensor| Ok(tensor.shape()?.iter().product::<usize>()));
    let mut elements = Vec::with_capacity(lens.sum::<Result<usize>>()?);
    for tensor in tensors {
        let array = tensor.to_host::<f32>()?;
        // Iterating over axes would take longer than the sum.
        match array.as_slice() {
            Some(slice) => elements.extend_from_slice(slice),
            None => elements.extend(array),
        }
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_that_is_not_in_memory_is_an_error_whatever_its_shape() {
        let lazy = Tensor::zeros(&[1 << 40], tensor_core::DType::F32);
        let error = flattened(&[Tensor::from_vec(&[1], vec![1.0_f32]), lazy]).unwrap_err();
        assert!(matches!(error, Error::Tensor(_)), "{error}");
    }
}
