//! The fuzz target `checkpoint` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::checkpoint::run(bytes));
