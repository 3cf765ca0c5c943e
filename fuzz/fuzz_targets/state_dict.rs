//! The fuzz target `state_dict` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::state_dict::run(bytes));
