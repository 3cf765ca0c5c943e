//! Numbers of a nest that its kernel takes as parameters.
//!
//! Role: splits a nest into a form, for which a kernel is written and compiled, and the numbers of
//! one run. A learning rate, the start of a slice or a random stream may therefore change at every
//! step without a new kernel, and no compiler can fold a constant into the operations around it. A
//! `bool` stays a literal.
//! Limits: equal constants of a nest are one parameter, and so are equal keys. A nest in which two
//! constants become equal therefore has another form, which needs one more kernel.
//! Method: a form is a nest in which each number is replaced by the index of its parameter. A
//! constant becomes a scalar of the same type whose bits are the index. An offset other than 0
//! becomes the index plus 1; offset 0 stays 0, because most offsets are always 0. Nests that differ
//! only in these numbers have equal forms. Sizes, strides and extents stay literals, because
//! compilers turn divisions by literals into multiplications.

use std::collections::{BTreeSet, HashMap};

use half::f16;
use tensor_core::Scalar;
use tensor_core::ir::{IndexMap, LoopNest, Value};

/// Words per element of a uniform array, whose elements must be aligned to 16 bytes.
const WORDS: usize = 4;
/// `f64`s per element of a uniform array.
const WIDES: usize = 2;

/// The numbers of a nest, in the order of their parameter indices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    /// Constants of 32 bits or less, offsets and keys.
    words: Vec<u32>,
    /// Constants of type `f64`.
    wides: Vec<f64>,
}

/// The number of parameters of a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    words: usize,
    wides: usize,
}

/// Splits a nest into its form and its numbers.
pub(crate) fn split(nest: &LoopNest) -> (LoopNest, Numbers) {
    let mut form = nest.clone();
    let mut numbers = Numbers::default();
    // Equal keys share one parameter, so that a compiler can recognize that two words come from the
    // same block of a stream.
    let mut keys: HashMap<[u32; 2], [u32; 2]> = HashMap::new();
    for value in &mut form.values {
        match value {
            Value::Const(scalar) => *scalar = numbers.take(*scalar),
            Value::Random { key, .. } => {
                let places = keys.entry(*key);
                *key = *places.or_insert_with_key(|key| key.map(|word| numbers.take_word(word)));
            }
            _ => {}
        }
        for map in value.maps_mut() {
            if map.offset != 0 {
                let place = numbers.take_word(wrapped(map.offset));
                // 0 means no offset, so places count from 1 here.
                map.offset = place as isize + 1;
            }
        }
    }
    (form, numbers)
}

impl Numbers {
    /// Returns the bytes that follow `NestParams` or `WindowParams` in a kernel's parameters. Both
    /// arrays are padded to 16 bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut words = self.words.clone();
        words.resize(words.len().next_multiple_of(WORDS), 0);
        let mut wides = self.wides.clone();
        wides.resize(wides.len().next_multiple_of(WIDES), 0.0);
        let mut bytes = bytemuck::cast_slice(&words).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(&wides));
        bytes
    }

    /// Stores a constant and returns a scalar of the same type whose bits are the index of its
    /// parameter.
    fn take(&mut self, scalar: Scalar) -> Scalar {
        match scalar {
            Scalar::F32(x) => Scalar::F32(f32::from_bits(self.take_word(x.to_bits()))),
            Scalar::F16(x) => {
                let place = self.take_word(x.to_f32().to_bits());
                Scalar::F16(f16::from_bits(u16::try_from(place).unwrap_or(u16::MAX)))
            }
            Scalar::F64(x) => {
                self.wides.push(x);
                Scalar::F64(f64::from_bits(self.wides.len() as u64 - 1))
            }
            Scalar::I32(x) => Scalar::I32(self.take_word(x.cast_unsigned()).cast_signed()),
            Scalar::U32(x) => Scalar::U32(self.take_word(x)),
            // A `bool` has two values, so a literal costs at most two kernels.
            Scalar::Bool(x) => Scalar::Bool(x),
        }
    }

    fn take_word(&mut self, word: u32) -> u32 {
        self.words.push(word);
        // A nest has at most a few hundred values, so the index fits.
        u32::try_from(self.words.len() - 1).unwrap_or(u32::MAX)
    }
}

impl Counts {
    /// Counts the parameters of a form.
    pub(super) fn new(form: &LoopNest) -> Self {
        let mut counts = Self::default();
        let mut keys = BTreeSet::new();
        for value in &form.values {
            match value {
                Value::Const(Scalar::Bool(_)) => {}
                Value::Const(Scalar::F64(_)) => counts.wides += 1,
                Value::Const(_) => counts.words += 1,
                Value::Random { key, .. } if keys.insert(*key) => counts.words += key.len(),
                _ => {}
            }
            counts.words += value.maps().filter(|map| map.offset != 0).count();
        }
        counts
    }

    /// Returns the members of the parameter struct for the numbers.
    pub(super) fn members(self) -> Vec<String> {
        let member = |name: &str, vector: &str, len: usize| {
            (len > 0).then(|| format!("{name}: array<{vector}, {len}>,"))
        };
        let words = member("words", "vec4<u32>", self.words.div_ceil(WORDS));
        let wides = member("wides", "vec2<f64>", self.wides.div_ceil(WIDES));
        words.into_iter().chain(wides).collect()
    }
}

/// Returns the WGSL expression of a constant of a form.
pub(super) fn constant(scalar: Scalar) -> String {
    match scalar {
        Scalar::F32(place) => format!("bitcast<f32>({})", word(place.to_bits())),
        Scalar::F16(place) => format!("bitcast<f32>({})", word(place.to_bits().into())),
        Scalar::F64(place) => {
            let place = usize::try_from(place.to_bits()).unwrap_or(usize::MAX);
            format!("params.wides[{}][{}]", place / WIDES, place % WIDES)
        }
        Scalar::I32(place) => format!("bitcast<i32>({})", word(place.cast_unsigned())),
        Scalar::U32(place) => word(place),
        Scalar::Bool(x) => x.to_string(),
    }
}

/// Returns the WGSL expression of a word of the parameters.
pub(super) fn word(place: u32) -> String {
    let place = place as usize;
    format!("params.words[{}][{}]", place / WORDS, place % WORDS)
}

/// Returns the WGSL expression of the offset of a form's map, as an `i32`; `None` if the offset is
/// 0.
pub(super) fn offset(map: &IndexMap) -> Option<String> {
    let place = u32::try_from(map.offset.checked_sub(1)?).ok()?;
    Some(format!("bitcast<i32>({})", word(place)))
}

/// Returns the text of a form's value for the comment of a kernel, with parameters as
/// `params.words[0][1]` and so on.
pub(super) fn shown(value: &Value) -> String {
    if let Value::Const(scalar) = value {
        return constant(*scalar);
    }
    let mut plain = value.clone();
    let mut offsets = Vec::new();
    for map in plain.maps_mut() {
        offsets.extend(offset(map));
        map.offset = 0;
    }
    match &offsets[..] {
        [] => plain.to_string(),
        _ => format!("{plain}, from {}", offsets.join(", ")),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions are counted modulo 2^32"
)]
fn wrapped(number: isize) -> u32 {
    number as u32
}
