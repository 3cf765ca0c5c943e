//! The fuzz target `nfg` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::nfg::run(bytes));
