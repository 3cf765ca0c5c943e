//! Packed layers on a GPU (feature `gpu`).
//!
//! Role: wraps the kernels `bit_conv_sums` and `bit_conv_codes`. No other module of the crate uses
//! a device.
//! Layout: bit `c % 32` of word `c / 32` is channel `c` of a group; unused bits are 0.

mod bit_conv;
mod network;

pub use bit_conv::{
    BitConv, BitConvBorder, BitConvCodes, BitConvData, BitConvGeometry, CodedBitConv,
};
pub use network::DeviceNetwork;
