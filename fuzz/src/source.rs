//! Numbers and choices from the bytes of an input, for structured inputs.

/// Special values: difficult as floats, or as integers after a conversion.
const HOSTILE: [f64; 24] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1e-9,
    1e9,
    1e150,
    -1e150,
    1.000_000_1e150,
    1e300,
    -1e300,
    1e-300,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    f64::EPSILON,
    9_007_199_254_740_993.0,
    -2_147_483_648.0,
    18_446_744_073_709_551_615.0,
];

/// The unread bytes of an input. A source without bytes returns zeros.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        byte
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns a number below `n`, which is not 0 and at most 256.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    pub(crate) fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns a number of two bytes.
    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Returns a number of eight bytes.
    pub(crate) fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Returns a small multiple of 1/4, so that sums and products of a few numbers are exact.
    pub(crate) fn dyadic(&mut self) -> f64 {
        f64::from(self.byte().cast_signed()) / 4.0
    }

    /// Returns mostly a small multiple of 1/4, sometimes a special value or any f64.
    pub(crate) fn hostile(&mut self) -> f64 {
        match self.byte() {
            0..192 => self.dyadic(),
            192..240 => self.choose(&HOSTILE),
            _ => f64::from_bits(self.word()),
        }
    }

    /// Returns at most `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Returns all bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }
}
