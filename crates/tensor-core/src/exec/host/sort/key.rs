//! The keys of elements: unsigned integers in the order of a sort.

use bytemuck::{Pod, Zeroable};

use crate::dtype::Element;

/// An element type whose values have sort keys.
pub(super) trait Key: Element {
    /// The key of an element, without its position.
    type Alone: Item<Self>;
    /// The key of an element and its position.
    type WithPosition: Item<Self>;
    /// The integer of the key.
    type Bits: Copy;

    /// Returns the key. -0.0 and 0.0 have equal keys, and so have all NaNs.
    fn key(self, descending: bool) -> Self::Bits;

    /// Returns the element of a key: 0.0 for the key of zeros, and some NaN for the key of NaNs.
    fn from_key(key: Self::Bits, descending: bool) -> Self;

    fn is_nan(self) -> bool;
    fn is_zero(self) -> bool;

    /// Returns whether the element is -0.0 or NaN, so that `from_key` may return other bits.
    fn is_variant(self) -> bool;
}

/// A key, perhaps with a position. Items are sorted in ascending order.
pub(super) trait Item<S: Key>: Radix {
    /// The type of the results of the sort.
    type Result: Element;

    fn new(key: S::Bits, position: usize) -> Self;

    /// Returns the result of the sort at the place of this item.
    fn result(self, descending: bool) -> Self::Result;

    /// Returns an element as a result; `None` if results are positions.
    fn from_element(element: S) -> Option<Self::Result>;
}

/// A value that can be sorted by the bytes of its key.
pub(super) trait Radix: Pod + Ord + Send + Sync {
    /// The number of bytes of the key.
    const BYTES: usize;

    /// Returns a byte of the key, the lowest first.
    fn byte(self, number: usize) -> usize;
}

impl Radix for u32 {
    const BYTES: usize = 4;

    fn byte(self, number: usize) -> usize {
        (self >> (8 * number) & 0xff) as usize
    }
}

impl Radix for u64 {
    const BYTES: usize = 8;

    #[allow(clippy::cast_possible_truncation, reason = "the value is a byte")]
    fn byte(self, number: usize) -> usize {
        (self >> (8 * number) & 0xff) as usize
    }
}

/// A key of 32 bits in the upper half, and a position in the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Packed(u64);

impl Radix for Packed {
    const BYTES: usize = 4;

    fn byte(self, number: usize) -> usize {
        self.0.byte(4 + number)
    }
}

/// A key of 64 bits and a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(super) struct WithPosition {
    key: u64,
    position: u32,
    padding: u32,
}

impl Radix for WithPosition {
    const BYTES: usize = 8;

    fn byte(self, number: usize) -> usize {
        self.key.byte(number)
    }
}

/// Converts a position on an axis of at most 2^32 elements.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a checked nest has no longer axis"
)]
fn narrow(position: usize) -> u32 {
    position as u32
}

macro_rules! keys {
    ($($element:ty, $bits:ty, $with_position:ty, |$x:ident| $to:expr, |$key:ident| $from:expr;)*) => {$(
        impl Key for $element {
            type Alone = $bits;
            type WithPosition = $with_position;
            type Bits = $bits;

            fn key(self, descending: bool) -> $bits {
                if self.is_nan() {
                    return <$bits>::MAX;
                }
                let $x = self;
                let ascending: $bits = $to;
                if descending { !ascending } else { ascending }
            }

            fn from_key(key: $bits, descending: bool) -> Self {
                let $key = if descending { !key } else { key };
                $from
            }

            #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
            fn is_nan(self) -> bool {
                self != self
            }

            fn is_zero(self) -> bool {
                self == Self::default()
            }

            fn is_variant(self) -> bool {
                let $key = self.key(false);
                let plain: Self = $from;
                self.is_nan() || plain.to_ne_bytes() != self.to_ne_bytes()
            }
        }

        impl Item<$element> for $bits {
            type Result = $element;

            fn new(key: $bits, _position: usize) -> Self {
                key
            }

            fn result(self, descending: bool) -> $element {
                <$element>::from_key(self, descending)
            }

            fn from_element(element: $element) -> Option<$element> {
                Some(element)
            }
        }
    )*};
}
keys! {
    u32, u32, Packed, |x| x, |key| key;
    i32, u32, Packed, |x| x.cast_unsigned() ^ (1 << 31), |key| (key ^ (1 << 31)).cast_signed();
    // The bits of floats with a sign are in reverse order. The sum with 0.0 removes the sign of
    // zero.
    f32, u32, Packed, |x| {
        let bits = (x + 0.0).to_bits();
        if bits >> 31 == 1 { !bits } else { bits | (1 << 31) }
    }, |key| f32::from_bits(if key >> 31 == 1 { key ^ (1 << 31) } else { !key });
    f64, u64, WithPosition, |x| {
        let bits = (x + 0.0).to_bits();
        if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
    }, |key| f64::from_bits(if key >> 63 == 1 { key ^ (1 << 63) } else { !key });
}

impl<S: Key<Bits = u32>> Item<S> for Packed {
    type Result = u32;

    fn new(key: u32, position: usize) -> Self {
        Self(u64::from(key) << 32 | u64::from(narrow(position)))
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "the lower half is the position"
    )]
    fn result(self, _descending: bool) -> u32 {
        self.0 as u32
    }

    fn from_element(_element: S) -> Option<u32> {
        None
    }
}

impl Item<f64> for WithPosition {
    type Result = u32;

    fn new(key: u64, position: usize) -> Self {
        Self {
            key,
            position: narrow(position),
            padding: 0,
        }
    }

    fn result(self, _descending: bool) -> u32 {
        self.position
    }

    fn from_element(_element: f64) -> Option<u32> {
        None
    }
}
