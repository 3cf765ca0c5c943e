//! The fuzz target `einsum` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::einsum::run(bytes));
