//! Nests that pack flags into words.
//!
//! Role: finds these nests, which executors run without the conversion and the shift of each flag.
//!
//! ```text
//! word = sum over bit of (u32(flag[bit]) << bit)
//! ```

use super::{LoopNest, Value, ValueId};
use crate::dtype::DType;
use crate::op::{Binary, Reduce};

/// The number of bits of a word.
pub(crate) const WORD_BITS: usize = u32::BITS as usize;

impl LoopNest {
    /// Returns the flag that the nest packs into the words of its result; `None` for other nests.
    ///
    /// The values after the packing are computed from the words and from constants, not from
    /// inputs.
    #[must_use]
    pub fn packed_flag(&self) -> Option<ValueId> {
        let [bits] = &self.reduce[..] else {
            return None;
        };
        let is_reduced = |value: &&Value| matches!(value, Value::Reduced(..));
        let mut reductions = self.values.iter().filter(is_reduced);
        let (Some(Value::Reduced(Reduce::Sum, shifted)), None) =
            (reductions.next(), reductions.next())
        else {
            return None;
        };
        let Value::Binary(Binary::Shl, word, place) = &self.values[shifted.0] else {
            return None;
        };
        let Value::Cast(DType::U32, flag) = &self.values[word.0] else {
            return None;
        };
        let Value::Index(map) = &self.values[place.0] else {
            return None;
        };
        let (domain, reduced) = map.strides.split_at(self.domain.len());
        let counts_bits =
            map.offset == 0 && reduced == [1] && domain.iter().all(|&stride| stride == 0);
        let needed = self.epilogue().into_iter().zip(&self.values);
        let mut after = needed.filter_map(|(is_needed, value)| is_needed.then_some(value));
        let follows_words = after.all(|value| value.maps().next().is_none());
        let is_packing = *bits == WORD_BITS
            && self.dtypes[flag.0] == DType::Bool
            && counts_bits
            && follows_words;
        is_packing.then_some(*flag)
    }

    /// Returns the values that convert and shift the flag that the nest packs, unless another value
    /// reads them.
    pub(crate) fn packing_shifts(&self) -> Vec<ValueId> {
        let readers = |id: ValueId| {
            let all = self.values.iter().flat_map(Value::operands);
            all.filter(|&operand| operand == id).count()
        };
        let reduced = self.values.iter().find_map(|value| match value {
            Value::Reduced(_, shifted) => Some(*shifted),
            _ => None,
        });
        let shifted = reduced.into_iter();
        let chain = shifted.flat_map(|id| [id].into_iter().chain(self.values[id.0].operands()));
        // A flag may be computed from the number of its bit.
        chain.filter(|&id| readers(id) == 1).collect()
    }

    /// Returns the `bool` input whose first elements are, in order, the bits of the result; `None`
    /// if the nest does more than to pack an input. If the input has no further elements, an
    /// executor that stores 32 `bool`s in a word has the result already.
    #[must_use]
    pub fn packed_input(&self) -> Option<usize> {
        let flag = self.packed_flag()?;
        let Value::Load { input, map, guards } = &self.values[flag.0] else {
            return None;
        };
        let mut expected = 1;
        let strides = map.strides.iter().zip(self.sizes());
        let is_in_order = strides.rev().all(|(&stride, size)| {
            let is_expected = stride == expected || size == 1;
            expected = expected.saturating_mul(size.cast_signed());
            is_expected
        });
        let is_only_packed = matches!(self.values[self.result().0], Value::Reduced(..));
        let is_whole = map.offset == 0 && guards.is_empty() && is_in_order && is_only_packed;
        is_whole.then_some(*input)
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::exec::{Executor, Host};
    use crate::plan::Plan;
    use crate::tensor::Tensor;

    /// Returns for each step of a program whether it packs a flag, and the input that it packs.
    fn packings(program: &Tensor) -> Vec<(bool, Option<usize>)> {
        let (plan, _) = Plan::new(&[program], &Host::new().target()).unwrap();
        let steps = plan.steps.iter().map(|step| &step.nest);
        steps
            .map(|nest| (nest.packed_flag().is_some(), nest.packed_input()))
            .collect()
    }

    #[test]
    fn only_inputs_in_order_and_in_whole_words_are_words_already() {
        let flags = |shape: &[usize]| {
            let n = shape.iter().product();
            Tensor::from_vec(
                shape,
                (0..n)
                    .map(|i: usize| i.is_multiple_of(3))
                    .collect::<Vec<bool>>(),
            )
        };
        let whole = flags(&[3, 1, 64]);
        assert_eq!(packings(&whole.pack_bits()), [(true, Some(0))]);
        let first_row = flags(&[3, 64]).slice(0, ..1);
        assert_eq!(packings(&first_row.pack_bits()), [(true, Some(0))]);
        let reshaped = flags(&[2, 96]).reshape(&[3, 64]);
        assert_eq!(packings(&reshaped.pack_bits()), [(true, Some(0))]);
        for other in [
            flags(&[3, 40]).pack_bits(),
            flags(&[64, 32]).t().pack_bits(),
            flags(&[4, 64]).slice(1, 32..).pack_bits(),
            flags(&[4, 64]).slice(0, 1..).pack_bits(),
            flags(&[1, 64]).broadcast_to(&[3, 64]).pack_bits(),
            (!flags(&[3, 64])).pack_bits(),
            flags(&[3, 64]).pack_bits() ^ 1,
            Tensor::from_vec(&[64], vec![0.5_f32; 64]).gt(0).pack_bits(),
        ] {
            assert_eq!(packings(&other), [(true, None)], "{other:?}");
        }
        assert_eq!(packings(&whole.count(-1)), [(false, None)]);
    }

    #[test]
    fn flags_of_sums_are_stored_and_not_the_numbers_that_are_packed() {
        let ones = |shape: &[usize]| Tensor::from_vec(shape, vec![1_i32; shape.iter().product()]);
        let sums = (ones(&[9, 64, 1]) * ones(&[1, 64, 33])).sum(1);
        let packed = sums.gt(5).pack_bits();
        let (plan, _) = Plan::new(&[&packed], &Host::new().target()).unwrap();
        let dtypes: Vec<DType> = plan.steps.iter().map(|step| step.nest.dtype()).collect();
        assert_eq!(dtypes, [DType::Bool, DType::U32], "{}", plan.explain());
        assert!(plan.steps[1].nest.packed_flag().is_some());
    }
}
