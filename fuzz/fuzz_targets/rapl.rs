//! The fuzz target `rapl` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::rapl::run(bytes));
