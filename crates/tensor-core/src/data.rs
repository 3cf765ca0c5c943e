//! Data files.

pub mod idx;
