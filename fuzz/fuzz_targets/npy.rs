//! The fuzz target `npy` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::npy::run(bytes));
