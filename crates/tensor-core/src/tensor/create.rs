//! Constructors: tensors from data, constants, positions and random streams.

use std::f32::consts::TAU;
use std::sync::Arc;

use ndarray::{Array, Dimension};

use super::{Op, Tensor, or_error_node};
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::op::MAX_POSITIONS;
use crate::rng::Philox;
use crate::shape::{allocatable_count, check_rank, element_count};
use crate::storage::HostStorage;

impl Tensor {
    /// Creates a tensor from an `ndarray`, without a copy if the array is contiguous and row-major.
    #[track_caller]
    #[must_use]
    pub fn from_array<T: Element, D: Dimension>(array: Array<T, D>) -> Self {
        let shape = array.shape().to_vec();
        let len = array.len();
        let data = if array.is_standard_layout() {
            match array.into_raw_vec_and_offset() {
                (data, None | Some(0)) if data.len() == len => data,
                (data, offset) => {
                    let first = offset.unwrap_or(0);
                    data[first..first + len].to_vec()
                }
            }
        } else {
            array.iter().copied().collect()
        };
        Self::from_vec(&shape, data)
    }

    /// Creates a tensor of `shape` from its elements in row-major order, without a copy.
    ///
    /// Returns an error node of [`Error::LengthMismatch`] if the number of elements differs from
    /// that of `shape`, of [`Error::TooLarge`] if the shape exceeds the address space, and of
    /// [`Error::RankTooLarge`] beyond [`MAX_RANK`](crate::shape::MAX_RANK) axes.
    ///
    /// # Examples
    /// ```
    /// # use tensor_core::Tensor;
    /// let error = Tensor::from_vec(&[2, 2], vec![1.0_f32, 2.0]).shape().unwrap_err();
    /// let message = "from_vec: shape [2, 2] has 4 elements, but the data has 2";
    /// assert_eq!(error.root().to_string(), message);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn from_vec<T: Element>(shape: &[usize], data: Vec<T>) -> Self {
        let operation = "from_vec";
        or_error_node!(check_rank(operation, shape.len()));
        let expected = or_error_node!(allocatable_count::<T>(operation, shape));
        if data.len() != expected {
            return Self::error(Error::LengthMismatch {
                operation,
                shape: shape.to_vec(),
                expected,
                actual: data.len(),
            });
        }
        let storage = Arc::new(HostStorage::foreign(T::into_host(data)));
        Self::new(Op::Data(storage), Vec::new(), shape.to_vec(), T::DTYPE)
    }

    /// Creates a tensor without axes that holds one element.
    #[track_caller]
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::constant(value.into_scalar())
    }

    #[track_caller]
    pub(crate) fn constant(value: Scalar) -> Self {
        Self::new(Op::Const(value), Vec::new(), Vec::new(), value.dtype())
    }

    /// Creates a tensor of `shape` with the same value in all elements. The tensor takes no memory.
    #[track_caller]
    #[must_use]
    pub fn full<T: Element>(shape: &[usize], value: T) -> Self {
        Self::scalar(value)
            .broadcast_to(shape)
            .composed("full", &[])
    }

    /// Creates a tensor of `shape` filled with zeros, or `false`. The tensor takes no memory.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{DType, Host, Tensor};
    /// let x = Tensor::zeros(&[2, 3], DType::F32) + Tensor::ones(&[3], DType::F32);
    /// assert_eq!(x.sum(..).item::<f32>(&Host::new())?, 6.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn zeros(shape: &[usize], dtype: DType) -> Self {
        Self::constant(Scalar::zero(dtype))
            .broadcast_to(shape)
            .composed("zeros", &[])
    }

    /// Creates a tensor of `shape` filled with ones, or `true`. The tensor takes no memory.
    #[track_caller]
    #[must_use]
    pub fn ones(shape: &[usize], dtype: DType) -> Self {
        Self::constant(Scalar::F64(1.0).cast(dtype))
            .broadcast_to(shape)
            .composed("ones", &[])
    }

    /// Creates the tensor of the positions `0, 1, …, len - 1`, as `i32`. The tensor takes no
    /// memory.
    ///
    /// Returns an error node of [`Error::TooLarge`] for more than 2^31 positions.
    #[track_caller]
    #[must_use]
    pub fn arange(len: usize) -> Self {
        Self::index("arange", len, 1 << 31).cast(DType::I32)
    }

    /// Creates the tensor of the positions `0, 1, …, len - 1`, as `u32`; an error node if there are
    /// more than `limit`.
    #[track_caller]
    pub(super) fn index(operation: &'static str, len: usize, limit: usize) -> Self {
        if len <= limit {
            Self::new(Op::Index, Vec::new(), vec![len], DType::U32)
        } else {
            Self::error(Error::TooLarge {
                operation,
                shape: vec![len],
                limit,
            })
        }
    }

    /// Creates a tensor of uniform random `f32`s in [0, 1). Element `i`, counted in row-major
    /// order, is [`Philox::uniform_f32`]`(i)` of the stream, on every executor.
    ///
    /// The tensor takes no memory, because each use computes the numbers again. Returns an error
    /// node of [`Error::TooLarge`] for more than 2^32 elements, and of [`Error::RankTooLarge`] for
    /// too many axes.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::rng::Philox;
    /// use tensor_core::{Host, Tensor};
    /// let stream = Philox::new(7).stream(3);
    /// let x = Tensor::rand(stream, &[2, 3]).eval::<f32>(&Host::new())?;
    /// assert_eq!(x[[1, 2]], stream.uniform_f32(5));
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn rand(stream: Philox, shape: &[usize]) -> Self {
        let number = stream_number(stream);
        let words = or_error_node!(words("rand", stream, &number, shape, 1, 0));
        uniform(&words).reshape(shape)
    }

    /// Creates a tensor of uniform random `f32`s in [0, 1), from a stream whose number is the
    /// element of a tensor: the elements of [`rand(seed.stream(n), shape)`](Self::rand), where `n`
    /// is the element of `stream`.
    ///
    /// The stream number may be an argument of a function that [`jit`](crate::jit) compiles, so
    /// that dropout or noise differs in every call without a new plan. `stream` is a `u32` tensor
    /// of one element; the stream of `seed` itself is ignored. Returns an error node of
    /// [`Error::DTypeUnsupported`] or [`Error::NotAScalar`] if `stream` has another type or shape,
    /// of [`Error::TooLarge`] for more than 2^32 elements, and of [`Error::RankTooLarge`].
    ///
    /// # Examples
    /// ```
    /// use tensor_core::rng::Philox;
    /// use tensor_core::{Host, Tensor, jit};
    /// let seed = Philox::new(7);
    /// let noise = jit(|of: &[Tensor]| Ok(vec![Tensor::rand_in_stream(seed, &of[0], &[3])]));
    /// for step in 0..2_u32 {
    ///     let drawn = noise.call(&Host::new(), &[&Tensor::scalar(step)])?;
    ///     let expected = Tensor::rand(seed.stream(step.into()), &[3]);
    ///     assert_eq!(drawn[0].to_host::<f32>()?, expected.eval::<f32>(&Host::new())?);
    /// }
    /// assert_eq!(noise.counters().misses, 1); // one plan for all steps
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn rand_in_stream(seed: Philox, stream: &Self, shape: &[usize]) -> Self {
        let operation = "rand_in_stream";
        let number = or_error_node!(stream_words(operation, stream));
        let words = or_error_node!(words(operation, seed, &number, shape, 1, 0));
        uniform(&words).reshape(shape)
    }

    /// Creates a tensor of standard normal random `f32`s by the Box–Muller method.
    ///
    /// Element `i` is `sqrt(-2 ln(1 - u)) cos(2π v)` in `f32`, where `u` and `v` are
    /// [`Philox::uniform_f32`] of `2 i` and `2 i + 1`. No element exceeds 5.78 in magnitude, and
    /// executors agree up to the errors of their logarithm and cosine. The tensor takes no memory,
    /// because each use computes the numbers again. Returns an error node of [`Error::TooLarge`]
    /// for more than 2^31 elements, and of [`Error::RankTooLarge`]. [`Philox::normal`] has longer
    /// tails, on the host.
    #[track_caller]
    #[must_use]
    pub fn randn(stream: Philox, shape: &[usize]) -> Self {
        or_error_node!(normal("randn", stream, &stream_number(stream), shape))
    }

    /// Creates a tensor of standard normal random `f32`s, from a stream whose number is the element
    /// of a tensor: the elements of [`randn(seed.stream(n), shape)`](Self::randn), where `n` is the
    /// element of `stream`, a `u32` tensor of one element.
    ///
    /// Errors and the use in compiled functions are as for
    /// [`rand_in_stream`](Self::rand_in_stream).
    #[track_caller]
    #[must_use]
    pub fn randn_in_stream(seed: Philox, stream: &Self, shape: &[usize]) -> Self {
        let operation = "randn_in_stream";
        let number = or_error_node!(stream_words(operation, stream));
        or_error_node!(normal(operation, seed, &number, shape))
    }
}

