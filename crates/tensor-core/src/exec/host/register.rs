//! Registers: memory for a block of lanes.
//!
//! Memory: each thread caches the memory of up to [`MAX_FREE`] dropped registers, because an
//! aligned allocation takes longer than the loops of a small step.

use std::cell::RefCell;

use super::lanes::LaneType;

/// The maximum number of cached registers for each thread; the largest take 8 KiB.
const MAX_FREE: usize = 32;

thread_local! {
    /// Memory of dropped registers, ready for reuse.
    static FREE: RefCell<Vec<Vec<CacheLine>>> = const { RefCell::new(Vec::new()) };
}

/// A cache line; its alignment keeps vectors from straddling two lines.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u32; 16]);

/// The number of lanes of 8 bytes, the widest, in a cache line.
const LANES_A_LINE: usize = 8;

/// Memory for a block of lanes of any type.
#[derive(Default)]
pub(super) struct Register(Vec<CacheLine>);

impl Register {
    /// Returns a register of zeros with room for `lanes` lanes of any type, 8 bytes each at most.
    pub(super) fn with_lanes(lanes: usize) -> Self {
        let n_lines = lanes.div_ceil(LANES_A_LINE);
        let mut lines = Self::empty(n_lines);
        lines.resize(n_lines, CacheLine([0; 16]));
        Self(lines)
    }

    /// Returns a register with room for `lanes` lanes of any type, 8 bytes each at most, that
    /// contains unspecified numbers: clearing takes longer than the loops of a short row.
    pub(super) fn scratch(lanes: usize) -> Self {
        let n_lines = lanes.div_ceil(LANES_A_LINE);
        let mut lines = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        lines.resize(n_lines, CacheLine([0; 16]));
        Self(lines)
    }

    /// Returns an empty list with room for `n_lines` lines, from the cache if the latest entry is
    /// large enough.
    fn empty(n_lines: usize) -> Vec<CacheLine> {
        let mut lines = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if lines.capacity() < n_lines {
            return Vec::with_capacity(n_lines);
        }
        lines.clear();
        lines
    }

    /// Returns the lanes as elements of type `T`.
    #[inline(always)]
    pub(super) fn lanes<T: LaneType>(&self) -> &[T] {
        bytemuck::cast_slice(&self.0)
    }

    /// Returns the lanes as elements of type `T` for writing.
    #[inline(always)]
    pub(super) fn lanes_mut<T: LaneType>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    /// Returns the register as the destination of an instruction.
    #[inline(always)]
    pub(super) fn destination(&mut self) -> Destination<'_> {
        Destination(bytemuck::cast_slice_mut(&mut self.0))
    }
}

impl Clone for Register {
    fn clone(&self) -> Self {
        let mut lines = Self::empty(self.0.len());
        lines.extend_from_slice(&self.0);
        Self(lines)
    }

    fn clone_from(&mut self, source: &Self) {
        self.0.clone_from(&source.0);
    }
}

impl Drop for Register {
    fn drop(&mut self) {
        if self.0.capacity() == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.0);
        // During the end of a thread its cache may be gone; then the memory is freed.
        let _ended = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < MAX_FREE {
                free.push(lines);
            }
        });
    }
}

/// The destination of an instruction: a register, or the output itself.
pub(super) struct Destination<'a>(pub(super) &'a mut [u8]);

impl Destination<'_> {
    /// Returns the destination as lanes of type `T`.
    #[inline(always)]
    pub(super) fn lanes_mut<T: LaneType>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.0)
    }
}

/// Runs `$body` with `$t` defined as the lane type of a [`DType`].
macro_rules! with_lane {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::F32 | DType::F16 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::U32 => {
                type $t = u32;
                $body
            }
            DType::Bool => {
                type $t = u8;
                $body
            }
        }
    };
}
pub(super) use with_lane;
