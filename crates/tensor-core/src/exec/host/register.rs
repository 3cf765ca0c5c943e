//! Memory for lanes.

use super::lanes::Lane;

/// A cache line, so that vectors never straddle two.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u32; 16]);

/// Memory for a block of lanes of any type.
#[derive(Clone, Default)]
pub(super) struct Register(Vec<Line>);

impl Register {
    pub(super) fn with_lanes(lanes: usize) -> Self {
        const LANES_A_LINE: usize = 8;
        Self(vec![Line([0; 16]); lanes.div_ceil(LANES_A_LINE)])
    }

    #[inline(always)]
    pub(super) fn lanes<T: Lane>(&self) -> &[T] {
        bytemuck::cast_slice(&self.0)
    }

    #[inline(always)]
    pub(super) fn lanes_mut<T: Lane>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    #[inline(always)]
    pub(super) fn destination(&mut self) -> Destination<'_> {
        Destination(bytemuck::cast_slice_mut(&mut self.0))
    }
}

/// Where an instruction writes: a register, or the output itself.
pub(super) struct Destination<'a>(pub(super) &'a mut [u8]);

impl Destination<'_> {
    #[inline(always)]
    pub(super) fn lanes_mut<T: Lane>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.0)
    }
}

/// Runs `$body` with `$t` standing for the lanes of a [`DType`].
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
