//! The input data of random programs.

use half::f16;
use proptest::prelude::*;

use super::program::dtype;
use crate::Tensor;
use crate::dtype::{DType, Element, Scalar, with_element};
use crate::rng::Philox;

/// A tensor of data that is generated from its seed.
#[derive(Debug, Clone)]
pub(super) struct Input {
    shape: Vec<usize>,
    dtype: DType,
    values: Values,
    seed: u64,
}

/// The distribution of an input's elements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    /// Small multiples of 1/4, or small integers: sums and products of a few elements are exact.
    Dyadic,
    /// Numbers of ordinary size: floats in `-2..2`, integers in `-1000..=1000`.
    Plain,
    /// Numbers in `1/4..9/4`.
    Positive,
    /// Any value of the type, with a large share of special values.
    Wild,
    /// Mostly 0, with a 1 in about `one_in` elements.
    RarelyOne { one_in: u32 },
    /// Mostly 1, with a 0 in about `one_in` elements.
    RarelyZero { one_in: u32 },
    /// Small numbers, except that one of `every` elements is 1000.
    OneFar { every: usize },
}

/// Special values: difficult as floats, or as integers after a conversion.
const TROUBLE: [f64; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    31.0,
    32.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f32::MAX as f64,
    f32::MIN_POSITIVE as f64,
    1e-40,
    -1e30,
    1e-30,
    -2_147_483_648.0,
    2_147_483_647.0,
    4_294_967_295.0,
    16_777_217.0,
];

pub(super) fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let values =
        prop_oneof![4 => Just(Values::Dyadic), 2 => Just(Values::Plain), 1 => Just(Values::Wild)];
    let input = |values| {
        (input_shape(), dtype(), any::<u16>())
            .prop_map(move |(shape, dtype, seed)| Input::new(&shape, dtype, values, seed))
    };
    // Mostly one distribution for the whole program, because values only stay exact among exact
    // values.
    let alike = values
        .clone()
        .prop_flat_map(move |values| prop::collection::vec(input(values), 1..4));
    let mixed = prop::collection::vec(values.prop_flat_map(input), 1..4);
    prop_oneof![3 => alike, 1 => mixed]
}

/// Returns a small shape. Few different sizes, so that equal sizes meet often; 0 and 1 occur.
pub(super) fn shape() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1 => Just(0_usize), 7 => Just(1), 9 => Just(2), 9 => Just(3), 5 => Just(4), 2 => 5_usize..9];
    prop::collection::vec(size, 0..6)
}

/// Returns a small shape, or a long axis that may have a short one next to it, with more elements
/// than one block of an executor.
fn input_shape() -> impl Strategy<Value = Vec<usize>> {
    let long = prop_oneof![1023_usize..1026, 1000_usize..1400, 2046_usize..2051];
    let with_short = (long.clone(), 1_usize..3, any::<bool>()).prop_map(|(long, short, last)| {
        if last {
            vec![long, short]
        } else {
            vec![short, long]
        }
    });
    prop_oneof![16 => shape(), 1 => long.prop_map(|long| vec![long]), 1 => with_short]
}

impl Input {
    pub(super) fn new(shape: &[usize], dtype: DType, values: Values, seed: u16) -> Self {
        Self {
            shape: shape.to_vec(),
            dtype,
            values,
            seed: seed.into(),
        }
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the elements as f64.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let (len, random) = (
            self.shape.iter().product::<usize>() as u64,
            Philox::new(self.seed),
        );
        (0..len)
            .map(|at| self.element(random, at).to_f64())
            .collect()
    }

    pub(super) fn tensor(&self) -> Tensor {
        let len = self.shape.iter().product::<usize>() as u64;
        let random = Philox::new(self.seed);
        with_element!(self.dtype, T => {
            let element = |at| T::from_scalar(self.element(random, at)).expect("the element has the type of the tensor");
            Tensor::from_vec::<T>(&self.shape, (0..len).map(element).collect())
        })
    }

    fn element(&self, random: Philox, at: u64) -> Scalar {
        let word = random.word(at);
        let small = f64::from(word % 17) - 8.0;
        let from_number = |number: f64| Scalar::F64(number).cast(self.dtype);
        let is_integer = self.dtype.is_integer();
        match self.values {
            Values::RarelyOne { one_in } => {
                from_number(f64::from(u8::from(word.is_multiple_of(one_in))))
            }
            Values::RarelyZero { one_in } => {
                from_number(f64::from(u8::from(!word.is_multiple_of(one_in))))
            }
            Values::OneFar { every } if at % every as u64 == 1 => from_number(1000.0),
            Values::OneFar { .. } => from_number(small / 4.0),
            Values::Dyadic if self.dtype == DType::Bool => Scalar::Bool(word % 2 == 1),
            Values::Dyadic if is_integer => from_number(small),
            Values::Dyadic => from_number(small / 4.0),
            Values::Plain if is_integer => from_number(f64::from(word % 2001) - 1000.0),
            Values::Plain => from_number(4.0 * f64::from(random.uniform_f32(at)) - 2.0),
            Values::Positive => from_number(2.0 * f64::from(random.uniform_f32(at)) + 0.25),
            Values::Wild if word % 4 < 2 => {
                from_number(TROUBLE[(word >> 8) as usize % TROUBLE.len()])
            }
            Values::Wild if word % 4 == 2 => {
                from_number(4.0 * f64::from(random.uniform_f32(at)) - 2.0)
            }
            Values::Wild => self.any_bits(random.word(at + (1 << 32))),
        }
    }

    /// Returns an element with random bits. For f64, a random f32 scaled by 1.1, so that most
    /// values need more digits than f32 has.
    fn any_bits(&self, word: u32) -> Scalar {
        match self.dtype {
            DType::F32 => Scalar::F32(f32::from_bits(word)),
            DType::F16 => Scalar::F16(f16::from_bits((word >> 16) as u16)),
            DType::U32 => Scalar::U32(word),
            DType::I32 => Scalar::I32(word.cast_signed()),
            DType::F64 => Scalar::F64(f64::from(f32::from_bits(word)) * 1.1),
            DType::Bool => Scalar::Bool(word % 2 == 1),
        }
    }
}
