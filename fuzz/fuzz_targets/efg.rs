//! The fuzz target `efg` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::efg::run(bytes));