/// Returns a stream number as two words, low word first.
#[track_caller]
fn stream_number(stream: Philox) -> [Tensor; 2] {
    // Nodes that a closure creates would not record the line of the caller.
    let [low, high] = stream.counter_high();
    [Tensor::scalar(low), Tensor::scalar(high)]
}

/// Returns the stream number that a `u32` tensor of one element holds, as two words, low word
/// first. The high word is 0.
#[track_caller]
fn stream_words(operation: &'static str, stream: &Tensor) -> Result<[Tensor; 2]> {
    let (dtype, shape) = (stream.dtype()?, stream.shape()?);
    if dtype != DType::U32 {
        return Err(Error::DTypeUnsupported { operation, dtype });
    }
    if element_count(operation, shape)? != 1 {
        let shape = shape.to_vec();
        return Err(Error::NotAScalar { operation, shape });
    }
    Ok([stream.reshape(&[]), Tensor::scalar(0_u32)])
}

/// Computes normal numbers by the Box–Muller method.
#[track_caller]
fn normal(
    operation: &'static str,
    seed: Philox,
    number: &[Tensor; 2],
    shape: &[usize],
) -> Result<Tensor> {
    let u = words(operation, seed, number, shape, 2, 0)?;
    let v = words(operation, seed, number, shape, 2, 1)?;
    // `1 - u` is in (0, 1], so the logarithm is finite.
    let radius = ((1.0 - uniform(&u)).ln() * -2.0).sqrt();
    let angle = uniform(&v) * TAU;
    Ok((radius * angle.cos()).reshape(shape))
}

/// Returns word `stride * i + first` of a stream for each element `i` of a shape, as one axis.
#[track_caller]
fn words(
    operation: &'static str,
    seed: Philox,
    number: &[Tensor; 2],
    shape: &[usize],
    stride: u32,
    first: u32,
) -> Result<Tensor> {
    check_rank(operation, shape.len())?;
    let len = element_count(operation, shape)?;
    // Positions are `u32`, and `stride` words belong to each element.
    let at = Tensor::index(operation, len, MAX_POSITIONS / stride as usize);
    let low = number[0].broadcast_to(&[len]);
    let high = number[1].broadcast_to(&[len]);
    Ok(Tensor::new(
        Op::Random {
            key: seed.key(),
            stride,
            first,
        },
        vec![at, low, high],
        vec![len],
        DType::U32,
    ))
}

/// Converts random words to numbers in [0, 1). Only the upper 24 bits of a word are used, because
/// an `f32` has 24 bits of precision.
#[track_caller]
fn uniform(words: &Tensor) -> Tensor {
    const LOW_BITS: u32 = 8;
    const UNIT: f32 = 1.0 / (1 << 24) as f32;
    words.shr(LOW_BITS).cast(DType::F32) * UNIT
}
