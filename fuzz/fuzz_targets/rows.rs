//! The fuzz target `rows` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::rows::run(bytes));
